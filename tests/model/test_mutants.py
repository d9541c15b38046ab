"""The model notices a fault in the engine: the plan of each mutant differs, and only with the fault."""

import logging
from collections.abc import Iterator

import pytest

from tests.model.driver import fast_connections
from tests.model.mutants import MUTANTS, Mutant, difference_of, is_noticed


@pytest.fixture(autouse=True)
def _fast(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.CRITICAL + 1)
    with fast_connections():
        yield


@pytest.mark.parametrize("mutant", [pytest.param(mutant, id=mutant.fault) for mutant in MUTANTS])
def test_the_model_notices_a_fault_in_the_engine(mutant: Mutant) -> None:
    assert not difference_of(mutant)
    # Threads take turns in an order that differs: some faults show only in some orders.
    assert any(is_noticed(mutant) for _ in range(5))
