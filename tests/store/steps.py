"""Writes of steps, what became of them, and calls that are made at the same moment."""

from collections.abc import Callable, Sequence
from threading import Barrier

from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.record import StepStatus, TaskRecord, steps_of
from mcp_baton.tasks.store import StepWrite
from tests.store.given import Threads

type Outcome = TaskRecord | StoreError | None


def done(index: int, result: Json = "value", name: str | None = None) -> StepWrite:
    """The write of a step that is completed with this result."""
    return StepWrite(index, name or f"s{index}", StepStatus.PENDING, StepStatus.COMPLETED, result)


def result(task: TaskRecord, index: int) -> Json:
    """The stored result of a step."""
    return task.variables[f"_workflow.result.s{index}"]


def statuses(task: TaskRecord) -> list[str]:
    """The status of each step."""
    return [step["status"] for step in steps_of(task)]


def note(value: str) -> Json:
    """What stands in the place of a result for which there was no room."""
    return {"error": f"result of {len(value) + 2} bytes exceeds the task's size limit"}


def at_once(
    threads: Threads,
    calls: Sequence[Callable[[], TaskRecord | None]],
    caught: tuple[type[StoreError], ...] = (StoreError,),
) -> list[Outcome]:
    """Run the calls at the same moment; what each returned, or raised of these kinds."""
    barrier = Barrier(len(calls))

    def run(call: Callable[[], TaskRecord | None]) -> Outcome:
        barrier.wait(60)
        try:
            return call()
        except caught as error:
            return error

    return list(threads.map(run, calls))
