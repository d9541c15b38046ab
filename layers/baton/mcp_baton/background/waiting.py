"""Background tasks that wait: no worker runs until a person decides, a callback arrives, or a time is reached
(docs/background.md)."""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from mcp_baton.background.job import JobExecution
from mcp_baton.exceptions import StoreError
from mcp_baton.present.sentences import suspended_line
from mcp_baton.tasks.record import MAX_DISPATCH_MS, epoch_ms, statuses_of
from mcp_baton.tasks.store import TaskStore
from mcp_baton.tools.approval import AFTER_WAITS_MS
from mcp_baton.workflow.dispatching import wake
from mcp_baton.workflow.lease import Lease
from mcp_baton.workflow.pause import ApprovalRequired, PauseReason, Waiting

logger = logging.getLogger(__name__)

type Write = Callable[[str, Callable[[], object]], str]
"""Makes the last write of a worker. Takes and returns the outcome; returns another one if the write came too late."""

SUSPENDED: Final = "waits"
"""The outcome of a worker that lets its job wait, for the log."""


def suspend(
    execution: JobExecution,
    lease: Lease,
    pauses: Sequence[PauseReason],
    write: Write,
    workflow_task: str | None = None,
    retries_ms: Sequence[int] = (),
) -> str:
    """Let a job wait: no worker runs until one of its stopped steps can continue. Returns the outcome.

    Args:
        pauses: Why the steps, or the call of a tool, have stopped: each waits for a person, a callback or a time.
        retries_ms: Until when the next attempts of elements of lists wait, whatever else their lists wait for.
    """
    store, task, now_ms = execution.store, lease.task, execution.now_ms()
    if store is None:
        return "stopped: there is no task store"
    waits = [pause for pause in pauses if isinstance(pause, Waiting)]
    ends_ms = [*(wait.until_ms for wait in waits), *retries_ms]
    expiries_ms = [epoch_ms(pause.expires_at) for pause in pauses if isinstance(pause, ApprovalRequired)]
    # A sweep also finds a decision whose wake-up was lost.
    checks_ms = [now_ms + MAX_DISPATCH_MS] if expiries_ms else []
    due_ms = min([*checks_ms, *ends_ms], default=now_ms)
    ttl_ms = max([*expiries_ms, *ends_ms], default=now_ms) - now_ms + AFTER_WAITS_MS
    message, jobs = suspended_line(pauses), store.jobs
    written = write(SUSPENDED, lambda: jobs.suspend(task, lease.claim(), ttl_ms, message, due_ms))
    execution.notify()
    if written != SUSPENDED:  # another worker has the job
        return written
    # A decision or a callback wakes the job, unless a worker still holds the claim. So check after the release.
    try:
        is_over = any(until_ms <= execution.now_ms() for until_ms in ends_ms)
        can_continue = is_over or _can_continue(execution, store, waits, workflow_task)
    except StoreError:
        # The claim is released, so this worker must not end with an error, after which it would write again. Another
        # worker reads what this one could not.
        logger.warning("task %s: it may continue already; a worker looks again", task.task_id, exc_info=True)
        can_continue = True
    if can_continue:
        wake(execution.services, store, task.owner, task.task_id)
    return SUSPENDED


def _can_continue(
    execution: JobExecution, store: TaskStore, waits: Sequence[Waiting], workflow_task: str | None
) -> bool:
    """Whether an approval was decided, a callback has arrived, or the workflow's task has ended since the run read
    them: one `Query` if the job waits for approvals, and one `GetItem` if a step waits."""
    task_id = workflow_task or execution.job_id
    if execution.waits_for and execution.waits_for.difference(
        execution.services.features.waiting_approvals(store, task_id)
    ):
        return True
    if workflow_task is None or not waits:
        return False
    task = store.get(execution.owner or "", workflow_task)
    statuses = statuses_of(task)
    return task.status.terminal or any(statuses[wait.step].settled for wait in waits if wait.step in statuses)
