"""Background tasks that wait: no worker runs until a person decides or a time is reached (docs/background.md)."""

from collections.abc import Callable, Mapping
from typing import Final

from mcp_baton.server.approvals.notifying import notify
from mcp_baton.server.background.dispatching import wake
from mcp_baton.server.background.job import JobExecution
from mcp_baton.tasks.record import LONGEST_DISPATCH_MS, timestamp
from mcp_baton.workflow.lease import Lease
from mcp_baton.workflow.run import EndedRun

HOUR_MS: Final = 3_600_000
"""How long a task lives after its wait has ended, milliseconds."""

type Write = Callable[[str, Callable[[], object]], str]
"""Makes the last write of a worker. Takes and returns the outcome; returns another one if the write came too late."""


def suspended(
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
    message = f"waits for an approval of {record.audience} until {timestamp(record.until_ms)}"
    until_ms = max([record.until_ms, *(waits or {}).values()])
    # A poll also finds a decision whose wake-up was lost.
    due_ms = min([now_ms + LONGEST_DISPATCH_MS, *(waits or {}).values()])
    outcome = _suspended(execution, lease, "waits for an approval", message, until_ms, due_ms, write)
    notify(execution)
    # A decision wakes the task. One that came before the claim was released found a worker, so look again.
    current = store.approvals.get(approval_id)
    if current is None or not current.waits_at(execution.now_ms()):
        wake(execution.services, store, lease.task.owner, lease.task.task_id)
    return outcome


def suspended_until(execution: JobExecution, lease: Lease, run: EndedRun, write: Write) -> str:
    """Let the job of a workflow wait until the first of its waits ends. Returns the outcome, for the log."""
    waits = run.known.waits()
    message = run.pause.short_form() if run.pause else ""
    return _suspended(execution, lease, "waits", message, max(waits.values()), min(waits.values()), write)


def _suspended(
    execution: JobExecution, lease: Lease, outcome: str, message: str, until_ms: int, due_ms: int, write: Write
) -> str:
    store, ttl_ms = execution.store, until_ms - execution.now_ms() + HOUR_MS
    if store is None:
        return "stopped: there is no task store"
    jobs = store.jobs
    return write(outcome, lambda: jobs.suspend(lease.task, lease.claim(), ttl_ms, message, due_ms))
