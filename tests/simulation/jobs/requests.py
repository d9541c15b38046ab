"""What clients ask about a job, in the words of MCP 2026-07-28 and its extension for tasks; what workers are sent."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcp_baton.exceptions import NotDispatched, StoreError
from mcp_baton.protocol.envelope import STATELESS_REVISIONS, TASKS_EXTENSION, VERSION_HEADER
from mcp_baton.protocol.http import HttpRequest
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.server.endpoint import Endpoint
from mcp_baton.server.methods.jobs.worker import StillHeld
from tests.simulation.invocations import OWNER, SETTINGS, Ask, SimulatedExchange, answer_of, in_short
from tests.simulation.jobs.heads import asked_in
from tests.simulation.jobs.queue import Queue
from tests.simulation.journal import Process

if TYPE_CHECKING:
    from tests.simulation.jobs.world import JobWorld

REVISION = next(iter(STATELESS_REVISIONS))
META: dict[str, Json] = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientInfo": {"name": "simulated", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}, "extensions": {TASKS_EXTENSION: {}}},
}


@dataclass(frozen=True, slots=True)
class JobAsk(Ask):
    """What an invocation is asked for: `start`, `poll`, `update`, `cancel`, `complete`, or `work`.

    Attributes:
        event: What a worker is invoked with.
        every: Whether an update answers every question.
        deliveries: How often the event has been delivered, this time included.
    """

    event: JsonObject | None = None
    every: bool = False
    deliveries: int = 1


def invoke_job(world: "JobWorld", process: Process, ask: JobAsk) -> None:
    """Answer what is asked, and tell the judge."""
    scheduler = world.scheduler
    endpoint = Endpoint(
        world.server(),
        store=world.store(process),
        settings=SETTINGS,
        clock=lambda: scheduler.now_ms / 1000,
        sleep=world.sleep,
        dispatcher=Queue(world, process),
    )
    exchange = SimulatedExchange(world, process)
    if ask.event is not None:
        _work(world, process, endpoint, ask.event, exchange)
        return
    method, params = world.message(process, ask)
    world.note(process.actor, f"{method} { ({**params, '_meta': None}) }")
    name = str(params.get("taskId", params.get("name")))
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        VERSION_HEADER: REVISION,
        "mcp-method": method,
        "mcp-name": name,
    }
    body = dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    process.answer = answer_of(endpoint(HttpRequest("POST", "/mcp", headers, body, OWNER), exchange))
    world.note(process.actor, f"answers {in_short(process.answer)}")
    world.judge.answered(process)


def _work(
    world: "JobWorld", process: Process, endpoint: Endpoint, event: JsonObject, exchange: SimulatedExchange
) -> None:
    """Invoke a worker.

    Raises:
        StoreError, StillHeld, NotDispatched: its invocation failed, as it may.
    """
    named = event["batonTask"]
    assert isinstance(named, dict)
    try:
        outcome = endpoint.work(named, exchange)
    except (StoreError, StillHeld, NotDispatched) as error:
        world.note(process.actor, f"fails: {type(error).__name__}: {error}")
        raise
    world.note(process.actor, f"ends: {outcome}")


def message(world: "JobWorld", process: Process, ask: JobAsk) -> tuple[str, dict[str, Json]]:
    """The method and the params of what a client asks for."""
    task: dict[str, Json] = {"taskId": world.task_id, "_meta": META}
    match ask.kind:
        case "start":
            return "tools/call", {"name": world.job.tool, "arguments": world.arguments, "_meta": META}
        case "poll":
            return "tasks/get", task
        case "update":
            return "tasks/update", {**task, "inputResponses": _answers(world, process, every=ask.every)}
        case "complete":
            return "tasks/cancel", {**task, "result": {"done": True}}
        case _:
            return "tasks/cancel", task


def _answers(world: "JobWorld", process: Process, *, every: bool) -> dict[str, Json]:
    """Answers to some of what the job has asked, the answered questions included, and to one that nobody has asked."""
    head = world.judge.head
    asked = sorted(asked_in(head)) if head else []
    chosen = [key for key in asked if every or world.rng.random() < 0.6] or asked[:1]
    world.given[process.name] = frozenset(chosen)
    return {key: {"action": "accept", "content": {"by": process.name}} for key in [*chosen, "nobody's"]}
