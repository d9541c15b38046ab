"""Background tasks that wait for a person (docs/background.md, Waiting for an approval)."""

from collections.abc import Callable

from mcp_baton.server.approvals.notifying import notify
from mcp_baton.server.background.dispatching import wake
from mcp_baton.server.background.job import JobExecution
from mcp_baton.tasks.record import WAITS, timestamp
from mcp_baton.workflow.approval import GRACE_MS
from mcp_baton.workflow.lease import Lease


def suspended(
    execution: JobExecution,
    lease: Lease,
    approval_id: str,
    write: Callable[[str, Callable[[], object]], str],
) -> str:
    """Let a job wait for an approval: no worker runs until the decision. Returns the outcome, for the log."""
    store, now_ms = execution.store, execution.now_ms()
    record = store.approvals.get(approval_id) if store else None
    if store is None or record is None:
        return "stopped: the approval that it waits for is gone"
    message = f"{WAITS} an approval of {record.audience} until {timestamp(record.until_ms)}"
    ttl_ms = record.until_ms - now_ms + GRACE_MS
    outcome = write("waits for an approval", lambda: store.jobs.suspend(lease.task, lease.claim(), ttl_ms, message))
    notify(execution)
    # A decision wakes the task. One that came before the claim was released found a worker, so look again.
    current = store.approvals.get(approval_id)
    if current is None or not current.waits_at(execution.now_ms()):
        wake(execution.services, store, lease.task.owner, lease.task.task_id)
    return outcome
