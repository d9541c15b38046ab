"""The task of a run: it is created for the run, or claimed for it."""

import logging
from collections.abc import Callable
from typing import cast

from msgspec import structs

from mcp_baton.exceptions import OutcomeUnknown, StoreBusy, StoreError, TaskNotFound
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.record import PROGRESS, SALT, Claim, NewTask, StepStatus, TaskRecord
from mcp_baton.tasks.store import Start, TaskStore
from mcp_baton.tools.secrets import is_hidden, stored_arguments
from mcp_baton.tools.templates import as_text
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.definition_changes import given_arguments
from mcp_baton.workflow.host import Host
from mcp_baton.workflow.lease import Lease, lease_end
from mcp_baton.workflow.resolve import NOTHING, KnownValues

logger = logging.getLogger(__name__)


def new_task(
    known: KnownValues,
    owner: str | None,
    ttl_ms: int | None = None,
    arguments: JsonObject = NOTHING,
    *,
    is_salted: bool = False,
) -> NewTask:
    """The task to create for a workflow.

    Args:
        owner: Its owner; `None` for an unauthenticated caller, who gets no task.
        arguments: Its arguments as they were sent. Of an `int | str`, a text would not tell `5` from `"5"`.
        is_salted: Whether it needs a salt, with which people who approve cannot guess a secret by its digest.
    """
    workflow = known.workflow
    progress = workflow.progress([StepStatus.PENDING] * len(workflow.steps))
    variables: dict[str, Json] = {PROGRESS: cast("JsonObject", progress)}
    if workflow.secrets or is_salted:
        variables[SALT] = new_token()
    # A value that looks like a stored secret stays a text.
    sent = {name: value for name, value in arguments.items() if not is_hidden(value)}
    return NewTask(
        owner=owner or "",
        variables=variables,
        workflow=workflow.name,
        definition=workflow.fingerprint,
        arguments=stored_arguments({**known.texts, **sent}, workflow.secrets),
        ttl_ms=ttl_ms,
    )


def changed_arguments(known: KnownValues, task: TaskRecord, given: JsonObject) -> dict[str, Json] | None:
    """A task's arguments after a resume, as they are stored; `None` if they stay the same.

    Args:
        given: The arguments of the resume, as they were sent.

    Raises:
        StoreError: the stored ones cannot be read.
    """
    stored = given_arguments(task)
    # An empty value of a form counts as left out, and is not among the texts.
    texts = ((name, text) for name, text in known.texts.items() if name in given)
    sent = {name: text if is_hidden(given[name]) else given[name] for name, text in texts}
    arguments = {**stored, **stored_arguments(sent, known.workflow.secrets)}
    is_same = all(name in stored and as_text(stored[name]) == as_text(arguments[name]) for name in sent)
    return None if is_same else arguments


def create_lease(
    host: Host, store: TaskStore | None, task: NewTask, start: Start | None, clock: Callable[[], float]
) -> Lease | None:
    """Create the task of a run, which claims it; `None` if the run has no task.

    Raises:
        StoreBusy: the store is overloaded.
    """
    if store is None or not task.owner:
        cause = "there is no task store" if store is None else "the caller has no identity"
        logger.warning("workflow %s runs without a task: %s", task.workflow, cause)
        return None
    task = _claimed(task, new_claim(host, store), start)
    try:
        return begin_lease(host, store, store.create(task), start, clock)
    except StoreBusy:
        raise
    except StoreError as error:
        if isinstance(error, OutcomeUnknown) and error.current:
            logger.exception("task %s: whether it was created is not known", error.current.task_id)
            return begin_lease(host, store, error.current, start, clock, unsure=True)
        logger.exception("workflow %s runs without a task: it could not be created", task.workflow)
        return None


def _claimed(task: NewTask, claim: Claim, start: Start | None) -> NewTask:
    """The task, claimed by the run that creates it. The task of a stored start has that start's id and its end."""
    if start is None:
        return structs.replace(task, claim=claim)
    return structs.replace(task, claim=structs.replace(claim, until_ms=start.until_ms), task_id=start.task_id)


def begin_lease(
    host: Host,
    store: TaskStore,
    task: TaskRecord,
    start: Start | None,
    clock: Callable[[], float],
    *,
    unsure: bool = False,
) -> Lease:
    lease = Lease(store, task, host.left_ms, clock, unsure=unsure)
    if start is not None and not lease.lasts():
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
