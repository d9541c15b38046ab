"""Fakes of a client, a server, a store and the clock, for tests of single parts."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Concatenate, Self, cast

from mcp_baton.approvals.items import DynamoDBApprovalStore, approvals_of
from mcp_baton.features import AllFeatures
from mcp_baton.protocol import jsonrpc
from mcp_baton.protocol.envelope import Envelope, Era
from mcp_baton.protocol.http import ClientGone
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.state import Seal, seal_of
from mcp_baton.server.server import Server
from mcp_baton.settings import Settings
from mcp_baton.tasks.answers import AnswerStore
from mcp_baton.tasks.jobs import JobStore
from mcp_baton.tasks.record import PAUSE_REASONS, PROGRESS, NewTask, StepStatus, TaskRecord, TaskStatus
from mcp_baton.tasks.store import Batch, CallbackStore, StartStore, TaskStore
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.calls import ToolCall
from mcp_baton.tools.content import ResourceContent
from mcp_baton.tools.outcomes import Mismatch, Outcome, Prepared, ResourceUnavailable, Succeeded
from mcp_baton.transport.exchange import Exchange, no_limit, stream_opener
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.host import Host
from mcp_baton.workflow.lease import Lease, ThreadLease
from mcp_baton.workflow.pause import PauseReason
from mcp_baton.workflow.plan import Plan
from mcp_baton.workflow.request import Request
from mcp_baton.workflow.services import Services

type Behaviour = Callable[[JsonObject, TaskVariables | None], Outcome]


@dataclass
class FunctionContext:
    """The context object that Lambda passes to a handler."""

    remaining_ms: Callable[[], int] = lambda: 30_000
    aws_request_id: str = "request-1"

    def get_remaining_time_in_millis(self) -> int:
        return self.remaining_ms()


@dataclass
class Wire:
    """A response stream that records what is written."""

    gone: bool = False
    heads: list[tuple[int, Mapping[str, str]]] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)

    def open(self, status: int, headers: Mapping[str, str]) -> "Wire":
        self.heads.append((status, headers))
        return self

    def write(self, data: bytes) -> None:
        if self.gone:
            raise ClientGone
        self.pieces.append(data)

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)


@contextmanager
def listening(wire: Wire) -> Iterator[Wire]:
    """Send the streams of invocations to this wire."""
    token = stream_opener.set(wire.open)
    try:
        yield wire
    finally:
        stream_opener.reset(token)


class Line(Exchange):
    """An exchange with a client that takes a stream, records what is sent, and disconnects after `patience` writes.

    Args:
        can_stream: Whether the caller of the handler sends the stream while it is written.

    Attributes:
        opened: Status and headers of each stream that was started.
    """

    def __init__(
        self,
        *,
        can_stream: bool = True,
        left_ms: Callable[[], int | None] = no_limit,
        patience: int = 1_000,
        request_id: str = "r-1",
    ) -> None:
        super().__init__(request_id, left_ms, self.open_stream if can_stream else None)
        self.choose_form(streams=True, may_stream=False, takes_stream=True, takes_json=True)
        self.patience = patience
        self.opened: list[tuple[int, Mapping[str, str]]] = []
        self.sent: list[bytes] = []

    def open_stream(self, status: int, headers: Mapping[str, str]) -> "Line":
        self.opened.append((status, headers))
        return self

    def write(self, data: bytes) -> None:
        if len(self.sent) >= self.patience:
            raise ClientGone
        self.sent.append(data)

    @property
    def progress(self) -> list[float]:
        """The `progress` values of the notifications that were sent."""
        events = [json.loads(data.split(b"data: ")[1]) for data in self.sent if b"data: " in data]
        return [event["params"]["progress"] for event in events if event["method"] == "notifications/progress"]


def request_of(method: str, params: JsonObject, line: Line | None = None, **changes: Any) -> Request:
    """Return a request from kim in the 2026 era, without a store. `changes` replace attributes of it or of its
    services.
    """
    exchange = line or Line()
    server, store = changes.pop("server", None) or Server("shop"), changes.pop("store", None)
    service_attributes = {name: changes.pop(name) for name in Services.__struct_fields__ if name in changes}
    service_attributes = {
        "settings": Settings(),
        "seal": Seal(lambda: (b"k" * 32,)),
        "features": AllFeatures(),
        **service_attributes,
    }
    services = Services(server=server.full_view, store=store, **service_attributes)
    attributes: dict[str, Any] = {
        "services": services,
        "server": server.full_view,
        "store": store,
        "owner": "kim",
        "claims": {},
        "envelope": Envelope(Era.STATELESS, "2026-07-28", {}, {}, "t", None),
        "exchange": exchange,
        "message": jsonrpc.RequestMessage(1, method, params),
        "headers": {},
        "began_s": services.clock(),
    }
    return Request(**{**attributes, **changes})


def services_of(server: Server, store: TaskStore | None, settings: Settings, **others: Any) -> Services:
    """Return the services of a process, as `aws.handler` creates them."""
    server.check(in_full=False)
    view, seal, features = server.full_view, seal_of(settings), AllFeatures()
    return Services(server=view, store=store, settings=settings, seal=seal, features=features, **others)


@dataclass(slots=True)
class Pauses:
    """A clock that advances only in `sleep`."""

    s: float = 0.0
    taken: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.s

    def sleep(self, seconds: float) -> None:
        self.taken.append(seconds)
        self.s += seconds


def plan_of(task: TaskRecord, workflow: Workflow | None, texts: Mapping[str, str] | None = None) -> Plan:
    """Return a task's plan, with these prompt arguments and without conversion of arguments."""
    return Plan(task, workflow, lambda _: (texts or {}, texts or {}), lambda _, arguments: arguments)


