"""What a result's `_meta` says of a task (docs/workflows.md)."""

from collections.abc import Sequence
from typing import Literal

from mcp_baton.protocol.envelope import RELATED_TASK_KEY
from mcp_baton.protocol.json import Json
from mcp_baton.server.request import Request
from mcp_baton.tasks.pauses import shown_pause
from mcp_baton.tasks.record import RESULT_PREFIX, StepProgress, StepStatus, TaskRecord, steps_of
from mcp_baton.workflow.plan import Plan
from mcp_baton.workflow.run import EndedRun, Superseded, TaskOver


def run_meta(request: Request, run: EndedRun) -> dict[str, Json]:
    """The `_meta` of a workflow prompt's reply; nothing for a run without a task.

    What was written is told as the store holds it; what could not be, from memory, with `persisted: false`, and what
    may have been, with `persisted: "unknown"`.
    """
    if run.task is None:
        return {}
    meta = task_meta(request, run.task)
    if run.persisted is not True:
        meta["steps"] = [{"name": name, "status": status.value} for name, status in run.statuses.items()]
        meta.pop("pause_reason", None)
        if run.pause:
            meta["pause_reason"] = run.pause.to_json()
        meta["persisted"] = run.persisted
    if isinstance(run.stop, TaskOver) and run.stop.status is None:
        del meta["task_status"]  # there is none any more
    if isinstance(run.stop, Superseded):
        meta["superseded"] = True
    return meta | _oversized(run.oversized)


def recorded_meta(request: Request, plan: Plan, following: Sequence[Json], oversized: Sequence[str]) -> dict[str, Json]:
    """The `_meta` of a continuation that was recorded.

    Args:
        plan: The plan after the write.
        following: What remains to be done: `next`.
        oversized: The names of the variables that did not fit.
    """
    meta = task_meta(request, plan.task, plan.steps)
    return meta | {"next": following, "recorded": True} | _oversized(oversized)


def unrecorded_meta(
    request: Request,
    task_id: str,
    error: str,
    task: TaskRecord | None = None,
    following: Sequence[Json] = (),
    recorded: Literal[False, "unknown"] = False,
) -> dict[str, Json]:
    """The `_meta` of a continuation that was not recorded, or of which that is not known.

    Args:
        task: The task, where its owner may know of it and its state is known.
        following: What remains to be done of it.
    """
    meta: dict[str, Json] = {"task_id": task_id}
    if task:
        meta = task_meta(request, task) | {"next": following}
    return meta | {"recorded": recorded, "record_error": error}


def task_meta(request: Request, task: TaskRecord, steps: Sequence[StepProgress] | None = None) -> dict[str, Json]:
    """A task's id, status, steps and, where it is paused, why."""
    steps = steps_of(task) if steps is None else steps
    meta: dict[str, Json] = {
        "task_id": task.task_id,
        "task_status": task.status.value,
        "steps": [{"name": step["name"], "status": step["status"]} for step in steps],
    }
    pause = shown_pause(task, request.now_ms)
    if pause is not None:
        meta["pause_reason"] = pause
    return meta if request.stateless else meta | related_task(task.task_id)


def listed_meta(task: TaskRecord, now_ms: int) -> dict[str, Json]:
    """Where a listed task stands: `{"_meta": {"workflow", "step", "pause_reason"}}`; of one that a worker works on,
    `{"_meta": {"tool"}}`; nothing for any other.

    `step` is the first step that is not settled. `pause_reason` is without its `error`, which can be of any length;
    `tasks/get` has it.
    """
    if task.workflow is None:
        return {} if task.job is None else {"_meta": {"tool": task.job.work.tool}}
    meta: dict[str, Json] = {"workflow": task.workflow}
    step = next((step["name"] for step in steps_of(task) if not StepStatus(step["status"]).settled), None)
    if step is not None:
        meta["step"] = step
    pause = shown_pause(task, lambda: now_ms)
    if pause is not None:
        meta["pause_reason"] = {name: value for name, value in pause.items() if name != "error"}
    return {"_meta": meta}


def related_task(task_id: str) -> dict[str, Json]:
    """The handshake era's standard reference to a task."""
    return {RELATED_TASK_KEY: {"taskId": task_id}}


def _oversized(names: Sequence[str]) -> dict[str, Json]:
    """Which results the store could not keep whole (docs/storage.md), by step or variable."""
    return {"oversized": [name.removeprefix(RESULT_PREFIX) for name in names]} if names else {}
