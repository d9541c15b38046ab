"""Invocations: what clients ask for, answered by the real methods of a server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.envelope import HANDSHAKE_REVISIONS, TASK_ID_KEY, VERSION_HEADER
from mcp_baton.protocol.http import HttpRequest, HttpResponse
from mcp_baton.protocol.json import Json, JsonObject, dumps, loads
from mcp_baton.server.endpoint import Endpoint
from mcp_baton.settings import Settings
from tests.simulation.journal import Process
from tests.simulation.servers import server

if TYPE_CHECKING:
    from tests.simulation.world import World

OWNER = "o"
SETTINGS = Settings(state_key=b"0" * 32)
HEADERS = {
    "content-type": "application/json",
    "accept": "application/json",
    VERSION_HEADER: HANDSHAKE_REVISIONS[0],
}


class Unexpected(Exception):
    """A request was answered as none should be."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What an invocation is asked for.

    Attributes:
        kind: `start`, `resume`, `call`, `poll`, `cancel` or `complete`.
        last: Whether it comes after all faults.
    """

    kind: str
    last: bool = False


class Sink:
    """An answer's stream that nobody reads."""

    def write(self, data: bytes) -> None:
        """Take a piece."""


class SimulatedExchange:
    """An `Exchange` of a process: its time is the simulation's."""

    can_stream = True

    def __init__(self, world: "World", process: Process) -> None:
        self._world = world
        self._process = process
        self.request_id = process.name

    def remaining_ms(self) -> int | None:
        """As Lambda tells it."""
        ends_ms = self._process.ends_ms
        return None if ends_ms is None else int(ends_ms - self._world.scheduler.now_ms)

    def add_headers(self, _headers: Mapping[str, str]) -> None:
        """Headers are of no interest here."""

    def open_stream(self, _status: int, _headers: Mapping[str, str]) -> Sink:
        """Begin the answer."""
        return Sink()


def invoke(world: "World", process: Process, ask: Ask) -> None:
    """Answer what is asked, and tell the judge.

    Raises:
        Unexpected: something broke that nobody expected to.
    """
    method, params = _message(world, ask)
    world.note(process.actor, f"{method} {params}")
    scheduler = world.scheduler
    endpoint = Endpoint(
        server(mended=world.mended),
        store=world.store(process),
        settings=SETTINGS,
        clock=lambda: scheduler.now_ms / 1000,
        sleep=world.sleep,
    )
    body = dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    response = endpoint(HttpRequest("POST", "/mcp", HEADERS, body, OWNER), SimulatedExchange(world, process))
    process.answer = answer_of(response)
    world.note(process.actor, f"answers {in_short(process.answer)}")
    world.judge.answered(process)


def answer_of(response: HttpResponse | None) -> JsonObject | ProtocolError:
    """What a client reads in a response.

    Raises:
        Unexpected: it is none that should be.
    """
    message = None if response is None else loads(response.body.decode())
    match message:
        case {"result": dict() as result}:
            return cast("JsonObject", result)
        case {"error": {"code": int(code), "message": "Internal error"}}:
            raise Unexpected(f"error {code}: the log has its traceback")
        case {"error": {"code": int(code), "message": str(text), **rest}}:
            return ProtocolError(code, text, cast("Json", rest.get("data")))
        case _:
            raise Unexpected(f"no answer: {message}")


def _message(world: "World", ask: Ask) -> tuple[str, dict[str, Json]]:
    task: dict[str, Json] = {TASK_ID_KEY: world.task_id}
    match ask.kind:
        case "start":
            ttl: dict[str, Json] = {"task": {"ttl": world.ttl_ms}} if world.ttl_ms else {}
            return "prompts/get", {"name": world.plan.name, "arguments": {"key": "A"}, "_meta": {}, **ttl}
        case "resume":
            return "prompts/get", {"name": world.plan.name, "arguments": {}, "_meta": task}
        case "call":
            tool, arguments = world.rng.choice(world.plan.calls)
            return "tools/call", {"name": tool, "arguments": arguments, "_meta": task}
        case "poll":
            return "tasks/get", {"taskId": world.task_id}
        case "complete":
            return "tasks/cancel", {"taskId": world.task_id, "result": {"done": True}}
        case _:
            return "tasks/cancel", {"taskId": world.task_id}


def in_short(answer: JsonObject | ProtocolError) -> str:
    """An answer, for traces."""
    if isinstance(answer, ProtocolError):
        return f"error {answer.code}: {answer.message}"
    meta = answer.get("_meta", {})
    return str({name: value for name, value in answer.items() if name in {"status", "isError"}} | {"_meta": meta})
