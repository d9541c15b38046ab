"""`tools/call` of a workflow that runs in the background: its tasks are created, and a worker is sent for
(docs/background.md, Workflows in the background).

There are two. The workflow's own task holds its state, as that of any run does. The call's task is what the client
waits for: it ends when the workflow completes, and when it pauses for the model.
"""

import logging

from mcp_baton.exceptions import ProtocolError, StoreBusy, StoreError, TaskFinished, TaskHeld, TaskNotFound
from mcp_baton.light_dataclasses import replace
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.methods.jobs.creating import as_created, asked_ttl, stored, work_of
from mcp_baton.server.methods.jobs.dispatching import dispatch
from mcp_baton.server.methods.runs import NotOfWorkflow, NotRead, new_invocation, resumed_invocation
from mcp_baton.server.published.twin import Twin
from mcp_baton.server.request import Request
from mcp_baton.tasks.record import NewTask, TaskRecord
from mcp_baton.tasks.work import WORKFLOW_TASK
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.invocation import new_task

logger = logging.getLogger(__name__)


def begin(request: Request, twin: Twin, arguments: JsonObject, task_id: str | None) -> JsonObject:
    """Create the call's task, and before it, where the call names none to go on with, the workflow's own.

    What is known at once to be in the way is answered at once, and then nothing is created. Each creation is durable; a
    crash between the two leaves a workflow's task that nobody works on, which its owner can go on with.

    Args:
        request: The request.
        twin: The workflow.
        arguments: Its arguments; of a resume those that are given again.
        task_id: The workflow's task to go on with; `None` to start anew.

    Raises:
        ArgumentRefused: an argument is missing, unknown or does not convert.
        NotResumed: the workflow cannot go on with this task, or not now.
        ProtocolError: a task could not be created.
    """
    if task_id is not None:
        _check_resumable(request, twin.workflow, task_id, arguments)
        return _begun(request, twin, task_id, arguments)
    invocation = new_invocation(request, twin.workflow, arguments, _own_ttl(request))
    own = stored(request, new_task(twin.workflow, invocation, request.owner or "", None))
    try:
        return _begun(request, twin, own.task_id, {})
    except ProtocolError:
        _withdraw(request, own)
        raise


def _begun(request: Request, twin: Twin, workflow_task: str, arguments: JsonObject) -> JsonObject:
    """Create the call's task, and send for a worker."""
    work = replace(work_of(request, twin), workflow_task=workflow_task)
    names: JsonObject = {WORKFLOW_TASK: workflow_task}
    new = NewTask(request.owner or "", names, arguments=arguments, ttl_ms=asked_ttl(request), work=work)
    task = stored(request, new)
    dispatch(request, task)
    return as_created(request, task)


def _own_ttl(request: Request) -> int | None:
    """The lifetime of the workflow's own task: as long as the call's, and no shorter than any task's."""
    asked = asked_ttl(request)
    return None if asked is None else max(asked, request.settings.default_ttl_ms)


def _check_resumable(request: Request, workflow: Workflow, task_id: str, arguments: JsonObject) -> None:
    """Refuse what no worker could go on with. It is decided again by the worker, which alone takes the task."""
    if request.store is None or request.owner is None:
        raise TaskNotFound
    try:
        task = request.store.get(request.owner, task_id)
        if task.workflow != workflow.name:
            raise NotOfWorkflow(task)
        if task.status.terminal:
            raise TaskFinished(task)
        if task.claim is not None and task.claim.holds_at(request.now_ms()):
            raise TaskHeld(task.claim.until_ms, task)
        resumed_invocation(request, workflow, task, arguments)
    except (TaskNotFound, TaskFinished, TaskHeld, StoreBusy):
        raise
    except StoreError as error:
        raise NotRead(error) from error


def _withdraw(request: Request, own: TaskRecord) -> None:
    """End a workflow's task whose call has none: nobody would work on it."""
    try:
        if request.store is not None:
            request.store.cancel(own.owner, own.task_id)
    except StoreError:
        logger.warning("task %s: nobody works on it, and it could not be cancelled", own.task_id, exc_info=True)
