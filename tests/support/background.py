"""A server with workers, for tests of background tasks.

Each request and each event gets a new handler over the same table. The test delivers the queued events and moves the
clock.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import EndpointConnectionError

from mcp_baton import Server
from mcp_baton.aws import compose, dynamodb_store
from mcp_baton.exceptions import NotDispatched
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.endpoint import Endpoint
from mcp_baton.settings import Settings
from mcp_baton.tasks.jobs import Dispatcher
from mcp_baton.telemetry import Telemetry
from tests.fakes import FunctionContext, Line, services_of
from tests.support.client import Answer, Client, Era, Handler, JsonDict, Table
from tests.support.throttling import Virtual

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

EPOCH_S = 1_800_000_000.0


@contextmanager
def killed_at_second(table: Table, request: str) -> Iterator[None]:
    """Expect that the process is killed before its second request to DynamoDB of this kind, a name in botocore."""
    numbers = iter(range(1_000))

    def strike(**_: object) -> None:
        if next(numbers) == 1:
            raise Killed

    events = table.client.meta.events
    events.register(request, strike)
    try:
        with pytest.raises(Killed):
            yield
    finally:
        events.unregister(request, strike)


WORKER_MS = 900_000


@dataclass(slots=True)
class Time:
    """A clock that moves only if a test moves it or if code sleeps.

    Attributes:
        sleeps: The lengths of all sleeps, in seconds.
        meanwhile: Functions that run at the end of the next sleeps, one for each sleep.
    """

    s: float = EPOCH_S
    sleeps: list[float] = field(default_factory=list)
    meanwhile: list[Callable[[], object]] = field(default_factory=list)

    @property
    def ms(self) -> int:
        return round(self.s * 1000)

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.s

    def pass_s(self, seconds: float) -> None:
        self.s += seconds

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.pass_s(seconds)
        if self.meanwhile:
            self.meanwhile.pop(0)()


@dataclass(slots=True)
class Queue:
    """A dispatcher that queues events in place of Lambda's asynchronous invocation (`Dispatcher`)."""

    events: list[JsonObject] = field(default_factory=list)
    refuses: bool = False

    def dispatch(self, event: JsonObject) -> None:
        if self.refuses:
            raise NotDispatched("refused by the test")
        self.events.append(event)

    def lose(self) -> None:
        self.events.clear()


class Killed(BaseException):
    """The worker's process was killed. It is a `BaseException`, so that no code under test catches it as an error."""


def container(
    server: Server,
    table: Table,
    settings: Settings,
    time: Time | Virtual,
    dispatcher: Dispatcher | None = None,
) -> Handler:
    store = dynamodb_store(
        table.name,
        settings,
        connect=lambda: table.client,
        now_ms=time.now_ms,
        monotonic=time.monotonic,
        sleep=time.sleep,
        random=lambda: 0.99,
    )
    clock, sleep = time.monotonic, time.sleep
    return compose(server, settings, store=store, clock=clock, sleep=sleep, dispatcher=dispatcher)


@dataclass(slots=True)
class Background:
    """A server with its queue, its clock and its table."""

    server: Server
    table: Table
    settings: dict[str, Any] = field(default_factory=dict)
    time: Time = field(default_factory=Time)
    queue: Queue = field(default_factory=Queue)

    def container(self) -> Handler:
        settings = Settings(table=self.table.name, **self.settings)
        return container(self.server, self.table, settings, self.time, self.queue)

    def client(
        self, era: Era = "2026", owner: str = "alice", remaining_ms: Callable[[], int] = lambda: 60_000
    ) -> Client:
        return Client(self.container(), owner, era, remaining_ms)

    def begin(self, tool: str, arguments: JsonDict | None = None, era: Era = "2026", owner: str = "alice") -> str:
        """Call a tool as a task. Return the task's id."""
        task: str = created_task(call(self.client(era, owner), tool, arguments))["taskId"]
        return task

    def work(self, event: JsonObject | None = None, remaining_ms: Callable[[], int] = lambda: WORKER_MS) -> str:
        """Deliver an event to a new worker and return the outcome. The default is the oldest queued event."""
        event = self.queue.events.pop(0) if event is None else event
        worker: Any = self.container()
        outcome: str = worker(dict(event), FunctionContext(remaining_ms, "worker-1"))["outcome"]
        return outcome

    def sweep(self, remaining_ms: Callable[[], int] = lambda: 60_000) -> JsonDict:
        """Deliver the scheduled sweep event to a new function. Return the report."""
        function: Any = self.container()
        report: JsonDict = function({"batonSweep": {}}, FunctionContext(remaining_ms, "sweep-1"))
        return report

    def kill(self, event: JsonObject | None = None) -> None:
        """Deliver an event to a worker that is killed before it writes its result to the table."""
        with killed_at_second(self.table, "before-call.dynamodb"):  # after the claim
            self.work(event)

    def status(self, task: str, era: Era = "2026") -> str:
        """Poll the task and return its status. The poll also dispatches the task again if that is due."""
        status: str = self.client(era).task("get", task).result["status"]
        return status

    def head(self, task: str) -> tuple[str, int, int]:
        item: Any = self.table.item(task)
        return item["status"]["S"], int(item["dispatches"]["N"]), int(item["run"]["M"]["number"]["N"])


def measured_endpoint(jobs: Background, telemetry: Telemetry) -> Endpoint:
    """Return the endpoint of another container. It records its metrics in `telemetry`."""
    store = dynamodb_store(
        jobs.table.name,
        Settings(),
        lambda: jobs.table.client,
        telemetry=telemetry,
        now_ms=jobs.time.now_ms,
        monotonic=jobs.time.monotonic,
        sleep=jobs.time.sleep,
    )
    return Endpoint(services_of(jobs.server, store, Settings(), telemetry=telemetry, dispatcher=jobs.queue))


def measured_sweep(jobs: Background, telemetry: Telemetry) -> JsonObject:
    """Run a sweep that records its metrics in `telemetry`. Return the report."""
    return measured_endpoint(jobs, telemetry).sweep({}, Line(request_id="1", can_stream=False))


type MakeBackground = Callable[..., Background]
"""Creates a `Background` for a server. The keyword arguments are settings."""


def call(client: Client, tool: str, arguments: JsonDict | None = None) -> Answer:
    task_params = {"task": {"ttl": 600_000}} if client.era == "2025" else {}
    return client.request("tools/call", {"name": tool, "arguments": arguments or {}, **task_params})


def created_task(answer: Answer) -> JsonDict:
    result = answer.result
    task: JsonDict = result.get("task", result)
    return task


@contextmanager
def unreachable(client: "DynamoDBClient", operation: str) -> Iterator[None]:
    """Fail every request of this operation with a connection error."""

    def refuse(**_: object) -> None:
        raise EndpointConnectionError(endpoint_url="http://away")

    event, events = f"before-call.dynamodb.{operation}", client.meta.events
    events.register(event, refuse)
    try:
        yield
    finally:
        events.unregister(event, refuse)
