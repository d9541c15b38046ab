"""Simulations notice when a guard is taken out of Baton. What takes many seeds is left to `make simulate-mutants`."""

import os

import pytest

from tests.simulation.mutants import MOST_SEEDS, MUTANTS, Mutant, killed_by

EVERY = os.environ.get("MUTANTS") == "every"


@pytest.mark.parametrize(
    "mutant", [mutant for mutant in MUTANTS if EVERY or not mutant.is_rare], ids=lambda mutant: mutant.name
)
def test_a_guard_that_is_taken_out_is_missed(mutant: Mutant) -> None:
    outcome = killed_by(mutant)
    assert outcome is not None, f"{MOST_SEEDS} simulations break no invariant"