def statuses_of(letters: str) -> list[StepStatus]:
    """Return the statuses of steps from their first letters: `cfp` is completed, failed, pending."""
    return [status for letter in letters for status in StepStatus if status.startswith(letter)]


def task_of(
    workflow: Workflow,
    letters: str,
    variables: JsonObject | None = None,
    *,
    pause: PauseReason | None = None,
    kept: JsonObject | None = None,
) -> TaskRecord:
    """Return a working task as the store returns it. Its steps have these statuses."""
    all_variables: dict[str, Json] = {PROGRESS: cast("JsonObject", workflow.progress(statuses_of(letters)))}
    all_variables |= variables or {}
    if pause:
        all_variables[PAUSE_REASONS] = [pause.to_json()]
    return TaskRecord(
        "kim",
        "t",
        TaskStatus.WORKING,
        "",
        "",
        1,
        1,
        all_variables,
        large_values=kept or {},
        definition=workflow.fingerprint,
    )


class CallsInAnyOrder:
    """Implements `workflow.host.Threads` in one thread. A call runs when the engine waits for its result.

    Args:
        pick: Takes the number of unfinished calls and returns the index of the one that ends next.
    """

    def __init__(self, host: "ScriptedHost", pick: Callable[[int], int]) -> None:
        self._host, self._pick = host, pick
        self._calls: list[tuple[Callable[[Host], Any], ThreadLease | None]] = []

    def start(self, call: Callable[[Host], Any], lease: ThreadLease | None) -> None:
        self._calls.append((call, lease))
        self._host.most_at_once = max(self._host.most_at_once, len(self._calls))

    def ask(self, question: Callable[[], Any]) -> Any:
        return question()

    def next(self) -> Any:
        call, lease = self._calls.pop(self._pick(len(self._calls)))
        own_lease, self._host.lease = self._host.lease, lease
        try:
            return call(self._host)
        finally:
            self._host.lease = own_lease

    def close(self) -> None:
        """Do nothing: no thread runs."""


