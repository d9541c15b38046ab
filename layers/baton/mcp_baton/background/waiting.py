"""Background tasks that wait: no worker runs until a person decides, a callback arrives, or a time is reached
(docs/background.md)."""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from mcp_baton.background.job import JobExecution
from mcp_baton.exceptions import StoreError
from mcp_baton.present.pause_sentences import suspended_line
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.record import (
    APPROVAL_WAIT,
    MAX_DISPATCH_MS,
    JobWaits,
    TaskRecord,
    TaskStatus,
    epoch_ms,
    statuses_of,
)
from mcp_baton.tasks.store import TaskStore
from mcp_baton.tools.approval import AFTER_WAITS_MS
from mcp_baton.workflow.dispatching import dispatch, wake
from mcp_baton.workflow.lease import Lease
from mcp_baton.workflow.pause import AnswersRequired, ApprovalRequired, PauseReason, Waiting

logger = logging.getLogger(__name__)

type Write = Callable[[str, Callable[[], object]], str]
"""Makes the last write of a worker. Takes and returns the outcome; returns another one if the write came too late."""

SUSPENDED: Final = "waits"
CLIENT_ASKED: Final = "asked"
"""The outcomes of a worker that lets its job wait, or has asked the client, for the log."""


class Waits(Struct, frozen=True):
    """What a job waits for.

    Attributes:
        pauses: Why its steps, or the call of a tool, have stopped. Those that wait do so for a person, a callback or a
            time.
        workflow_task: The id of the workflow's task; `None` for a tool.
        retries_ms: Until when the next attempts of elements of lists wait, whatever else their lists wait for.
        lives_until_ms: Until when the workflow's task lives, epoch milliseconds.
    """

    pauses: tuple[PauseReason, ...]
    workflow_task: str | None = None
    retries_ms: tuple[int, ...] = ()
    lives_until_ms: int = 0

    @property
    def steps(self) -> list[str]:
        """The steps that another request can settle: by a callback, or by an answer."""
        return [pause.step for pause in self.pauses if isinstance(pause, Waiting | AnswersRequired)]

    @property
    def ends_ms(self) -> list[int]:
        """When waits end, epoch milliseconds."""
        return [*(pause.until_ms for pause in self.pauses if isinstance(pause, Waiting)), *self.retries_ms]

    @property
    def _expiries_ms(self) -> list[int]:
        return [epoch_ms(pause.expires_at) for pause in self.pauses if isinstance(pause, ApprovalRequired)]

    def stored(self) -> JobWaits:
        """What the job's task says that it waits for."""
        approval = next((pause for pause in self.pauses if isinstance(pause, ApprovalRequired)), None)
        kinds = [pause.waits_for for pause in self.pauses if isinstance(pause, Waiting)]
        kinds += [APPROVAL_WAIT] * (approval is not None) + ["time"] * bool(self.retries_ms)
        message, shown_kinds = suspended_line(self.pauses), tuple(sorted(set(kinds)))
        if approval is None:
            return JobWaits(message, shown_kinds)
        return JobWaits(message, shown_kinds, approval.audience, epoch_ms(approval.expires_at))

    def due_ms(self, now_ms: int) -> int | None:
        """When a sweep lets a worker look, epoch milliseconds; `None` if the job waits for nothing of this."""
        # A sweep also finds a decision whose wake-up was lost.
        looks_ms = [now_ms + MAX_DISPATCH_MS] if self._expiries_ms else []
        return min([*looks_ms, *self._expiries_ms, *self.ends_ms], default=None)

    def ttl_ms(self, now_ms: int) -> int:
        """How long the job must live at least, milliseconds."""
        return max([*self._expiries_ms, *self.ends_ms], default=now_ms) - now_ms + AFTER_WAITS_MS


def suspend(execution: JobExecution, lease: Lease, waits: Waits, write: Write) -> str:
    """Let a job wait: no worker runs until one of its stopped steps can continue. Returns the outcome."""
    store, task, now_ms = execution.store, lease.task, execution.now_ms()
    if store is None:
        return "stopped: there is no task store"
    jobs, due_ms = store.jobs, waits.due_ms(now_ms) or now_ms
    written = write(SUSPENDED, lambda: jobs.suspend(task, lease.claim(), waits.ttl_ms(now_ms), waits.stored(), due_ms))
    execution.notify()
    if written == SUSPENDED:  # otherwise another worker has the job
        wake_if_it_can_continue(execution, store, task, waits)
    return written


def ask_and_wait(
    execution: JobExecution, lease: Lease, questions: Mapping[str, JsonObject], waits: Waits, write: Write
) -> str:
    """Ask the client. Meanwhile the other stopped steps of a workflow can continue, another call can answer its
    questions, or end its task. Returns the outcome."""
    store, now_ms = execution.store, execution.now_ms()
    due_ms = waits.due_ms(now_ms)
    tasks: list[TaskRecord] = []

    def ask() -> None:
        if store is not None and waits.pauses:
            # The client can answer as long as the workflow's task lives.
            ttl_ms = max(waits.ttl_ms(now_ms), waits.lives_until_ms - now_ms)
            lease.task = store.jobs.extend(lease.task, ttl_ms, ttl_ms - AFTER_WAITS_MS // 2)
        if store is not None:
            # Only a job with a time can be woken.
            expires_ms = lease.task.created_ms + lease.task.ttl_ms if waits.workflow_task else None
            tasks.append(store.jobs.ask(lease.task, lease.claim(), questions, due_ms or expires_ms))

    written = write(CLIENT_ASKED, ask)
    if store is None or written != CLIENT_ASKED:
        return written
    for task in tasks:
        if task.status is TaskStatus.WORKING:  # the client has answered while the worker ran
            dispatch(execution.services, task)
        elif waits.pauses:
            wake_if_it_can_continue(execution, store, task, waits)
    return written


def wake_if_it_can_continue(execution: JobExecution, store: TaskStore, task: TaskRecord, waits: Waits) -> None:
    """Wake a job that was released, if a step can continue already. A decision or a callback wakes a job unless a
    worker still holds the claim, so this is checked after the release."""
    try:
        can_continue = _can_continue(execution, store, waits)
    except StoreError:
        # The claim is released, so this worker must not end with an error, after which it would write again. Another
        # worker reads what this one could not.
        logger.warning("task %s: it may continue already; a worker looks again", task.task_id, exc_info=True)
        can_continue = True
    if can_continue:
        wake(execution.services, store, task.owner, task.task_id)


def _can_continue(execution: JobExecution, store: TaskStore, waits: Waits) -> bool:
    """Whether a wait has ended, an approval was decided, a callback has arrived, or the workflow's task has ended since
    the run read them: one `Query` if the job waits for approvals, and one `GetItem` if a step waits."""
    if any(until_ms <= execution.now_ms() for until_ms in waits.ends_ms):
        return True
    task_id = waits.workflow_task or execution.job_id
    if execution.waits_for and execution.waits_for.difference(
        execution.services.features.waiting_approvals(store, task_id)
    ):
        return True
    if waits.workflow_task is None or not waits.steps:
        return False
    task = store.get(execution.owner or "", waits.workflow_task)
    statuses = statuses_of(task)
    return task.status.terminal or any(statuses[step].settled for step in waits.steps if step in statuses)
