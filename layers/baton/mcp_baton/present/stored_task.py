"""A stored task as it is shown now: its view, what has happened since its last write, and the members of `_meta`."""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import structs

from mcp_baton.approvals.record import ApprovalState
from mcp_baton.exceptions import StoreError
from mcp_baton.present.pause_sentences import status_line, suspended_line
from mcp_baton.present.view import StepView, TaskView
from mcp_baton.protocol.envelope import RELATED_TASK_KEY
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import (
    APPROVAL_WAIT,
    RESULT_PREFIX,
    Job,
    StepProgress,
    StepStatus,
    TaskRecord,
    TaskStatus,
    pauses_of,
    statuses_of,
    steps_of,
    timestamp,
)
from mcp_baton.tasks.store import TaskStore
from mcp_baton.workflow.ended_run import EndedRun
from mcp_baton.workflow.lease import Superseded, TaskOver
from mcp_baton.workflow.pause import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequired,
    Interrupted,
    PauseReason,
    Waiting,
)
from mcp_baton.workflow.repeats import Repeat
from mcp_baton.workflow.stored_pauses import parse_pause, parse_pauses

logger = logging.getLogger(__name__)

WAITING_TYPE: Final = str(Waiting.__struct_config__.tag)


def view_of(
    task: TaskRecord, now_ms: int, store: TaskStore | None = None, steps: Sequence[StepProgress] | None = None
) -> TaskView:
    """Return a stored task as it is shown, without its values.

    Args:
        now_ms: The time by which claims expire, epoch milliseconds.
        store: Has the approval for which the task waits; `None` if it was requested just now.
        steps: The steps of the task, if the caller has decoded them.
    """
    task = with_decisions(task, store)
    pauses = shown_pauses(task, now_ms)
    claim = task.claim if not task.status.terminal and task.claim and task.claim.holds_at(now_ms) else None
    return TaskView(
        task_id=task.task_id,
        status=task.status.value,
        workflow=task.workflow,
        tool=None if task.job is None else task.job.work.tool,
        message=_message(task, pauses),
        created=task.created_at,
        updated=task.updated_at,
        ttl_ms=task.ttl_ms,
        steps=tuple(StepView(step["name"], step["status"], step.get("tool")) for step in steps or steps_of(task)),
        pauses=pauses,
        running_until=None if claim is None else timestamp(claim.until_ms),
        result_by="client" if task.by_client else None,
        waits_for=task.waits.kinds if task.waits else (),
    )


def view_of_run(run: EndedRun, now_ms: int) -> TaskView | None:
    """Return the task of a run that has ended: as it is stored; and if the last write was not made, from memory."""
    view = None if run.task is None else view_of(run.task, now_ms)
    if view is None or run.stored:
        return view
    steps = tuple(StepView(name, status.value) for name, status in run.statuses.items())
    return structs.replace(view, steps=steps, pauses=tuple(pause.to_json() for pause in run.pauses))


def _message(task: TaskRecord, pauses: Sequence[JsonObject]) -> str | None:
    """The worker's report, or that the task is paused. MCP has no status for that: it is `working`."""
    if task.job is not None and task.job.waits is not None and task.status is TaskStatus.WORKING:
        return task.job.waits.message
    if task.status_message or task.status is not TaskStatus.WORKING or not pauses:
        return task.status_message
    return status_line(parse_pauses(pauses))


def shown_pauses(task: TaskRecord, now_ms: int) -> tuple[JsonObject, ...]:
    """Return why steps of a task have stopped (docs/workflows.md, When a run is killed).

    A task is not paused while a run holds it, nor after its end. If a run's claim has expired and steps are not
    settled, the run was interrupted. This replaces pause reasons that an earlier run stored. A wait can be over since.
    """
    if task.status.terminal:
        return ()
    claim = task.claim
    if claim is not None and claim.lapsed_at(now_ms):
        for step in steps_of(task):
            if not StepStatus(step["status"]).settled:
                return (Interrupted(step["name"], step.get("tool", "")).to_json(),)
    if claim is not None and claim.holds_at(now_ms):
        return ()
    stored = pauses_of(task)
    if all(reason.get("type") != WAITING_TYPE for reason in stored):
        return stored
    statuses = statuses_of(task)
    return tuple(_current(reason, statuses, now_ms) for reason in stored)


def _current(stored: JsonObject, statuses: Mapping[str, StepStatus], now_ms: int) -> JsonObject:
    reason = parse_pause(stored)
    if not isinstance(reason, Waiting):
        return stored
    status = statuses.get(reason.step)
    is_over = reason.until_ms <= now_ms or (status is not None and status.settled)
    return structs.replace(reason, over=True).to_json() if is_over else stored


# What has happened to an approval since


def with_decisions(task: TaskRecord, store: TaskStore | None) -> TaskRecord:
    """Return the task as it is shown: if steps wait for approvals that were decided or have expired, their pause
    reasons say so; and if it is a background call, its status message. One `GetItem` for each approval for which the
    task waits; for a background call one `Query` or `GetItem`, and the requests for the task of its workflow."""
    if store is None or task.shown_pauses is not None:
        return task
    if task.job is not None:
        return _with_decided_message(task, task.job, store)
    stored = () if task.status.terminal else pauses_of(task)
    shown = tuple(_decided(task, reason, store) for reason in stored)
    return task if shown == stored else structs.replace(task, shown_pauses=shown)


