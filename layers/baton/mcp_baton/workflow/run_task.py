"""The task of a run: it is created for the run, or claimed for it."""

import logging
from collections.abc import Callable

from msgspec import structs

from mcp_baton.exceptions import OutcomeUnknown, StoreBusy, StoreError, TaskNotFound
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.record import Claim, TaskRecord
from mcp_baton.tasks.store import TaskStore
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.host import Host
from mcp_baton.workflow.lease import Lease, lease_end
from mcp_baton.workflow.run_input import RunInput, new_task

logger = logging.getLogger(__name__)


def create_lease(
    host: Host, store: TaskStore | None, workflow: Workflow, run_input: RunInput, clock: Callable[[], float]
) -> Lease | None:
    """Create the task of a run, which claims it; `None` if the run has no task.

    Raises:
        StoreBusy: the store is overloaded.
    """
    owner = run_input.owner
    if store is None or owner is None:
        cause = "there is no task store" if store is None else "the caller has no identity"
        logger.warning("workflow %s runs without a task: %s", workflow.name, cause)
        return None
    claim = new_claim(host, store)
    if run_input.start is not None:
        claim = structs.replace(claim, until_ms=run_input.start.until_ms)
    task = new_task(workflow, run_input, owner, claim)
    try:
        return begin_lease(host, store, store.create(task), run_input, clock)
    except StoreBusy:
        raise
    except StoreError as error:
        if isinstance(error, OutcomeUnknown) and error.current:
            logger.exception("task %s: whether it was created is not known", error.current.task_id)
            return begin_lease(host, store, error.current, run_input, clock, unsure=True)
        logger.exception("workflow %s runs without a task: it could not be created", workflow.name)
        return None


def begin_lease(
    host: Host,
    store: TaskStore,
    task: TaskRecord,
    run_input: RunInput,
    clock: Callable[[], float],
    *,
    unsure: bool = False,
) -> Lease:
    lease = Lease(store, task, host.left_ms, clock, unsure=unsure)
    if run_input.start is not None and not lease.lasts():
        # The function stood still. An equal call may have found no task, and may have started another run. Or it
        # has taken over this task, which is then left to it.
        try:
            store.cancel(task.owner, task.task_id, lease.current_claim)
        except StoreError:
            logger.warning("task %s was created too late and is not cancelled", task.task_id, exc_info=True)
        raise StoreBusy("the task was created too late")
    return lease


def new_claim(host: Host, store: TaskStore) -> Claim:
    return Claim(new_token(), lease_end(store, host.left_ms), by_worker=host.job_id is not None)


def take_task(
    host: Host,
    store: TaskStore | None,
    workflow: Workflow,
    owner: str,
    task_id: str,
    *,
    named: bool = False,
    takes_over: bool = False,
) -> TaskRecord:
    """Claim a task of this workflow for a resume, and read it.

    Args:
        named: Whether a call that names the task resumes it.
        takes_over: Whether the task is only taken from a run that has died.

    Raises:
        StoreError: as `TaskStore.take`, or there is no store. Nothing was run.
    """
    if store is None:
        raise TaskNotFound
    claim = structs.replace(new_claim(host, store), named=named, takes_over=takes_over)
    return store.take(owner, task_id, workflow.name, claim)
