"""The worker of a server under test: the events that wait for it, and what becomes of them (docs/testing.md)."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from mcp_baton.exceptions import NotDispatched
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.testing.function import Clock, Function, Handler, Invocations, Killed

type Workers = Literal["at once", "by hand"]
"""When the worker works: once a request is answered, or when the test says so (docs/testing.md, In the background)."""

WORKERS = ("at once", "by hand")
RETRY_AFTER_S = (60.0, 120.0)
"""Lambda's: how long after a failed invocation the next one is made."""

TIMEOUT_S = 900.0
"""What a worker's invocation is given unless a test says otherwise; the template's default."""


@dataclass(frozen=True, slots=True)
class WaitingEvent:
    """An event that waits for a worker.

    Attributes:
        task_id: The task that it names.
        dispatch: Which of the task's dispatches it is, from 1 on.
        attempt: How often it is delivered with this one; Lambda makes three attempts.
        due_s: From when on it is delivered, by `clock.monotonic_s()`.
        event: What the function is invoked with.
    """

    task_id: str
    dispatch: int
    attempt: int
    due_s: float = field(repr=False)
    event: JsonObject = field(repr=False)


@dataclass(frozen=True, slots=True)
class WorkerRun:
    """What became of an event.

    Attributes:
        event: The event.
        outcome: `completed`, `failed`, `asked`, `handed over`, `given up: …`, `held by another worker`, `over: …`,
            `raised` or `killed`.
        error: What the function raised; `None` where it returned.
    """

    event: WaitingEvent
    outcome: str
    error: BaseException | None = None


@dataclass(slots=True)
class Events:
    """The events of a server under test, whatever its version: `tasks.jobs.Dispatcher`.

    Attributes:
        waiting: Those that no worker has had.
        runs: What became of those that one has had, in order.
        values: The last value of each task's tool.
        refused: How many are not taken; `None` for all.
    """

    clock: Clock
    waiting: list[WaitingEvent] = field(default_factory=list)
    runs: list[WorkerRun] = field(default_factory=list)
    values: dict[str, Json] = field(default_factory=dict)
    refused: int | None = 0

    def dispatch(self, event: JsonObject) -> None:
        """Take an event.

        Raises:
            NotDispatched: a test had it so.
        """
        if self.refused != 0:
            self.refused = None if self.refused is None else self.refused - 1
            raise NotDispatched("as the test had it")
        named = cast("dict[str, Any]", event["batonTask"])
        self.waiting.append(WaitingEvent(named["taskId"], named["dispatch"], 1, self.clock.monotonic_s(), event))

    def next(self) -> WaitingEvent | None:
        """The first event that is due, taken out of the queue."""
        now_s = self.clock.monotonic_s()
        event = next((event for event in self.waiting if event.due_s <= now_s), None)
        if event is not None:
            self.waiting.remove(event)
        return event

    def again(self, event: WaitingEvent) -> None:
        """Deliver an event again that has failed, as Lambda does: twice at most."""
        if event.attempt <= len(RETRY_AFTER_S):
            due_s = self.clock.monotonic_s() + RETRY_AFTER_S[event.attempt - 1]
            self.waiting.append(replace(event, attempt=event.attempt + 1, due_s=due_s))


class Worker:
    """The second function of a server under test.

    Args:
        make: Makes its handler.
        invocations: Where each invocation is known.
        events: What it is invoked with.
        workers: Whether it works at once on what is due, or when a test says so.
    """

    def __init__(self, make: Callable[[], Handler], invocations: Invocations, events: Events, workers: Workers) -> None:
        self._function = Function(make, invocations, TIMEOUT_S)
        self._at_once = workers == "at once"
        self.events = events

    def look(self) -> None:
        """Work on what is due, unless that is for the test to say.

        Raises:
            Killed: the function was killed meanwhile.
        """
        if self._at_once:
            self.run_due()

    def run_due(self) -> None:
        """Work on all that is due.

        Raises:
            Killed: the function was killed meanwhile.
        """
        while (event := self.events.next()) is not None:
            self._run(event)

    def run(self) -> WorkerRun:
        """Work on the event that is due first; where none is yet, time passes until one is.

        Raises:
            LookupError: no event waits.
            Killed: the function was killed meanwhile.
        """
        if not self.events.waiting:
            raise LookupError("no event waits for a worker: see `waiting_events`")
        wait_s = min(event.due_s for event in self.events.waiting) - self.events.clock.monotonic_s()
        if wait_s > 0:
            self.events.clock.advance(wait_s)
        event = self.events.next()
        if event is None:
            raise LookupError("another thread has taken the event that waited")
        return self._run(event)

    def _run(self, event: WaitingEvent) -> WorkerRun:
        try:
            answer, invocation = self._function.invoke(dict(event.event), None)
        except Killed as killed:
            self._failed(WorkerRun(event, "killed", killed))
            raise
        except Exception as error:  # noqa: BLE001 - Lambda takes whatever a handler raises, and invokes it again
            return self._failed(WorkerRun(event, "raised", error))
        if invocation.value is not None:
            self.events.values[event.task_id] = invocation.value
        return self._noted(WorkerRun(event, str(answer["outcome"])))

    def _failed(self, run: WorkerRun) -> WorkerRun:
        self.events.again(run.event)
        return self._noted(run)

    def _noted(self, run: WorkerRun) -> WorkerRun:
        self.events.runs.append(run)
        return run
