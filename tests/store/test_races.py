"""Simultaneous writers: no result that was reported as written is lost (docs/storage.md)."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcp_baton.exceptions import Conflict, TaskFinished
from mcp_baton.tasks.record import StepStatus, TaskRecord
from mcp_baton.tasks.store import Batch, StepWrite
from tests.store.conftest import Engine
from tests.store.fixture_types import Begin, Rounds, Store, Threads, run_on
from tests.store.steps import call_at_once, statuses

if TYPE_CHECKING:
    type Writer = subprocess.Popen[str]

ROUNDS = 8
WRITERS = 16
PROCESSES = 4
PENDING, COMPLETED, FAILED = StepStatus.PENDING, StepStatus.COMPLETED, StepStatus.FAILED


def write_call(store: Store, task: TaskRecord, write: StepWrite) -> Callable[[], TaskRecord]:
    return lambda: store.write(task, Batch(steps=(write,)))


def test_sixteen_writers_of_sixteen_steps_all_succeed(
    store: Store, owner: str, begin: Begin, threads: Threads, rounds: Rounds
) -> None:
    for _ in rounds(ROUNDS):
        task = begin(WRITERS)
        writes = [StepWrite(index, f"s{index}", PENDING, COMPLETED, {"by": index}) for index in range(WRITERS)]
        outcomes = call_at_once(threads, [write_call(store, task, write) for write in writes], (Conflict, TaskFinished))
        assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        final_task = store.get(owner, task.task_id)
        assert statuses(final_task) == ["completed"] * WRITERS
        assert [final_task.variables[f"_workflow.result.s{index}"] for index in range(WRITERS)] == [
            {"by": index} for index in range(WRITERS)
        ]
        assert final_task.version == 1 + WRITERS


def test_one_writer_of_a_step_wins(store: Store, owner: str, begin: Begin, threads: Threads, rounds: Rounds) -> None:
    for _ in rounds(ROUNDS):
        task = begin(1)
        writes = [StepWrite(0, "s0", PENDING, COMPLETED, {"by": writer}) for writer in range(WRITERS)]
        outcomes = call_at_once(threads, [write_call(store, task, write) for write in writes], (Conflict, TaskFinished))
        winners = [outcome for outcome in outcomes if isinstance(outcome, TaskRecord)]
        losers = [outcome for outcome in outcomes if isinstance(outcome, Conflict)]
        assert (len(winners), len(losers)) == (1, WRITERS - 1)
        final_task = store.get(owner, task.task_id)
        assert winners == [final_task]
        assert all(loser.current == final_task for loser in losers)


def test_each_status_change_of_a_step_succeeds_once(
    store: Store, owner: str, begin: Begin, threads: Threads, rounds: Rounds
) -> None:
    changes = [(PENDING, FAILED), (FAILED, COMPLETED)]
    for _ in rounds(ROUNDS):
        task = begin(1)
        writes = [StepWrite(0, "s0", *changes[writer % 2], {"by": writer}) for writer in range(8)]
        outcomes = call_at_once(threads, [write_call(store, task, write) for write in writes], (Conflict, TaskFinished))
        winners = [write for write, outcome in zip(writes, outcomes, strict=True) if isinstance(outcome, TaskRecord)]
        final_task = store.get(owner, task.task_id)
        assert sorted(write.expected for write in winners) in (["pending"], ["failed", "pending"])
        assert statuses(final_task) == ["completed" if len(winners) == 2 else "failed"]
        assert final_task.version == 1 + len(winners)


def test_a_task_is_ended_once_and_nothing_is_written_after_it(
    store: Store, owner: str, begin: Begin, threads: Threads, rounds: Rounds
) -> None:
    for _ in rounds(ROUNDS):
        task = begin(WRITERS - 2)
        writes = [StepWrite(index, f"s{index}", PENDING, COMPLETED, index) for index in range(WRITERS - 2)]
        calls = [write_call(store, task, write) for write in writes]
        calls.insert(5, partial(store.cancel, owner, task.task_id))
        calls.insert(9, partial(store.complete, owner, task.task_id, {"by": "client"}))
        outcomes = call_at_once(threads, calls, (Conflict, TaskFinished))
        successes = [outcome for outcome in outcomes if isinstance(outcome, TaskRecord)]
        ends = [outcome for outcome in successes if outcome.status.terminal]
        final_task = store.get(owner, task.task_id)
        assert ends == [final_task]
        assert final_task.version == 1 + len(successes)
        assert statuses(final_task).count("completed") == len(successes) - 1
        assert all(isinstance(outcome, TaskFinished) for outcome in outcomes if isinstance(outcome, Exception))


@pytest.fixture
def writers(ministack_engine: Engine) -> "Iterator[list[Writer]]":
    """Processes that write steps on request, four at the same time each."""
    command = [sys.executable, str(Path(__file__).parent / "writer.py"), str(ministack_engine.url)]
    with ExitStack() as stack:
        yield [
            stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            for _ in range(PROCESSES)
        ]


@run_on("ministack")
def test_writers_in_several_processes_all_succeed(
    writers: "list[Writer]", store: Store, owner: str, begin: Begin, rounds: Rounds
) -> None:
    for _ in rounds(ROUNDS):
        task = begin(WRITERS)
        for offset, writer in enumerate(writers):
            steps = list(range(offset, WRITERS, PROCESSES))
            tell(writer, {"owner": owner, "task_id": task.task_id, "steps": steps})
        assert [listen(writer) for writer in writers] == ["written"] * PROCESSES
        final_task = store.get(owner, task.task_id)
        assert statuses(final_task) == ["completed"] * WRITERS
        assert [final_task.variables[f"_workflow.result.s{index}"] for index in range(WRITERS)] == [
            {"by": index} for index in range(WRITERS)
        ]


def tell(writer: "Writer", order: dict[str, object]) -> None:
    assert writer.stdin is not None
    writer.stdin.write(json.dumps(order) + "\n")
    writer.stdin.flush()


def listen(writer: "Writer") -> str:
    assert writer.stdout is not None
    return writer.stdout.readline().strip()
