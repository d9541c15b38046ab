"""The members of a result's `_meta` about a task (docs/workflows.md)."""

from collections.abc import Sequence
from typing import Literal

from mcp_baton.protocol.envelope import RELATED_TASK_KEY
from mcp_baton.protocol.json import Json
from mcp_baton.server.execution import Execution
from mcp_baton.server.workflows.task_view import shown_pause
from mcp_baton.tasks.record import (
    RESULT_PREFIX,
    StepProgress,
    TaskRecord,
    steps_of,
)
from mcp_baton.workflow.lease import Superseded, TaskOver
from mcp_baton.workflow.plan import Plan
from mcp_baton.workflow.repeats import Repeat
from mcp_baton.workflow.run import EndedRun


def run_meta(execution: Execution, run: EndedRun) -> dict[str, Json]:
    """The `_meta` of a run. Empty for a run without a task.

    Stored results are shown as they are stored, the others from memory. `persisted` is `False` if the store does not
    have all results, and `"unknown"` if that is not known.
    """
    if run.task is None:
        return {}
    meta = task_meta(execution, run.task)
    if not run.stored:
        meta["steps"] = [{"name": name, "status": status.value} for name, status in run.statuses.items()]
        meta.pop("pause_reason", None)
        if run.pause:
            meta["pause_reason"] = run.pause.to_json()
    if run.persisted is not True:
        meta["persisted"] = run.persisted
    if isinstance(run.stop, TaskOver) and run.stop.status is None:
        del meta["task_status"]  # the task does not exist any more
    if isinstance(run.stop, Superseded):
        meta["superseded"] = True
    return (
        meta
        | _repeats("may_have_run", run.before)
        | _repeats("may_have_run_twice", run.twice)
        | _oversized(run.oversized)
    )


def recorded_meta(
    execution: Execution, plan: Plan, following: Sequence[Json], oversized: Sequence[str], twice: Sequence[Repeat] = ()
) -> dict[str, Json]:
    """The `_meta` of a continuation that was recorded.

    Args:
        plan: The plan after the write.
        following: The suggested calls: `next`.
        oversized: The names of the variables that did not fit.
        twice: The step that the call was recorded as, if a run may have executed it before.
    """
    meta = task_meta(execution, plan.task, plan.steps)
    made: dict[str, Json] = {"next": following, "recorded": True}
    return (
        meta
        | made
        | _repeats("may_have_run", plan.repeats())
        | _repeats("may_have_run_twice", twice)
        | _oversized(oversized)
    )


def unrecorded_meta(
    execution: Execution,
    task_id: str,
    error: str,
    task: TaskRecord | None = None,
    following: Sequence[Json] = (),
    recorded: Literal[False, "unknown"] = False,
) -> dict[str, Json]:
    """The `_meta` of a continuation that was not recorded or may not have been.

    Args:
        task: The task, if its state is known.
        following: Its suggested calls.
    """
    meta: dict[str, Json] = {"task_id": task_id}
    if task:
        meta = task_meta(execution, task) | {"next": following}
    return meta | {"recorded": recorded, "record_error": error}


def task_meta(execution: Execution, task: TaskRecord, steps: Sequence[StepProgress] | None = None) -> dict[str, Json]:
    """A task's id, status, steps and pause reason, and whether a client supplied its result."""
    steps = steps_of(task) if steps is None else steps
    meta: dict[str, Json] = {
        "task_id": task.task_id,
        "task_status": task.status.value,
        "steps": [{"name": step["name"], "status": step["status"]} for step in steps],
    }
    pause = shown_pause(task, execution.now_ms)
    if pause is not None:
        meta["pause_reason"] = pause
    if task.by_client:
        meta["result_by"] = "client"
    return meta if execution.stateless else meta | related_task(task.task_id)


def _repeats(name: str, repeats: Sequence[Repeat]) -> dict[str, Json]:
    """The steps that may run more than once, with the idempotency keys of their calls (docs/workflows.md, When a run is
    killed)."""
    told: list[Json] = [
        {"step": it.step} if it.key is None else {"step": it.step, "idempotency_key": it.key} for it in repeats
    ]
    return {name: told} if told else {}


def related_task(task_id: str) -> dict[str, Json]:
    """The handshake era's standard reference to a task."""
    return {RELATED_TASK_KEY: {"taskId": task_id}}


def _oversized(names: Sequence[str]) -> dict[str, Json]:
    """The results that were too long to store (docs/storage.md), by step or variable."""
    return {"oversized": [name.removeprefix(RESULT_PREFIX) for name in names]} if names else {}
