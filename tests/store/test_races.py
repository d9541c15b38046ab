"""Simultaneous writers: no result that was reported as written is lost (docs/storage.md)."""

from collections.abc import Callable
from functools import partial

from mcp_baton.exceptions import Conflict, TaskFinished
from mcp_baton.tasks.record import StepStatus, TaskRecord
from mcp_baton.tasks.store import Batch, StepWrite
from tests.store.fixture_types import Begin, Rounds, Store, Threads
from tests.store.steps import call_at_once, statuses

ROUNDS = 8
WRITERS = 16
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


def test_one_of_several_writers_of_a_step_wins(
    store: Store, owner: str, begin: Begin, threads: Threads, rounds: Rounds
) -> None:
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
