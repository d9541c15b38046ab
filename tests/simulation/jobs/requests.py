"""What clients ask about a job, in the words of MCP 2026-07-28 and its extension for tasks."""

from typing import TYPE_CHECKING

from mcp_baton.protocol.json import Json
from tests.simulation.invocations import Ask, listen_message, task_message
from tests.simulation.jobs.heads import asked_in
from tests.simulation.journal import Process

if TYPE_CHECKING:
    from tests.simulation.jobs.world import JobWorld


def message(world: "JobWorld", process: Process, ask: Ask) -> tuple[str, dict[str, Json]]:
    match ask.kind:
        case "start":
            return "tools/call", {"name": world.job.tool, "arguments": world.arguments}
        case "update":
            return "tasks/update", {"taskId": world.task_id, "inputResponses": _answers(world, process, ask)}
        case "listen":
            return listen_message(world.task_id, world.known)
        case _:
            return task_message(world.task_id, ask.kind)


def _answers(world: "JobWorld", process: Process, ask: Ask) -> dict[str, Json]:
    """Answers to some of what the job has asked, the answered questions included, and to one that nobody has asked."""
    head = world.judge.head
    asked = sorted(asked_in(head)) if head else []
    chosen = [key for key in asked if ask.every or world.rng.random() < 0.6] or asked[:1]
    world.given[process.name] = frozenset(chosen)
    return {key: {"action": "accept", "content": {"by": process.name}} for key in [*chosen, "nobody's"]}
