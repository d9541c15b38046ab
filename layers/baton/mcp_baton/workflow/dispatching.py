"""Dispatching tasks to the worker, and again if no worker claims them (docs/background.md, When something fails)."""

import logging

from mcp_baton.exceptions import NotDispatched, StoreError, TaskFinished, TaskNotFound
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import INTERNAL_ERROR
from mcp_baton.tasks.jobs import event_of
from mcp_baton.tasks.record import Job, TaskRecord, TaskStanding, TaskStatus, waiting_jobs
from mcp_baton.tasks.store import TaskStore
from mcp_baton.telemetry import DISPATCHES_FAILED, TASKS_DISPATCHED, TASKS_GIVEN_UP, WAKE_UP_DELAY
from mcp_baton.workflow.request import Request
from mcp_baton.workflow.services import Services

logger = logging.getLogger(__name__)


def dispatch(services: Services, task: TaskRecord) -> bool:
    """Send the worker the event that names a task. If that fails, a later poll or sweep sends it again. Returns whether
    Lambda accepted the event."""
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


def wake(services: Services, store: TaskStore, owner: str, task_id: str) -> bool:
    """Send a suspended task to the worker. If that fails, a later poll or sweep sends it again. Returns whether the
    task was suspended."""
    try:
        task = store.jobs.wake(owner, task_id)
    except StoreError:
        logger.warning("task %s: it could not be woken; a poll or a sweep does it later", task_id, exc_info=True)
        return False
    if task is not None:
        dispatch(services, task)
    return task is not None


def wake_waiting_jobs(services: Services, store: TaskStore, task: TaskRecord, *, but: str | None = None) -> None:
    """Wake the jobs that wait with a workflow's task, because the task has ended or changed. `but` is not woken."""
    for job_id in waiting_jobs(task.variables):
        if job_id != but:
            wake(services, store, task.owner, job_id)


def redispatch_at_poll(request: Request, task: TaskRecord) -> TaskRecord:
    """Call `redispatch_if_due` at a poll. A failure of the store is only logged: the next poll tries again. Returns the
    current task."""
    if request.store is None:
        return task
    try:
        return redispatch_if_due(request.services, request.store, task)
    except TaskFinished as error:
        return error.current
    except TaskNotFound:
        raise
    except StoreError:
        logger.warning("task %s: the poll could not dispatch it again", task.task_id, exc_info=True)
        return task


def redispatch_if_due(services: Services, store: TaskStore, task: TaskRecord) -> TaskRecord:
    """Dispatch a task again if its worker died or never started, or give it up after its last attempt. Returns the
    current task. Raises `StoreError`."""
    job, claim, now_ms = task.job, task.claim, store.now_ms()
    if job is None or task.status.terminal or (claim is not None and claim.holds_at(now_ms)):
        return task
    free_ms = 0 if claim is None else claim.until_ms
    if claim is not None and claim.number >= job.allowed:
        current = give_up(services, store, task)
    elif job.due_ms >= now_ms or services.dispatcher is None:
        return task
    else:
        free_ms = max(free_ms, job.due_ms)
        current = store.jobs.dispatch_again(task) or task
        if current is not task:
            dispatch(services, current)
    if current is not task:
        services.telemetry.add(WAKE_UP_DELAY, now_ms - (free_ms or now_ms))
    return current


def give_up(services: Services, store: TaskStore, task: TaskRecord) -> TaskRecord:
    """End a task that has no attempt left. Returns the current task: another process may have changed it first."""
    ended_task = None if task.job is None else store.jobs.give_up(task, _worker_died_error(task.job))
    if ended_task is None:
        return task
    logger.error("task %s: given up; its workers died", task.task_id)
    services.telemetry.add(TASKS_GIVEN_UP)
    return ended_task


class WatchedTask:
    """A task that a request polls by cheap reads. If it has changed or has no worker, it is read in full, and
    dispatched again if necessary, as at any poll."""

    def __init__(self, request: Request, store: TaskStore, task: TaskRecord) -> None:
        self._request = request
        self._store = store
        self.task = redispatch_at_poll(request, task)

    def refresh(self) -> None:
        if self.task.status.terminal:
            return
        standing = self._store.read_status(self.task.owner, self.task.task_id)
        if standing.version > self.task.version or self._needs_dispatch(standing):
            self.task = redispatch_at_poll(self._request, self._store.get(self.task.owner, self.task.task_id))

    def _needs_dispatch(self, standing: TaskStanding) -> bool:
        """Whether a cheap read shows that the task must be dispatched again or given up."""
        job, claim, now_ms = self.task.job, standing.claim, self._request.now_ms()
        if job is None or standing.status is not TaskStatus.WORKING:
            return False
        if claim is not None and claim.holds_at(now_ms):
            return False
        is_used_up = claim is not None and claim.number >= job.allowed
        return is_used_up or (job.due_ms < now_ms and self._request.services.dispatcher is not None)


def _worker_died_error(job: Job) -> JsonObject:
    """Return the error of a job that was given up. For a workflow, it names the task that has the progress."""
    tool, attempts = job.work.tool, job.work.attempts
    if attempts == 1:
        message = f"The worker died while it ran {tool}. The call may have taken effect; it is not run again."
    else:
        message = f"The worker died each of the {attempts} times that it ran {tool}, which is not run again."
    if job.work.workflow_task is not None:
        message += f" Look at its task {job.work.workflow_task}; call {tool} with this task_id to continue."
    error: dict[str, Json] = {"code": INTERNAL_ERROR, "message": message}
    return error
