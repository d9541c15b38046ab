"""Dispatching tasks to the worker, and again if no worker came (docs/background.md, When something fails)."""

import logging

from mcp_baton.exceptions import NotDispatched, StoreError, TaskFinished, TaskNotFound
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import INTERNAL_ERROR
from mcp_baton.server.request import Request
from mcp_baton.server.services import Services
from mcp_baton.tasks.jobs import event_of
from mcp_baton.tasks.record import Job, TaskRecord, TaskStanding, TaskStatus
from mcp_baton.tasks.store import TaskStore
from mcp_baton.telemetry import DISPATCHES_FAILED, TASKS_DISPATCHED, TASKS_GIVEN_UP

logger = logging.getLogger(__name__)


def dispatch(services: Services, task: TaskRecord) -> bool:
    """Send the worker the event that names a task. If that fails, a later poll sends it again. Returns whether Lambda
    accepted the event."""
    if services.dispatcher is None or task.job is None:
        return False
    try:
        services.dispatcher.dispatch(event_of(task, task.job.dispatches))
    except NotDispatched:
        logger.exception("task %s: the worker could not be invoked", task.task_id)
        services.telemetry.add(DISPATCHES_FAILED)
        return False
    services.telemetry.add(TASKS_DISPATCHED)
    return True


def wake(services: Services, store: TaskStore, owner: str, task_id: str) -> None:
    """Send a suspended task to the worker. If that fails, a later poll sends it again."""
    try:
        task = store.jobs.wake(owner, task_id)
    except StoreError:
        logger.warning("task %s: it could not be woken; a poll does it later", task_id, exc_info=True)
        return
    if task is not None:
        dispatch(services, task)


def looked_after(request: Request, task: TaskRecord) -> TaskRecord:
    """Check a task at a poll: dispatch it again if its worker died or never came, or give it up after its last attempt.

    A failure of the store is logged only: the next poll tries again. Returns the task as it is now.
    """
    job, services = task.job, request.services
    if job is None or request.store is None or task.status is not TaskStatus.WORKING:
        return task
    now_ms = request.now_ms()
    if task.claim is not None and task.claim.holds_at(now_ms):
        return task
    try:
        if task.claim is not None and task.claim.number >= job.allowed:
            return give_up(services, request.store, task)
        if job.due_ms >= now_ms or services.dispatcher is None:
            return task
        again = request.store.jobs.dispatch_again(task)
    except TaskFinished as finished:
        return finished.current
    except TaskNotFound:
        raise
    except StoreError:
        logger.warning("task %s: the poll could not dispatch it again", task.task_id, exc_info=True)
        return task
    if again is None:
        return task
    dispatch(services, again)
    return again


def give_up(services: Services, store: TaskStore, task: TaskRecord) -> TaskRecord:
    """End a task that has no attempt left. Returns the task as it is now: another process may have changed it first."""
    ended = None if task.job is None else store.jobs.give_up(task, _died(task.job))
    if ended is None:
        return task
    logger.error("task %s: given up; its workers died", task.task_id)
    services.telemetry.add(TASKS_GIVEN_UP)
    return ended


class Followed:
    """A task that is read again and again by cheap reads. If it has changed or has no worker, it is read in full, and
    dispatched again if necessary, as at any poll."""

    def __init__(self, request: Request, store: TaskStore, task: TaskRecord) -> None:
        self._request = request
        self._store = store
        self.task = looked_after(request, task)

    def look(self) -> None:
        if self.task.status.terminal:
            return
        standing = self._store.read_status(self.task.owner, self.task.task_id)
        if standing.version > self.task.version or self._needs_dispatch(standing):
            self.task = looked_after(self._request, self._store.get(self.task.owner, self.task.task_id))

    def _needs_dispatch(self, standing: TaskStanding) -> bool:
        """Whether the task must be dispatched again or given up, as far as a cheap read shows."""
        job, claim, now_ms = self.task.job, standing.claim, self._request.now_ms()
        if job is None or standing.status is not TaskStatus.WORKING:
            return False
        if claim is not None and claim.holds_at(now_ms):
            return False
        is_used_up = claim is not None and claim.number >= job.allowed
        return is_used_up or (job.due_ms < now_ms and self._request.services.dispatcher is not None)


def _died(job: Job) -> JsonObject:
    """The error of a job that was given up. A workflow's progress is in a task of its own: the error names it."""
    tool, attempts = job.work.tool, job.work.attempts
    if attempts == 1:
        message = f"The worker died while it ran {tool}. Whether it has happened is not known; it is not run again."
    else:
        message = f"The worker died each of the {attempts} times that it ran {tool}. Given up."
    if job.work.workflow_task is not None:
        message += f" Look at its task {job.work.workflow_task}; call {tool} with this task_id to go on."
    error: dict[str, Json] = {"code": INTERNAL_ERROR, "message": message}
    return error
