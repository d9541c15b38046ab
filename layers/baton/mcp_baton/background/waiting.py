"""Background tasks that wait: no worker runs until a person decides, a callback arrives, or a time is reached
(docs/background.md)."""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from mcp_baton.background.job import JobExecution
from mcp_baton.exceptions import StoreError
from mcp_baton.tasks.record import MAX_DISPATCH_MS, WAITS, WAITS_FOR, statuses_of
from mcp_baton.tasks.store import TaskStore
from mcp_baton.tools.approval import AFTER_WAITS_MS
from mcp_baton.workflow.dispatching import wake
from mcp_baton.workflow.lease import Lease
from mcp_baton.workflow.pause import ApprovalRequired, Waiting
from mcp_baton.workflow.run import EndedRun, Stop

logger = logging.getLogger(__name__)

type Write = Callable[[str, Callable[[], object]], str]
"""Makes the last write of a worker. Takes and returns the outcome; returns another one if the write came too late."""

FOR_APPROVAL: Final = "waits for an approval"
FOR_WAIT: Final = "waits"
"""The outcomes of a worker that lets its job wait, for the log."""


def suspend_run(execution: JobExecution, lease: Lease, run: EndedRun, write: Write) -> str:
    """Let the job of a workflow wait: no worker runs until one of its steps can continue. Returns the outcome."""
    pause = run.pause
    message = _message(pause) if isinstance(pause, ApprovalRequired) else FOR_WAIT
    if isinstance(pause, Waiting):
        message = f"{WAITS_FOR[pause.waits_for]} {pause.until} (step {pause.step})"
    approvals_ms = {stop.approval_id: _epoch_ms(stop.expires_at) for stop in _approvals(run.stops)}
    task_id = run.task.task_id if run.task else None
    waits = {stop.step: stop.until_ms for stop in run.stops if isinstance(stop, Waiting)}
    return _suspend(execution, lease, message, approvals_ms, write, waits, task_id)


def suspend_for_approval(execution: JobExecution, lease: Lease, approval: ApprovalRequired, write: Write) -> str:
    """Let the job of a tool wait: no worker runs until the decision. Returns the outcome."""
    approvals_ms = {approval.approval_id: _epoch_ms(approval.expires_at)}
    return _suspend(execution, lease, _message(approval), approvals_ms, write)


def _suspend(
    execution: JobExecution,
    lease: Lease,
    message: str,
    approvals_ms: Mapping[str, int],
    write: Write,
    waits: Mapping[str, int] = MappingProxyType({}),
    workflow_task: str | None = None,
) -> str:
    """Release the claim, then check whether a step can continue already.

    Args:
        approvals_ms: When the approvals expire, epoch milliseconds, by id.
        waits: When the waits of steps end, epoch milliseconds, by step.
    """
    store, task, now_ms = execution.store, lease.task, execution.now_ms()
    if store is None:
        return "stopped: there is no task store"
    outcome = FOR_APPROVAL if message.startswith(WAITS) else FOR_WAIT
    ends_ms = waits.values()
    # A sweep also finds a decision whose wake-up was lost.
    checks_ms = [now_ms + MAX_DISPATCH_MS] if approvals_ms else []
    due_ms = min([*checks_ms, *ends_ms], default=now_ms)
    ttl_ms = max([*approvals_ms.values(), *ends_ms], default=now_ms) - now_ms + AFTER_WAITS_MS
    jobs = store.jobs
    written = write(outcome, lambda: jobs.suspend(task, lease.claim(), ttl_ms, message, due_ms))
    execution.notify()
    if written != outcome:  # another worker has the job
        return written
    # A decision or a callback wakes the job, unless a worker still holds the claim. So check after the release.
    try:
        can_continue = _can_continue(execution, store, waits, workflow_task)
    except StoreError:
        # The claim is released, so this worker must not end with an error, after which it would write again. Another
        # worker reads what this one could not.
        logger.warning("task %s: it may continue already; a worker looks again", task.task_id, exc_info=True)
        can_continue = True
    if can_continue:
        wake(execution.services, store, task.owner, task.task_id)
    return outcome


def _can_continue(
    execution: JobExecution, store: TaskStore, waits: Mapping[str, int], workflow_task: str | None
) -> bool:
    """Whether a wait has ended, an approval was decided, a callback has arrived, or the workflow's task has ended since
    the run read them: one `Query` if the job waits for approvals, and one `GetItem` if a step waits."""
    if any(until_ms <= execution.now_ms() for until_ms in waits.values()):
        return True
    task_id = workflow_task or execution.job_id
    if execution.waits_for and execution.waits_for.difference(
        execution.services.features.waiting_approvals(store, task_id)
    ):
        return True
    if workflow_task is None or not waits:
        return False
    task = store.get(execution.owner or "", workflow_task)
    statuses = statuses_of(task)
    return task.status.terminal or any(statuses[step].settled for step in waits if step in statuses)


def _approvals(stops: tuple[Stop, ...]) -> list[ApprovalRequired]:
    return [stop for stop in stops if isinstance(stop, ApprovalRequired)]


def _message(approval: ApprovalRequired) -> str:
    return f"{WAITS} of {approval.audience} until {approval.expires_at}"


def _epoch_ms(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)
