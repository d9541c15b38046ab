"""Invocations: what clients ask for, answered by the real methods of a server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol import jsonrpc
from mcp_baton.protocol.envelope import HANDSHAKE_REVISIONS, TASK_ID_KEY, Envelope, Era
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.state import Seal
from mcp_baton.server.methods import METHODS
from mcp_baton.server.reply import Reply
from mcp_baton.server.request import Request
from mcp_baton.settings import Settings
from tests.simulation.journal import Process
from tests.simulation.servers import server

if TYPE_CHECKING:
    from tests.simulation.world import World

OWNER = "o"
SETTINGS = Settings()
SEAL = Seal(lambda: (b"0" * 32,))


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
    """Answer what is asked, and tell the judge."""
    request = _request(world, process, *_message(world, ask))
    world.note(process.actor, f"{request.message.method} {dict(request.params)}")
    try:
        process.answer = METHODS[Era.HANDSHAKE][request.message.method](request)
    except ProtocolError as error:
        process.answer = error
    world.note(process.actor, f"answers {_in_short(process.answer)}")
    world.judge.answered(process)


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


def _request(world: "World", process: Process, method: str, params: dict[str, Json]) -> Request:
    exchange = SimulatedExchange(world, process)
    meta = params.get("_meta")
    scheduler, store = world.scheduler, world.store(process)
    return Request(
        server=server(mended=world.mended),
        store=store.within(exchange.remaining_ms),
        settings=SETTINGS,
        message=jsonrpc.Request(1, method, params),
        envelope=Envelope(
            Era.HANDSHAKE, HANDSHAKE_REVISIONS[0], meta if isinstance(meta, Mapping) else {}, {}, None, None
        ),
        owner=OWNER,
        exchange=exchange,
        reply=Reply(exchange, streams=False),
        seal=SEAL,
        headers={},
        clock=lambda: scheduler.now_ms / 1000,
        sleep=world.sleep,
        begun_s=scheduler.now_ms / 1000,
    )


def _in_short(answer: JsonObject | ProtocolError) -> str:
    if isinstance(answer, ProtocolError):
        return f"error {answer.code}: {answer.message}"
    meta = answer.get("_meta", {})
    return str({name: value for name, value in answer.items() if name in {"status", "isError"}} | {"_meta": meta})
