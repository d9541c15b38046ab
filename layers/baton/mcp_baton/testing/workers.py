"""The worker of a server under test: its events and their outcomes (docs/testing.md)."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from mcp_baton.exceptions import NotDispatched
from mcp_baton.local.worker_pool import RETRY_AFTER_S
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.testing.function import Clock, Function, Handler, Invocations, Killed

type Workers = Literal["at once", "by hand"]
"""When the worker runs: after each request, or when the test calls it (docs/testing.md, In the background)."""

WORKERS = ("at once", "by hand")
WORKER_TIMEOUT_S = 900.0
"""The time limit of a worker's invocation, as in the template, unless a test sets another."""


@dataclass(frozen=True, slots=True)
class WaitingEvent:
    """An event that waits for a worker.

    Attributes:
        dispatch: The number of the task's dispatch, from 1.
        attempt: The number of the delivery, from 1; Lambda makes three attempts.
        due_s: The earliest time of the delivery, by `clock.monotonic_s()`.
    """

    task_id: str
    dispatch: int
    attempt: int
    due_s: float = field(repr=False)
    event: JsonObject = field(repr=False)


@dataclass(frozen=True, slots=True)
class WorkerRun:
    """The outcome of an event.

    Attributes:
        outcome: `completed`, `failed`, `asked`, `handed over`, `given up: …`, `held by another worker`, `over: …`,
            `raised` or `killed`.
        error: The exception of the function; `None` if it returned.
    """

    event: WaitingEvent
    outcome: str
    error: BaseException | None = None


@dataclass(slots=True)
class Events:
    """The events of all versions of a server under test: `tasks.jobs.Dispatcher`.

    `values` has the last value of each task's tool; `refused` is the number of events to reject, `None` for all.
    """

    clock: Clock
    waiting: list[WaitingEvent] = field(default_factory=list)
    runs: list[WorkerRun] = field(default_factory=list)
    values: dict[str, Json] = field(default_factory=dict)
    refused: int | None = 0

    def dispatch(self, event: JsonObject) -> None:
        if self.refused != 0:
            self.refused = None if self.refused is None else self.refused - 1
            raise NotDispatched("requested by the test")
        task = cast("dict[str, Any]", event["batonTask"])
        self.waiting.append(WaitingEvent(task["taskId"], task["dispatch"], 1, self.clock.monotonic_s(), event))

    def next(self) -> WaitingEvent | None:
        now_s = self.clock.monotonic_s()
        event = next((event for event in self.waiting if event.due_s <= now_s), None)
        if event is not None:
            self.waiting.remove(event)
        return event

    def retry(self, event: WaitingEvent) -> None:
        """Deliver a failed event again, at most twice, as Lambda does."""
        if event.attempt <= len(RETRY_AFTER_S):
            due_s = self.clock.monotonic_s() + RETRY_AFTER_S[event.attempt - 1]
            self.waiting.append(replace(event, attempt=event.attempt + 1, due_s=due_s))


class Worker:
    """The second function of a server under test."""

    def __init__(self, make: Callable[[], Handler], invocations: Invocations, events: Events, workers: Workers) -> None:
        self._function = Function(make, invocations, WORKER_TIMEOUT_S)
        self._at_once = workers == "at once"
        self.events = events

    def process_due(self) -> None:
        """Process the events that are due, unless the test does this by hand."""
        if self._at_once:
            self.run_due()

    def run_due(self) -> None:
        while (event := self.events.next()) is not None:
            self._run(event)

    def deliver(self, event: Json) -> JsonObject:
        """Deliver an event that is not one of the queue. Returns the function's answer, or raises its exception."""
        try:
            answer, _ = self._function.invoke(event, None)
        finally:  # of an array with an invalid event, the others have started
            self.process_due()
        return answer

    def run(self) -> WorkerRun:
        """Process the event that is due first. If none is due, advance the clock."""
        if not self.events.waiting:
            raise LookupError("no event waits for a worker: see `waiting_events`")
        wait_s = min(event.due_s for event in self.events.waiting) - self.events.clock.monotonic_s()
        if wait_s > 0:
            self.events.clock.advance(wait_s)
        event = self.events.next()
        if event is None:
            raise LookupError("another thread has taken the event")
        return self._run(event)

    def _run(self, event: WaitingEvent) -> WorkerRun:
        try:
            answer, invocation = self._function.invoke(dict(event.event), None)
        except Killed as error:
            self._note(WorkerRun(event, "killed", error))
            raise
        except Exception as error:  # noqa: BLE001 - Lambda retries after any exception of a handler
            return self._note(WorkerRun(event, "raised", error))
        if invocation.values:
            self.events.values[event.task_id] = invocation.value
        return self._note(WorkerRun(event, str(answer["outcome"])))

    def _note(self, run: WorkerRun) -> WorkerRun:
        if run.error is not None:
            self.events.retry(run.event)
        self.events.runs.append(run)
        return run
