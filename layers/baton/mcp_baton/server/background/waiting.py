"""Background tasks that wait: no worker runs until a person decides, a callback arrives, or a time is reached
(docs/background.md)."""

from collections.abc import Callable, Mapping

from mcp_baton.server.approvals.notifying import notify
from mcp_baton.server.background.dispatching import wake
from mcp_baton.server.background.job import JobExecution
from mcp_baton.tasks.record import LONGEST_DISPATCH_MS, WAITS, statuses_of, timestamp
from mcp_baton.workflow.approval import GRACE_MS
from mcp_baton.workflow.lease import Lease
from mcp_baton.workflow.run import EndedRun

type Write = Callable[[str, Callable[[], object]], str]
"""Makes the last write of a worker. Takes and returns the outcome; returns another one if the write came too late."""


def suspend_for_approval(
    execution: JobExecution, lease: Lease, approval_id: str, write: Write, waits: Mapping[str, int] | None = None
) -> str:
    """Let a job wait for an approval: no worker runs until the decision. Returns the outcome, for the log.

    Args:
        waits: When waits of other steps end, epoch milliseconds.
    """
    store, now_ms = execution.store, execution.now_ms()
    record = store.approvals.get(approval_id) if store else None
    if store is None or record is None:
        return "stopped: the approval that it waits for is gone"
    message = f"{WAITS} of {record.audience} until {timestamp(record.until_ms)}"
    ends_ms = [until_ms for until_ms in (waits or {}).values() if until_ms > now_ms]
    # A sweep also finds a decision whose wake-up was lost.
    due_ms = min([now_ms + LONGEST_DISPATCH_MS, *ends_ms])
    ttl_ms = max([record.until_ms, *ends_ms]) - now_ms + GRACE_MS
    jobs = store.jobs
    outcome = write("waits for an approval", lambda: jobs.suspend(lease.task, lease.claim(), ttl_ms, message, due_ms))
    notify(execution)
    # A decision wakes the task, unless a worker still holds the claim. So check for a decision after the release.
    current = store.approvals.get(approval_id)
    if current is None or not current.waits_at(execution.now_ms()):
        wake(execution.services, store, lease.task.owner, lease.task.task_id)
    return outcome


def suspend_for_wait(execution: JobExecution, lease: Lease, run: EndedRun, write: Write) -> str:
    """Let the job of a workflow wait for callbacks and times: no worker runs until a callback arrives or the first wait
    ends. Returns the outcome, for the log."""
    store, waits, task, now_ms = execution.store, run.known.waits(), lease.task, execution.now_ms()
    if store is None or run.task is None:
        return "stopped: there is no task store"
    ends_ms = [until_ms for until_ms in waits.values() if until_ms > now_ms] or [now_ms]
    message = f"{run.pause.short_form()} (step {run.pause.step})" if run.pause else "waits"
    ttl_ms = max(ends_ms) - now_ms + GRACE_MS
    jobs, due_ms = store.jobs, min(ends_ms)
    outcome = write("waits", lambda: jobs.suspend(lease.task, lease.claim(), ttl_ms, message, due_ms))
    if outcome != "waits":  # another worker has the job
        return outcome
    # A callback wakes the task, unless a worker still holds the claim. So check for callbacks after the release.
    statuses = statuses_of(store.get(task.owner, run.task.task_id))
    if any(statuses[step].settled for step in waits):
        wake(execution.services, store, task.owner, task.task_id)
    return outcome
