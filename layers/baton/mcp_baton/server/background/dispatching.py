"""Sending for a worker, and sending again where nobody came (docs/background.md, When something fails)."""

import logging
from typing import Protocol

from mcp_baton.exceptions import NotDispatched, StoreError, TaskFinished, TaskNotFound
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import INTERNAL_ERROR
from mcp_baton.server.request import Request
from mcp_baton.tasks.jobs import Dispatcher, event_of
from mcp_baton.tasks.record import TaskRecord, TaskStatus
from mcp_baton.tasks.work import Job
from mcp_baton.telemetry import DISPATCHES_FAILED, TASKS_DISPATCHED, TASKS_GIVEN_UP, Telemetry

logger = logging.getLogger(__name__)


class Sender(Protocol):
    """What a worker is sent for with: a `Request`, or what it is made of."""

    @property
    def dispatcher(self) -> Dispatcher | None:
        """Invokes the worker."""

    @property
    def telemetry(self) -> Telemetry:
        """Where it is noted."""


def dispatch(sender: Sender, task: TaskRecord) -> bool:
    """Send for a worker. Where that fails the task is sent for again by a poll, once it is due.

    Returns:
        Whether the event was taken.
    """
    if sender.dispatcher is None or task.job is None:
        return False
    try:
        sender.dispatcher.dispatch(event_of(task, task.job.dispatches))
    except NotDispatched:
        logger.exception("task %s: no worker could be sent for", task.task_id)
        sender.telemetry.add(DISPATCHES_FAILED)
        return False
    sender.telemetry.add(TASKS_DISPATCHED)
    return True


def looked_after(request: Request, task: TaskRecord) -> TaskRecord:
    """A task as a poll leaves it: where its worker died, or never came, another one is sent for; where that has been
    done often enough, it is given up.

    A failure of the store's is logged, and costs the poll nothing: the next one tries again.

    Raises:
        TaskNotFound: it has expired meanwhile.
    """
    job = task.job
    if job is None or request.store is None or task.status is not TaskStatus.WORKING:
        return task
    now_ms = request.now_ms()
    if task.claim is not None and task.claim.holds_at(now_ms):
        return task
    try:
        if task.claim is not None and task.claim.number >= job.allowed:
            return given_up(request, task)
        if job.due_ms >= now_ms or request.dispatcher is None:
            return task
        again = request.store.jobs.dispatch_again(task)
    except TaskFinished as finished:
        return finished.current
    except TaskNotFound:
        raise
    except StoreError:
        logger.warning("task %s: it could not be looked after", task.task_id, exc_info=True)
        return task
    if again is None:
        return task
    dispatch(request, again)
    return again


def given_up(request: Request, task: TaskRecord) -> TaskRecord:
    """End a task whose attempts are used up; the task as it stands where somebody else got on with it.

    Raises:
        StoreError: it could not be written.
    """
    if request.store is None or task.job is None:
        return task
    ended = request.store.jobs.give_up(task, _died(task.job))
    if ended is None:
        return task
    logger.error("task %s: given up; its workers died", task.task_id)
    request.telemetry.add(TASKS_GIVEN_UP)
    return ended


def _died(job: Job) -> JsonObject:
    """Why a job was given up. What a workflow has done stands in its own task, so the error says how to go on."""
    tool, attempts = job.work.tool, job.work.attempts
    if attempts == 1:
        message = f"The worker died while it ran {tool}. Whether it has happened is not known; it is not run again."
    else:
        message = f"The worker died each of the {attempts} times that it ran {tool}. Given up."
    if job.work.workflow_task is not None:
        message += f" Look at its task {job.work.workflow_task}; call {tool} with this task_id to go on."
    error: dict[str, Json] = {"code": INTERNAL_ERROR, "message": message}
    return error
