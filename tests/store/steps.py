"""Helpers: writes of steps, their results, and simultaneous calls."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Barrier
from typing import Any

from mcp_baton.exceptions import StoreError, ValueNotKept
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.store import DynamoDBTaskStore
from mcp_baton.tasks.record import StepStatus, TaskPage, TaskRecord, steps_of
from mcp_baton.tasks.store import StepWrite
from mcp_baton.tasks.texts import VALUE_BYTES
from tests.store.given import Threads

type Outcome = TaskRecord | StoreError | None


@contextmanager
def hooked(client: Any, event: str, handler: Callable[..., object]) -> Iterator[None]:
    """Call a handler at each event of botocore, such as `before-send.dynamodb.GetItem`, before other handlers."""
    client.meta.events.register_first(event, handler)
    try:
        yield
    finally:
        client.meta.events.unregister(event, handler)


def done(index: int, result: Json = "value", name: str | None = None) -> StepWrite:
    """The write of a step that is completed with this result."""
    return StepWrite(index, name or f"s{index}", StepStatus.PENDING, StepStatus.COMPLETED, result)


def result(task: TaskRecord, index: int) -> Json:
    """The stored result of a step, or why it was not stored."""
    try:
        return task.variables[f"_workflow.result.s{index}"]
    except ValueNotKept as error:
        return {"error": str(error)}


def statuses(task: TaskRecord) -> list[str]:
    """The status of each step."""
    return [step["status"] for step in steps_of(task)]


def note(value: str) -> Json:
    """Why a result was not stored: it is too long, or could not be written outside the item."""
    size = len(value) + 2
    why = "exceeds the task's size limit" if size > VALUE_BYTES else "could not be written outside the task's item"
    return {"error": f"result of {size} bytes {why}"}


def all_pages(store: DynamoDBTaskStore, owner: str) -> list[TaskPage]:
    """The pages of the list of an owner's tasks."""
    pages = [store.list(owner)]
    while pages[-1].cursor is not None:
        pages.append(store.list(owner, pages[-1].cursor))
    return pages


def at_once(
    threads: Threads,
    calls: Sequence[Callable[[], TaskRecord | None]],
    caught: tuple[type[StoreError], ...] = (StoreError,),
) -> list[Outcome]:
    """Run calls at the same moment. Returns the result or the exception of each."""
    barrier = Barrier(len(calls))

    def run(call: Callable[[], TaskRecord | None]) -> Outcome:
        barrier.wait(60)
        try:
            return call()
        except caught as error:
            return error

    return list(threads.map(run, calls))
