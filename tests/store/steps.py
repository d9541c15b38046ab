"""Helpers: writes of steps, their results, and simultaneous calls."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Barrier
from typing import Any

from mcp_baton.exceptions import StoreError, ValueNotKept
from mcp_baton.protocol.json import Json
from mcp_baton.stores import DynamoDBStore
from mcp_baton.tasks.dynamodb.write import EXCEEDS, EXCEEDS_STORED
from mcp_baton.tasks.record import StepStatus, TaskPage, TaskRecord, steps_of
from mcp_baton.tasks.store import ListResult, StepWrite
from mcp_baton.tasks.texts import MAX_STORED_BYTES, MAX_VALUE_BYTES, zipped
from tests.store.fixture_types import Threads

type Outcome = TaskRecord | StoreError | None


@contextmanager
def hook(client: Any, event: str, handler: Callable[..., object]) -> Iterator[None]:
    """Call a handler first at each event of botocore, such as `before-send.dynamodb.GetItem`."""
    client.meta.events.register_first(event, handler)
    try:
        yield
    finally:
        client.meta.events.unregister(event, handler)


def completion(index: int, result: Json | ListResult = "value", name: str | None = None) -> StepWrite:
    return StepWrite(index, name or f"s{index}", StepStatus.PENDING, StepStatus.COMPLETED, result)


def result(task: TaskRecord, index: int) -> Json:
    """Return the stored result of a step, or the reason why it was not stored."""
    try:
        return task.variables[f"_workflow.result.s{index}"]
    except ValueNotKept as error:
        return {"error": str(error)}


def statuses(task: TaskRecord) -> list[str]:
    return [step["status"] for step in steps_of(task)]


def note(value: str) -> Json:
    """Return the note in place of a result that is too long, or that could not be written outside the item."""
    size = len(value) + 2
    cause = "could not be written outside the task's item"
    if size > MAX_VALUE_BYTES:
        cause = EXCEEDS
    elif len(zipped(value.encode())) > MAX_STORED_BYTES:
        cause = EXCEEDS_STORED
    return {"error": f"result of {size} bytes {cause}"}


def all_pages(store: DynamoDBStore, owner: str) -> list[TaskPage]:
    pages = [store.list(owner)]
    while pages[-1].cursor is not None:
        pages.append(store.list(owner, pages[-1].cursor))
    return pages


def call_at_once[Result](
    threads: Threads,
    calls: Sequence[Callable[[], Result]],
    errors: tuple[type[StoreError], ...] = (StoreError,),
) -> list[Result | StoreError]:
    """Run calls at the same time. Return each call's result or exception."""
    barrier = Barrier(len(calls))

    def run(call: Callable[[], Result]) -> Result | StoreError:
        barrier.wait(60)
        try:
            return call()
        except errors as error:
            return error

    return list(threads.map(run, calls))