@dataclass
class ScriptedHost:
    """A server whose tools do what the test specifies. It records everything that the engine asks for.

    Attributes:
        starts: The number of steps that may start.
        lease: The claim of the run, which the engine sets.
    """

    tools: dict[str, Behaviour] = field(default_factory=dict)
    resources: dict[str, str] = field(default_factory=dict)
    mismatches: dict[str, Mismatch] = field(default_factory=dict)
    requires: frozenset[str] = frozenset()
    starts: int = 1000
    log: list[str] = field(default_factory=list)
    pick: Callable[[int], int] = lambda _count: 0
    most_at_once: int = 0
    job_id: str | None = None

    def __post_init__(self) -> None:
        self.lease: Lease | ThreadLease | None = None

    def required(self, _tool: str) -> frozenset[str]:
        return self.requires

    def answer_schema(self, _question: Argument) -> JsonObject:
        return {"type": "string"}

    def carries(self, _size: int) -> bool:
        """Accept every size."""
        return True

    def describe(self, tool: str) -> str:
        return f"Does {tool}."

    def prepare(self, tool: str, arguments: JsonObject) -> Prepared | Mismatch:
        """Return the tool's mismatch, whatever the arguments are. Without a mismatch, return the arguments."""
        return self.mismatches.get(tool) or Prepared(tool, arguments, dict(arguments))

    def canonical(self, _tool: str, arguments: JsonObject) -> JsonObject:
        return arguments

    def run(self, prepared: Prepared, tool_call: ToolCall) -> Outcome:
        """Call the test's behaviour for the tool, or succeed."""
        tool, arguments = prepared.name, prepared.arguments
        self.log.append(f"call {tool} {dict(arguments)}")
        return self.tools[tool](arguments, tool_call.variables) if tool in self.tools else Succeeded({"from": tool})

    def read(self, uri: str) -> Sequence[ResourceContent]:
        self.log.append(f"read {uri}")
        if uri not in self.resources:
            raise ResourceUnavailable(f"there is no resource {uri}")
        return [ResourceContent(uri, self.resources[uri], "text/plain")]

    announces = True

    def announce(self, started: int, total: int, step: str, _task_id: str | None) -> None:
        self.log.append(f"announce {started}/{total} {step}")

    def left_ms(self) -> int | None:
        """Return no time limit."""
        return None

    def wait(self, seconds: float) -> None:
        self.log.append(f"wait {seconds:g}")

    def may_start(self, _after_s: float = 0.0) -> bool:
        """Return whether another step may start."""
        self.starts -= 1
        return self.starts >= 0

    def words(self, name: str, _error: Exception) -> str:
        """Return the error text for an unexpected error."""
        return f"internal error in {name}"

    def error_id(self, _error: Exception) -> str | None:
        """Return an id that finds the error in the log."""
        return "id-1"

    def threads(self) -> "CallsInAnyOrder":
        """Return threads whose calls end in the order that `pick` chooses."""
        return CallsInAnyOrder(self, self.pick)

    @property
    def calls(self) -> list[str]:
        return [entry for entry in self.log if entry.startswith("call")]


def _logged[**Parameters, Result](
    method: Callable[Concatenate[TaskStore, Parameters], Result],
) -> Callable[Concatenate["RecordingStore", Parameters], Result]:
    """Return a method that logs the request and calls the real store."""

    def ask(self: "RecordingStore", /, *arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
        self.request(method.__name__)
        result: Result = getattr(self.below, method.__name__)(*arguments, **keywords)
        return result

    return ask


class RecordingStore:
    """A store that logs each request. Chosen requests fail.

    Args:
        store: The real store. Without one, a write changes nothing, and other requests are not possible.
        failing: Errors by the number of the request, from 1.
    """

    def __init__(
        self, store: TaskStore | None, host: ScriptedHost, failing: Mapping[int, Exception] | None = None
    ) -> None:
        self._store = store
        self._host = host
        self._failing = dict(failing or {})
        self.created: list[TaskRecord] = []
        self.batches: list[Batch] = []
        self.versions: list[int] = []
        self.requests = 0

    @property
    def starts(self) -> StartStore:
        return self.below.starts

    def new_task_id(self) -> str:
        return self.below.new_task_id()

    @property
    def answers(self) -> AnswerStore:
        return self.below.answers

    @property
    def jobs(self) -> JobStore:
        return self.below.jobs

    @property
    def approvals(self) -> DynamoDBApprovalStore:
        return approvals_of(self.below)

    @property
    def callbacks(self) -> CallbackStore:
        return self.below.callbacks

    def within(self, _left_ms: Callable[[], int | None]) -> Self:
        """Return this store: the test sets no time limit."""
        return self

    def now_ms(self) -> int:
        """Return the real store's time, or 0 without one."""
        return self._store.now_ms() if self._store else 0

    def create(self, task: NewTask) -> TaskRecord:
        self.request("create")
        self.created.append(self.below.create(task))
        return self.created[-1]

    get = _logged(TaskStore.get)
    read_status = _logged(TaskStore.read_status)
    list = _logged(TaskStore.list)
    take = _logged(TaskStore.take)
    renew = _logged(TaskStore.renew)
    cancel = _logged(TaskStore.cancel)
    complete = _logged(TaskStore.complete)

    def write(self, task: TaskRecord, batch: Batch) -> TaskRecord:
        self.batches.append(batch)
        self.versions.append(task.version)
        self.request("write")
        return self._store.write(task, batch) if self._store else task

    @property
    def below(self) -> TaskStore:
        assert self._store, "there is no store to ask"
        return self._store

    def request(self, verb: str) -> None:
        """Log a request, and raise its error if it has one."""
        self.requests += 1
        self._host.log.append(verb)
        if self.requests in self._failing:
            raise self._failing[self.requests]
