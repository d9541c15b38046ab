"""Simulations of many seeds break no invariant.

A failing seed is printed with its trace. `make simulate` runs many more seeds.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.corpus import ONCE_FAILED
from tests.simulation.harness import KINDS, failures

ROOT = Path(__file__).parents[2]
SEEDS = {
    "workflows": 1_500,
    "jobs": 1_000,
    "background": 500,
    "questions": 250,
    "parallel": 500,
    "lists": 250,
    "approvals": 750,
    "waits": 750,
    "background-waits": 250,
    "starts": 250,
    "background-starts": 250,
    "events": 250,
}
CHUNK = 250


def first_failure(seeds: range | tuple[int, ...], kind: str) -> str:
    """Return the first failing outcome with its trace, or an empty string."""
    return next((str(outcome) for outcome in failures(seeds, kind=KINDS[kind])), "")


@pytest.mark.parametrize(("kind", "first"), [(kind, first) for kind in SEEDS for first in range(0, SEEDS[kind], CHUNK)])
def test_no_invariant_is_broken(kind: str, first: int) -> None:
    broken = first_failure(range(first, first + CHUNK), kind)
    assert not broken, broken


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_seeds_that_failed_once_do_not_fail_again(kind: str) -> None:
    broken = first_failure(ONCE_FAILED[kind], kind)
    assert not broken, broken


def test_a_seed_gives_the_same_simulation_in_every_process() -> None:
    command = [sys.executable, "-m", "tests.simulation", "--seeds", "5", "--digest"]
    digests = {
        subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hashing, "PYTHONPATH": "."},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hashing in ("1", "2")
    }
    assert len(digests) == 1
