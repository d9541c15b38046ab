"""Random plans over all features end as the model of the language says.

A failing plan is shrunk and printed as code. `make model` tries many more.
"""

import logging
from collections.abc import Iterator

import pytest

from tests.model.differences import KNOWN, KnownDifference, known_difference
from tests.model.driver import fast_connections
from tests.model.examples import EXAMPLES, Example
from tests.model.random_plans import random_plan
from tests.model.shrink import difference, report, shrunk

CHUNKS, CHUNK = 4, 25


@pytest.fixture(autouse=True)
def _fast(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.CRITICAL + 1)
    with fast_connections():
        yield


@pytest.mark.parametrize("first", range(0, CHUNKS * CHUNK, CHUNK))
def test_random_plans_end_as_in_the_model(first: int) -> None:
    for seed in range(first, first + CHUNK):
        plan, world = random_plan(seed)
        if not known_difference(plan, world) and difference(plan, world):
            pytest.fail(f"seed {seed}\n{report(*shrunk(plan, world))}", pytrace=False)


@pytest.mark.parametrize("example", [pytest.param(example, id=example.name) for example in EXAMPLES])
def test_a_plan_that_once_differed_ends_as_in_the_model(example: Example) -> None:
    text = difference(example.plan, example.world)
    assert not text, text


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(known, id=known.name, marks=pytest.mark.xfail(strict=True, reason=known.sentence))
        for known in KNOWN
    ],
)
def test_a_known_difference_is_corrected(known: KnownDifference) -> None:
    text = difference(known.plan, known.world)
    assert not text, text
