"""`tools/call` of a tool that runs as a task of its own: the task is created, a worker is sent for, and the reply goes
out (docs/background.md).

2025-11-25, basic/utilities/tasks, Creating Tasks; for the 2026 era the extension `io.modelcontextprotocol/tasks`.
"""

import logging

from msgspec.structs import replace

from mcp_baton.exceptions import (
    OutcomeUnknown,
    ProtocolError,
    StoreBusy,
    StoreError,
    TaskFinished,
    TaskHeld,
    TaskNotFound,
    TooLarge,
    TooManyTasks,
)
from mcp_baton.protocol.envelope import TASKS_EXTENSION
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
)
from mcp_baton.server.asking.asker import TaskBegins
from mcp_baton.server.background.dispatching import dispatch
from mcp_baton.server.background.questions import declared
from mcp_baton.server.definitions.labels import scopes_in
from mcp_baton.server.definitions.tool import Tool
from mcp_baton.server.definitions.workflow_tool import WorkflowTool
from mcp_baton.server.methods.calling import outcome_alone, result_of
from mcp_baton.server.request import Request
from mcp_baton.server.running.bound_function import bound_tool
from mcp_baton.server.running.runner import CallOptions, prepared_for
from mcp_baton.server.schema.schema import explain
from mcp_baton.server.workflows.runs import NotOfWorkflow, NotRead, new_invocation, resumed_invocation
from mcp_baton.server.workflows.task_view import options_of, task_summary
from mcp_baton.tasks.record import ATTEMPTS, WORKFLOW_TASK, JobSpec, NewTask, TaskRecord
from mcp_baton.workflow.definition import ANSWERS, Workflow
from mcp_baton.workflow.host import Failed, Prepared
from mcp_baton.workflow.keys import own_key
from mcp_baton.workflow.run import new_task

logger = logging.getLogger(__name__)


def as_task(request: Request, tool: Tool, arguments: JsonObject, task_id: str | None) -> JsonObject | None:
    """Begin a task for a call, where it is to be one.

    Args:
        request: The request.
        tool: What is called.
        arguments: With what.
        task_id: The task that the call goes on with.

    Returns:
        What the request is answered with; `None` where the call is made in its request.

    Raises:
        ProtocolError: it must be a task and cannot, or cannot be a task and asks for it.
        InputRequired: a function that begins in the request asks the client first.
    """
    if not becomes_task(request, tool):
        return None
    if task_id is not None:
        # It is recorded in the task that it goes on with, and a worker's result would come too late for that.
        if request.stateless:
            return None
        message = "Invalid params: a call that goes on with a task cannot be a task of its own; leave out `task`"
        raise ProtocolError(INVALID_PARAMS, message)
    if tool.tasks.explicit:
        return _until_it_begins(request, tool, arguments)
    refused = _refused(request, tool, arguments)
    return begun(request, tool, arguments) if refused is None else refused


def _until_it_begins(request: Request, tool: Tool, arguments: JsonObject) -> JsonObject:
    """Call a function that begins in its request, and says itself where its task begins. With the answers that the
    client has given until there the worker calls it again.

    Returns:
        The task; what the call has come to where the function has ended without one.

    Raises:
        InputRequired: the client must answer first.
        CallerGone: the client went away.
        ProtocolError: the function wants the request answered with it, or the task could not be created.
    """
    try:
        outcome = outcome_alone(request, tool, arguments, CallOptions(starts_task=True))
    except TaskBegins as begins:
        return begun(request, tool, arguments, answers=begins.answers, key=begins.key)
    result = result_of(tool, outcome)
    return result if request.stateless else _over_at_once(request, tool, arguments, result)


def _over_at_once(request: Request, tool: Tool, arguments: JsonObject, result: JsonObject) -> JsonObject:
    """The task of a call that has ended already. Whoever asks for a task in the handshake era takes nothing else
    (MCP 2025-11-25, basic/utilities/tasks, Creating Tasks).

    Where its result cannot be stored nobody is sent for, and the client never learns of the task: the call was made.
    """
    task = created(request, tool, arguments)
    if request.store is None:
        return as_created(request, task)
    try:
        return as_created(request, request.store.complete(task.owner, task.task_id, result, by_client=False))
    except StoreError as error:
        correlation_id = request.exchange.request_id
        logger.exception("request %s: the result of %s could not be stored", correlation_id, tool.name)
        message = "The call was made, but its result could not be stored"
        raise ProtocolError(INTERNAL_ERROR, message, {"correlationId": correlation_id}) from error


def begun(
    request: Request, tool: Tool, arguments: JsonObject, *, answers: JsonObject | None = None, key: str | None = None
) -> JsonObject:
    """Create the task of a call, durably, and send for a worker.

    Args:
        request: The request.
        tool: What is called.
        arguments: With what.
        answers: What the client has answered before the task began, by key.
        key: The call's idempotency key, where it has one already.

    Raises:
        ProtocolError: it could not be created.
    """
    task = created(request, tool, arguments, answers=answers, key=key)
    dispatch(request.services, task)
    return as_created(request, task)


def created(
    request: Request, tool: Tool, arguments: JsonObject, *, answers: JsonObject | None = None, key: str | None = None
) -> TaskRecord:
    """Create the task of a call, durably; nobody is sent for. As `begun`."""
    work = replace(work_of(request, tool), key=own_key()() if key is None else key, answers=answers or {})
    return stored(request, NewTask(request.owner or "", {}, arguments=arguments, ttl_ms=asked_ttl(request), work=work))


