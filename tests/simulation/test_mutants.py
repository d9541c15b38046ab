"""Simulations notice a removed guard. Mutants that need many seeds run in `make simulate-mutants`."""

import os

import pytest

from tests.simulation.mutants import MOST_SEEDS, MUTANTS, Mutant, killed_by

EVERY = os.environ.get("MUTANTS") == "every"


@pytest.mark.parametrize(
    "mutant", [mutant for mutant in MUTANTS if EVERY or not mutant.is_rare], ids=lambda mutant: mutant.name
)
def test_a_simulation_notices_a_removed_guard(mutant: Mutant) -> None:
    outcome = killed_by(mutant)
    assert outcome is not None, f"{MOST_SEEDS} simulations break no invariant"
