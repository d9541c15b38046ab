"""Invocations: requests of clients and events of Lambda's queue, handled by the real methods of a server."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from mcp_baton.background.worker import StillHeld
from mcp_baton.exceptions import NotDispatched, ProtocolError, StoreError
from mcp_baton.protocol.envelope import HANDSHAKE_REVISIONS, STATELESS_REVISIONS, TASKS_EXTENSION, VERSION_HEADER
from mcp_baton.protocol.http import HttpRequest, HttpResponse
from mcp_baton.protocol.json import Json, JsonObject, dumps, loads
from mcp_baton.settings import Settings
from mcp_baton.transport.exchange import Exchange
from tests.simulation.journal import Process

if TYPE_CHECKING:
    from mcp_baton.server.endpoint import Endpoint
    from tests.simulation.world import World

OWNER, OTHER_OWNER = "o", "p"
SETTINGS = Settings(state_key=b"0" * 32)
REVISION = next(iter(STATELESS_REVISIONS))
META: dict[str, Json] = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientInfo": {"name": "simulated", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}, "extensions": {TASKS_EXTENSION: {}}},
}
HANDSHAKE_ONLY = frozenset({"tasks/list", "tasks/result"})
STATELESS_ONLY = frozenset({"tasks/update", "subscriptions/listen"})


class Unexpected(Exception):
    """A request received a reply that it must never receive."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """What starts an invocation: a client's request, an event or a sweep.

    Attributes:
        kind: `start`, `resume`, `call`, `poll`, `update`, `cancel`, `complete`, `result`, `list`, `listen`, `begin` (a
            second task), `work`, or `sweep`.
        last: Whether it is sent after all faults.
        answers_all: Whether an update answers every question.
        deliveries: How often the event has been delivered, including this time.
    """

    kind: str
    last: bool = False
    owner: str = OWNER
    event: JsonObject | None = None
    answers_all: bool = False
    deliveries: int = 1


class SimulatedExchange(Exchange):
    """An exchange of a process in simulated time. It is also the stream's sink."""

    def __init__(self, world: "World", process: Process) -> None:
        super().__init__(process.name, self._left_ms, self.open_stream)
        self.world = world
        self.process = process
        self.answer: Json = None
        self._unread = b""

    def _left_ms(self) -> int | None:
        ends_ms = self.process.ends_ms
        return None if ends_ms is None else int(ends_ms - self.world.scheduler.now_ms)

    def open_stream(self, _status: int, _headers: Mapping[str, str]) -> "SimulatedExchange":
        return self

    def write(self, data: bytes) -> None:
        """Take a chunk of the stream. The judge reads each notification on arrival."""
        *events, self._unread = (self._unread + data).split(b"\n\n")
        for event in events:
            _, _, text = event.partition(b"data: ")
            self.answer = loads(text.decode()) if text else self.answer
            match self.answer:
                case {"method": "notifications/tasks", "params": dict() as params} if text:
                    self.world.note(self.process.actor, f"notifies {summary(cast('JsonObject', params))}")
                    self.world.replies.check_notification(self.process, cast("JsonObject", params))


def invoke(world: "World", process: Process, trigger: Trigger) -> None:
    """Handle the request and report the reply to the judge."""
    endpoint, exchange = world.endpoint(process), SimulatedExchange(world, process)
    if trigger.event is not None:
        _work(world, process, endpoint, trigger.event, exchange)
        return
    if trigger.kind == "sweep":
        world.note(process.actor, f"ends: {endpoint.sweep({}, exchange)}")
        return
    method, params = world.message(process, trigger)
    world.note(process.actor, f"{method} { ({**params, '_meta': None}) }")
    stateless = world.is_stateless(method)
    process.task_id = _task_id_in(params)
    process.answer = _send(endpoint, exchange, method, params, stateless=stateless)
    pages = [process.answer]
    while isinstance(pages[-1], Mapping) and "nextCursor" in pages[-1] and len(pages) < world.most_pages:
        exchange, cursor = SimulatedExchange(world, process), pages[-1]["nextCursor"]
        pages.append(_send(endpoint, exchange, method, {"cursor": cursor}, stateless=stateless))
    world.note(process.actor, f"answers {', '.join(map(summary, pages))}")
    if method == "tasks/list":
        world.replies.check_list(process, pages)
    else:
        world.replies.check_reply(process)
    if not process.is_unrelated:
        world.judge.check_reply(process)