def work_of(request: Request, called: Tool | WorkflowTool) -> JobSpec:
    """What a worker has to do that makes this request's call, and on whose behalf."""
    return JobSpec(
        tool=called.name,
        request_id=request.exchange.request_id,
        scopes=tuple(sorted(scopes_in(request.claims))),
        capabilities=declared(request.envelope),
        revision=request.envelope.revision,
        attempts=ATTEMPTS if called.tasks.idempotent else 1,
    )


def as_created(request: Request, task: TaskRecord) -> JsonObject:
    """A task as the answer to the call that made it."""
    made = task_summary(task, options_of(request))
    return {"resultType": "task", **made} if request.stateless else {"task": made}


def becomes_task(request: Request, tool: Tool | WorkflowTool) -> bool:
    """Whether a call becomes a task.

    Raises:
        ProtocolError: it must and cannot, or asks for what cannot be.
    """
    support = tool.tasks.support
    if support == "forbidden":
        # The 2026 era has no such param. A server without any such tool has not declared that it knows it.
        if not request.stateless and "task" in request.params and request.has_workers and request.server.has_jobs:
            raise ProtocolError(METHOD_NOT_FOUND, f"The tool {tool.name} does not run as a task; leave out `task`")
        return False
    if request.may_have_tasks and request.has_workers:
        return True
    if support == "optional":
        return False
    if not request.may_have_tasks:
        raise _needs_tasks(request, tool)
    raise ProtocolError(INTERNAL_ERROR, f"The tool {tool.name} runs in the background, and {_why_not(request)}")


def _needs_tasks(request: Request, tool: Tool | WorkflowTool) -> ProtocolError:
    if request.stateless:
        data: Json = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
        return ProtocolError(MISSING_CLIENT_CAPABILITY, "Missing required client capability", data)
    return ProtocolError(METHOD_NOT_FOUND, f"The tool {tool.name} runs as a task only; send `task` with the call")


def _why_not(request: Request) -> str:
    if request.owner is None:
        return "the caller has no identity that a task could belong to"
    if request.store is None:
        return "this server has no task store: set BATON_TABLE"
    return "this server has no worker: set BATON_WORKER"


def _refused(request: Request, tool: Tool, arguments: JsonObject) -> JsonObject | None:
    """What a call is answered with whose arguments cannot be used; no task is made for it."""
    prepared = prepared_for(request, bound_tool(tool), arguments)
    if isinstance(prepared, Prepared):
        return None
    problem = (
        prepared.error
        if isinstance(prepared, Failed)
        else f"Invalid arguments for tool {tool.name}: {explain(prepared)}"
    )
    if request.stateless:
        return {"content": [{"type": "text", "text": problem}], "isError": True}
    # Whoever asks for a task takes no other result.
    raise ProtocolError(INVALID_PARAMS, problem)


def asked_ttl(request: Request) -> int | None:
    """`task.ttl`, milliseconds; the store cuts it at its maximum."""
    return None if request.stateless else request.requested_ttl()


def stored(request: Request, task: NewTask) -> TaskRecord:
    """Create a task, durably.

    Raises:
        ProtocolError: it could not be created.
    """
    if request.store is None:
        raise ProtocolError(INTERNAL_ERROR, "This server has no task store")
    try:
        return request.store.create(task)
    except StoreBusy as busy:
        raise ProtocolError(INTERNAL_ERROR, "busy; nothing was run", {"retryAfterMs": busy.retry_after_ms}) from busy
    except TooManyTasks as error:
        # What it says is meant for the owner: which limit it is, and what is to be done.
        message = f"The task was not created and nothing was run: {error}. Wait for one to end, or cancel one."
        raise ProtocolError(INVALID_REQUEST, message) from error
    except TooLarge as error:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: {error}") from error
    except OutcomeUnknown as unknown:
        logger.exception("request %s: whether a task was created is not known", request.exchange.request_id)
        # Where it was, whoever finds it in a list and polls sends for its worker.
        message = "It is not known whether the task was created; the call may still be made"
        raise ProtocolError(INTERNAL_ERROR, message, {"correlationId": request.exchange.request_id}) from unknown
    except StoreError as error:
        logger.exception("request %s: a task could not be created", request.exchange.request_id)
        data: Json = {"correlationId": request.exchange.request_id}
        raise ProtocolError(INTERNAL_ERROR, "The task could not be created; nothing was run", data) from error


def begin(request: Request, twin: WorkflowTool, arguments: JsonObject, task_id: str | None) -> JsonObject:
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
        answers: JsonObject = {ANSWERS: arguments[ANSWERS]} if ANSWERS in arguments else {}
        return _begun(request, twin, own.task_id, answers)
    except ProtocolError:
        _withdraw(request, own)
        raise


def _begun(request: Request, twin: WorkflowTool, workflow_task: str, arguments: JsonObject) -> JsonObject:
    """Create the call's task, and send for a worker."""
    work = replace(work_of(request, twin), workflow_task=workflow_task)
    names: JsonObject = {WORKFLOW_TASK: workflow_task}
    new = NewTask(request.owner or "", names, arguments=arguments, ttl_ms=asked_ttl(request), work=work)
    task = stored(request, new)
    dispatch(request.services, task)
    return as_created(request, task)


def _own_ttl(request: Request) -> int | None:
    """The lifetime of the workflow's own task: as long as the call's, and no shorter than any task's."""
    asked = asked_ttl(request)
    return None if asked is None else max(asked, request.services.settings.default_ttl_ms)


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
