"""A simulated Lambda: a server and its workers over one queue and one clock, which the test controls.

Nothing runs by itself. The queue behaves as Lambda's: it retries a failed invocation one minute later, then two minutes
after that, and then discards the event
(https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_baton import Server
from mcp_baton.exceptions import NotDispatched
from mcp_baton.protocol.json import JsonObject
from mcp_baton.settings import Settings
from tests.fakes import FunctionContext
from tests.simulation.client import PlainClient, refused
from tests.simulation.dynamodb.database import Database
from tests.simulation.dynamodb.refusals import Refusal
from tests.support.background import Killed, Time, container
from tests.support.client import Client, Era, Handler, JsonDict, Table

RETRIES_AFTER_MS = (60_000, 120_000)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A queued event."""

    due_ms: int
    event: JsonDict
    attempt: int = 1


@dataclass(slots=True)
class Kills:
    """Kills the process at a point: before or after a request to DynamoDB, a dispatch or a tool's effect.

    Attributes:
        points: The number of points to pass before the kill. `None` means no kill.
        is_dead: Whether the process was killed. All further points then raise `Killed` too.
    """

    points: int | None = None
    is_dead: bool = False
    count: int = 0

    def point(self, **_: object) -> None:
        """Mark a point at which the process may be killed."""
        if self.points is not None and not self.is_dead:
            self.points -= 1
            if self.points < 0:
                self.is_dead, self.points = True, None
                self.count += 1
        if self.is_dead:
            raise Killed


@dataclass(slots=True)
class Cloud:
    """A server with its table, its workers and their queue.

    Attributes:
        timeout_s: The time limit of a worker's invocation, in seconds.
        events: All dispatched events, in order.
        outcomes: The outcome of each invocation: the handler's outcome, the name of its exception, or `killed`.
        refuses: The number of further events that the queue refuses.
    """

    table: Table
    settings: Settings
    time: Time = field(default_factory=Time)
    kills: Kills = field(default_factory=Kills)
    timeout_s: float = 10.0
    events: list[JsonDict] = field(default_factory=list)
    queue: list[Delivery] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    refuses: int = 0
    _handler: Handler | None = None

    def deploy(self, server: Server, *, dispatches: bool = True) -> None:
        """Deploy this version of the server, with or without a worker."""
        worker = self if dispatches else None
        self._handler = container(server, self.table, self.settings, self.time, worker)

    def client(self, era: Era = "2026", owner: str = "alice") -> Client:
        return Client(self._handle, owner, era)

    def _handle(self, event: JsonDict, context: Any) -> JsonDict:
        assert self._handler
        return self._handler(event, context)

    def dispatch(self, event: JsonObject) -> None:
        """Accept an event as Lambda's `Invoke` with `InvocationType=Event` does."""
        self.kills.point()
        if self.refuses:
            self.refuses -= 1
            raise NotDispatched("the queue is full")
        self.events.append(dict(event))
        self.queue.append(Delivery(self.time.ms, dict(event)))
        self.kills.point()

    def invoke(self, event: JsonDict) -> str:
        """Invoke the worker once. Return the outcome."""
        started_ms = self.time.ms
        self.kills.is_dead = False

        def remaining_ms() -> int:
            return max(0, started_ms + round(self.timeout_s * 1000) - self.time.ms)

        try:
            outcome = str(self._handle(event, FunctionContext(remaining_ms))["outcome"])
        except Killed:
            outcome = "killed"
        except Exception as error:  # noqa: BLE001 - Lambda takes any exception for a failure
            outcome = type(error).__name__
        if self.kills.is_dead:
            # Code that ran after the kill may have caught the exception.
            outcome, self.kills.is_dead = "killed", False
        self.kills.points = None
        self.outcomes.append(outcome)
        return outcome

    def deliver(self) -> str:
        """Deliver the event that is due next and return the outcome. A failed event is queued again, as by Lambda."""
        delivery = min(self.queue, key=lambda item: item.due_ms)
        self.queue.remove(delivery)
        self.time.pass_s(max(0, delivery.due_ms - self.time.ms) / 1000)
        outcome = self.invoke(delivery.event)
        if has_failed(outcome) and delivery.attempt <= len(RETRIES_AFTER_MS):
            due_ms = self.time.ms + RETRIES_AFTER_MS[delivery.attempt - 1]
            self.queue.append(Delivery(due_ms, delivery.event, delivery.attempt + 1))
        return outcome

    def work(self, limit: int = 100) -> list[str]:
        outcomes = []
        while self.queue:
            outcomes.append(self.deliver())
            assert len(outcomes) < limit, outcomes
        return outcomes


def has_failed(outcome: str) -> bool:
    """Return whether Lambda retries an invocation with this outcome: it raised an exception or was killed."""
    return outcome == "killed" or outcome[0].isupper()


class QuickClient(PlainClient):
    """A client of the simulation's DynamoDB. It calls `point` before and after each request."""

    def __init__(self, point: Callable[[], None]) -> None:
        super().__init__(Database())
        self.point = point

    def scan(self, **_request: Any) -> JsonDict:
        return {"Items": list(self.database.items.values())}

    def _send(self, operation: str, request: Mapping[str, Any]) -> JsonDict:
        self.point()
        try:
            answer = super()._send(operation, request)
        except Refusal as refusal:
            raise refused(refusal, operation) from refusal
        self.point()
        return answer


def quick_table(kills: Kills) -> Table:
    """Return a table of the simulation's DynamoDB. The process may be killed before and after each request to it."""
    client: Any = QuickClient(kills.point)
    return Table(client, "tasks")