def _decided(task: TaskRecord, stored: JsonObject, store: TaskStore) -> JsonObject:
    """Return a stored pause reason, or what has happened to its approval since."""
    reason = parse_pause(stored)
    if not isinstance(reason, ApprovalRequired):
        return stored
    from mcp_baton.approvals.items import approvals_of

    try:
        record = approvals_of(store).get(reason.approval_id)
    except StoreError:
        logger.warning("task %s: its approval cannot be read", task.task_id, exc_info=True)
        return stored
    if record is None or record.waits_at(store.now_ms()) or record.state is ApprovalState.WITHDRAWN:
        return stored
    if reason.of_other:  # whatever the decision is, it says nothing of this call
        return Waiting(reason.step, APPROVAL_WAIT, reason.expires_at, reason.suggested_tool, over=True).to_json()
    kind: type[ApprovalDenied | ApprovalExpired | ApprovalGranted] = ApprovalGranted
    if record.expired_at(store.now_ms()):
        kind = ApprovalExpired
    if record.state is ApprovalState.DENIED:
        kind = ApprovalDenied
    members = {**structs.asdict(reason), "reason": record.reason or ("" if kind is ApprovalDenied else None)}
    return kind(**members).to_json()


def _with_decided_message(task: TaskRecord, job: Job, store: TaskStore) -> TaskRecord:
    """Return the task of a background call. If an approval for which it waits was decided or has expired, or its wait
    is over, its message says so until a worker has started."""
    waits, is_woken = job.waits, task.waits is None
    if task.status is not TaskStatus.WORKING or waits is None or not (waits.audience or is_woken):
        return task
    from mcp_baton.approvals.items import approvals_of

    message = f"the approval of {waits.audience} "
    message += "has expired" if waits.expires_ms <= store.now_ms() else "was decided"
    try:
        workflow_task = job.work.workflow_task
        if workflow_task is None:
            if approvals_of(store).waiting(task.task_id):
                return task
            # Tasks in lists do not have it.
            read_job = store.get(task.owner, task.task_id).job
            workflow_task = read_job.work.workflow_task if read_job else None
        if workflow_task is not None:
            current = with_decisions(store.get(task.owner, workflow_task), store)
            reasons = parse_pauses(shown_pauses(current, store.now_ms()))
            if not (is_woken or any(map(_has_ended, reasons))):
                return task
            message = suspended_line(reasons)
    except StoreError:
        logger.warning("task %s: its approval cannot be read", task.task_id, exc_info=True)
        return task
    return structs.replace(task, status_message=message or None, job=structs.replace(job, waits=None))


def _has_ended(reason: PauseReason) -> bool:
    """Whether a decision or a time has ended what a step has waited for."""
    if isinstance(reason, Waiting):
        return reason.over
    return isinstance(reason, ApprovalDenied | ApprovalGranted | ApprovalExpired)


# As members of `_meta`


def task_meta(view: TaskView, *, stateless: bool) -> dict[str, Json]:
    """Return the members of a result's `_meta` about a task (docs/workflows.md)."""
    steps: Json = [{"name": name, "status": status} for name, status in view.statuses.items()]
    meta: dict[str, Json] = {"task_id": view.task_id, "task_status": view.status, "steps": steps}
    meta |= pause_members(view)
    if view.result_by is not None:
        meta["result_by"] = view.result_by
    return meta if stateless else meta | related_task(view.task_id)


def pause_members(view: TaskView, prefix: str = "") -> dict[str, Json]:
    """Return why steps have stopped: the first reason, and all of them if there are several."""
    members: dict[str, Json] = {} if view.pause is None else {f"{prefix}pause_reason": view.pause}
    return members | ({f"{prefix}pause_reasons": list(view.pauses)} if view.pauses[1:] else {})


def related_task(task_id: str) -> dict[str, Json]:
    """Return the handshake era's standard reference to a task."""
    return {RELATED_TASK_KEY: {"taskId": task_id}}


def run_meta(run: EndedRun, view: TaskView | None, *, stateless: bool) -> dict[str, Json]:
    """Return the `_meta` of a run with its task (`view_of_run`); empty for a run without a task.

    `persisted` is `False` if the store does not have all results, and `"unknown"` if that is not known.
    """
    if view is None:
        return {}
    meta = task_meta(view, stateless=stateless)
    if run.persisted is not True:
        meta["persisted"] = run.persisted
    if isinstance(run.over, TaskOver) and run.over.status is None:
        del meta["task_status"]  # the task has expired
    if isinstance(run.over, Superseded):
        meta["superseded"] = True
    return meta | notes_meta(run.open_repeats, run.repeated, sorted(run.oversized))


def notes_meta(
    may_have_run: Sequence[Repeat], may_have_run_twice: Sequence[Repeat], oversized: Sequence[str]
) -> dict[str, Json]:
    """Return the members of `_meta` about steps that may have run more than once, with the idempotency keys of their
    calls (docs/workflows.md, When a run is killed), and about results that were too long to store (docs/storage.md)."""
    members: dict[str, Json] = {}
    for name, repeats in (("may_have_run", may_have_run), ("may_have_run_twice", may_have_run_twice)):
        if repeats:
            members[name] = [
                {"step": repeat.step} if repeat.key is None else {"step": repeat.step, "idempotency_key": repeat.key}
                for repeat in repeats
            ]
    return members | ({"oversized": [name.removeprefix(RESULT_PREFIX) for name in oversized]} if oversized else {})
