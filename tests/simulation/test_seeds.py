"""Simulations of many seeds: no invariant is broken, whatever fails, dies, stalls or comes at the same moment.

A failing seed is printed with its trace. `make simulate` runs many more.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.corpus import ONCE_FAILED
from tests.simulation.harness import KINDS, failures
from tests.simulation.jobs.background import BackgroundWorld
from tests.simulation.jobs.world import JobWorld
from tests.simulation.questions import QuestionWorld
from tests.simulation.world import ParallelWorld, World

ROOT = Path(__file__).parents[2]
WORKFLOWS, JOBS, BACKGROUND, QUESTIONS, PARALLEL = 3_000, 1_500, 500, 500, 1_000
CHUNK = 250


def found(seeds: range | tuple[int, ...], kind: type[World] = World) -> str:
    """The first seed of these that breaks an invariant, with its trace; nothing where none does."""
    return next((str(outcome) for outcome in failures(seeds, kind=kind)), "")


@pytest.mark.parametrize("first", range(0, WORKFLOWS, CHUNK))
def test_no_invariant_is_broken(first: int) -> None:
    broken = found(range(first, first + CHUNK))
    assert not broken, broken


@pytest.mark.parametrize("first", range(0, JOBS, CHUNK))
def test_no_invariant_of_jobs_is_broken(first: int) -> None:
    broken = found(range(first, first + CHUNK), JobWorld)
    assert not broken, broken


@pytest.mark.parametrize("first", range(0, BACKGROUND, CHUNK))
def test_no_invariant_of_workflows_in_the_background_is_broken(first: int) -> None:
    broken = found(range(first, first + CHUNK), BackgroundWorld)
    assert not broken, broken


@pytest.mark.parametrize("first", range(0, QUESTIONS, CHUNK))
def test_no_invariant_of_questions_is_broken(first: int) -> None:
    broken = found(range(first, first + CHUNK), QuestionWorld)
    assert not broken, broken


@pytest.mark.parametrize("first", range(0, PARALLEL, CHUNK))
def test_no_invariant_is_broken_when_steps_run_at_the_same_time(first: int) -> None:
    broken = found(range(first, first + CHUNK), ParallelWorld)
    assert not broken, broken


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_seeds_that_broke_an_invariant_once_break_none_any_more(kind: str) -> None:
    broken = found(ONCE_FAILED[kind], KINDS[kind])
    assert not broken, broken


def test_a_seed_is_the_same_simulation_in_every_process() -> None:
    command = [sys.executable, "-m", "tests.simulation", "--seeds", "25", "--digest"]
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
