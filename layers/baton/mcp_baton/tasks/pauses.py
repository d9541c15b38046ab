"""Why a task does not go on, as every reader is told (docs/workflows.md, When a run is killed)."""

from collections.abc import Callable

from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.record import INTERRUPTED, StepStatus, TaskRecord, pause_of, steps_of


def shown_pause(task: TaskRecord, now_ms: Callable[[], int]) -> JsonObject | None:
    """Why a task does not go on, as every reader is told (docs/workflows.md, When a run is killed).

    While a run holds the task it is not paused. Where a run's claim has run out and steps are not settled, it was
    interrupted, whatever an earlier run has stored.

    Args:
        task: The task.
        now_ms: The time by which claims end, epoch milliseconds; read where there is a claim.
    """
    claim = None if task.status.terminal else task.claim
    if claim is None:
        return pause_of(task)
    at_ms = now_ms()
    if claim.lapsed_at(at_ms):
        return interrupted(task) or pause_of(task)
    return None if claim.holds_at(at_ms) else pause_of(task)


def interrupted(task: TaskRecord) -> JsonObject | None:
    """The pause reason of a task whose run was killed; `None` where every step is settled."""
    for step in steps_of(task):
        if not StepStatus(step["status"]).settled:
            return {"type": INTERRUPTED, "blockedStep": step["name"], "suggestedTool": step.get("tool", "")}
    return None