def _task_id_in(params: dict[str, Json]) -> str:
    match params:
        case {"taskId": str(task_id)} | {"_meta": {"_task_id": str(task_id)}}:
            return task_id.partition("/")[0]
        case {"notifications": {"taskIds": [str(task_id), *_]}}:
            return task_id
        case _:
            return ""


def _send(
    endpoint: "Endpoint", exchange: SimulatedExchange, method: str, params: dict[str, Json], *, stateless: bool
) -> JsonObject | ProtocolError:
    headers = {"content-type": "application/json", "accept": "application/json"}
    if stateless:
        client_meta = params.get("_meta")
        params = {**params, "_meta": {**META, **(client_meta if isinstance(client_meta, Mapping) else {})}}
        headers |= {"accept": "application/json, text/event-stream", VERSION_HEADER: REVISION, "mcp-method": method}
        headers["mcp-name"] = str(params.get("taskId", params.get("name")))
    else:
        headers[VERSION_HEADER] = HANDSHAKE_REVISIONS[0]
    body = dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    response = endpoint(HttpRequest("POST", "/mcp", headers, body, exchange.process.owner), exchange)
    return answer_of(response, exchange)


def _work(
    world: "World", process: Process, endpoint: "Endpoint", event: JsonObject, exchange: SimulatedExchange
) -> None:
    job_event = event["batonTask"]
    assert isinstance(job_event, dict)
    try:
        outcome = endpoint.work(job_event, exchange)
    except (StoreError, StillHeld, NotDispatched) as error:
        world.note(process.actor, f"fails: {type(error).__name__}: {error}")
        raise
    world.note(process.actor, f"ends: {outcome}")


def answer_of(response: HttpResponse | None, exchange: SimulatedExchange) -> JsonObject | ProtocolError:
    """Return the reply from a response, or from the last message of its stream."""
    message = exchange.answer if response is None else loads(response.body.decode())
    match message:
        case {"result": dict() as result}:
            return cast("JsonObject", result)
        case {"error": {"code": int(code), "message": "Internal error"}}:
            raise Unexpected(f"error {code}: the log has its traceback")
        case {"error": {"code": int(code), "message": str(text), **rest}}:
            return ProtocolError(code, text, cast("Json", rest.get("data")))
        case _:
            raise Unexpected(f"no answer: {message}")


def summary(answer: JsonObject | ProtocolError) -> str:
    if isinstance(answer, ProtocolError):
        return f"error {answer.code}: {answer.message}"
    parts = {name: value for name, value in answer.items() if name in {"taskId", "status", "isError", "_meta"}}
    if "tasks" in answer:
        parts["tasks"] = [
            f"{task['taskId']} {task['status']}" for task in cast("list[dict[str, Json]]", answer["tasks"])
        ]
    return str(parts)


def task_message(task_id: str | None, kind: str) -> tuple[str, dict[str, Json]]:
    task: dict[str, Json] = {"taskId": task_id}
    match kind:
        case "poll":
            return "tasks/get", task
        case "result":
            return "tasks/result", task
        case "list":
            return "tasks/list", {}
        case "complete":
            return "tasks/cancel", {**task, "result": {"done": True}}
        case _:
            return "tasks/cancel", task


def listen_message(task_id: str | None, other_ids: Sequence[str]) -> tuple[str, dict[str, Json]]:
    return "subscriptions/listen", {"notifications": {"taskIds": [task_id, *other_ids]}}
