"""Calls that become background tasks: the task is created, the worker is invoked, and the client gets the task
(docs/background.md).

2025-11-25, basic/utilities/tasks, Creating Tasks; for the 2026 era the extension `io.modelcontextprotocol/tasks`.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from mcp_baton.background.task_questions import question_capabilities
from mcp_baton.exceptions import (
    OutcomeUnknown,
    ProtocolError,
    StoreBusy,
    StoreError,
    StoreUnavailable,
    TaskFinished,
    TaskHeld,
    TaskNotFound,
    TooLarge,
    TooManyTasks,
)
from mcp_baton.present.mcp_task import task_summary
from mcp_baton.protocol.envelope import TASKS_EXTENSION
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    InvalidParams,
    missing_capability,
)
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.keys import own_key
from mcp_baton.tasks.record import JOB_ATTEMPTS, SALT, WORKFLOW_TASK, JobSpec, NewTask, TaskRecord
from mcp_baton.tasks.store import Start, TaskStore
from mcp_baton.tools.asking import TaskBegins
from mcp_baton.tools.calls import ToolCall
from mcp_baton.tools.content import error_result
from mcp_baton.tools.labels import scopes_in
from mcp_baton.tools.outcomes import Failed, Prepared
from mcp_baton.tools.running.runner import bound_tool, prepare_call
from mcp_baton.tools.tool import Tool
from mcp_baton.workflow.definition import ANSWERS, Workflow
from mcp_baton.workflow.direct_calls import outcome_alone, result_of
from mcp_baton.workflow.dispatching import dispatch
from mcp_baton.workflow.execution import Execution
from mcp_baton.workflow.lease import lasts
from mcp_baton.workflow.refusals import WrongWorkflow, unreadable
from mcp_baton.workflow.repetitions import REPEATS_KEY, Starter
from mcp_baton.workflow.request import Request
from mcp_baton.workflow.runs import new_run, resumed_values
from mcp_baton.workflow.workflow_tool import WorkflowTool

logger = logging.getLogger(__name__)


TOO_LATE: Final = "It was created too late, and nothing was run."
"""The status message of a task that its own call has cancelled."""

MODEL_TEXT_KEY: Final = "io.modelcontextprotocol/model-immediate-response"
"""The member of `_meta` with a text that the host may give its model at once (MCP 2025-11-25, basic/utilities/tasks,
Creating Tasks)."""


def answer_with_task(request: Request, tool: Tool, arguments: JsonObject, *, continues: bool) -> JsonObject | None:
    """Answer a call with a task, if it becomes one. `None` if the tool has to run in the request.

    Args:
        continues: Whether the call names a task.
    """
    if continues and (request.stateless or "task" not in request.params):
        # A continuation is recorded in the task that it names. The result of a worker would come too late for that.
        return None
    if not becomes_task(request, tool):
        return None
    if continues:
        raise InvalidParams("a call that continues a task cannot be a task of its own; leave out `task`")
    if tool.tasks.explicit:
        # The worker runs it again, with the answers that the client has given so far.
        try:
            outcome = outcome_alone(request, tool, arguments, ToolCall(starts_task=True))
        except TaskBegins as start:
            return _dispatch_and_reply(request, _create(request, tool, arguments, answers=start.answers, key=start.key))
        result = result_of(tool, outcome)
        return result if request.stateless else _completed_task(request, tool, arguments, result)
    refusal = _refusal(request, tool, arguments)
    return refusal or _dispatch_and_reply(request, _create(request, tool, arguments, key=own_key()()))


def _completed_task(request: Request, tool: Tool, arguments: JsonObject, result: JsonObject) -> JsonObject:
    """Create the task of a call that has ended already: a client of the handshake era that asks for a task accepts no
    other result (MCP 2025-11-25, basic/utilities/tasks, Creating Tasks).

    If the result cannot be stored, the client gets an error and not the task: a worker must not repeat the call.
    """
    task = _create(request, tool, arguments, key=own_key()())
    try:
        completed = request.store.complete(task.owner, task.task_id, result, by_client=False) if request.store else task
        return _reply(request, completed)
    except StoreError as error:
        logger.exception("request %s: the result of %s could not be stored", request.exchange.request_id, tool.name)
        raise request.internal_error("The call was made, but its result could not be stored") from error


def _create(
    request: Request, tool: Tool | WorkflowTool, arguments: JsonObject, workflow_task: str | None = None, **spec: Any
) -> TaskRecord:
    with _protocol_errors(request):
        return _store(request).create(new_job(request, tool, arguments, workflow_task, _ttl_ms(request), **spec))


def new_job(
    execution: Execution,
    tool: Tool | WorkflowTool,
    arguments: JsonObject,
    workflow_task: str | None = None,
    ttl_ms: int | None = None,
    task_id: str | None = None,
    **spec: Any,
) -> NewTask:
    """Return the task of a call in the background, to be created."""
    job_spec = JobSpec(
        tool=tool.name,
        request_id=execution.exchange.request_id,
        scopes=tuple(sorted(scopes_in(execution.claims))),
        capabilities=question_capabilities(execution.envelope),
        revision=execution.envelope.revision,
        attempts=JOB_ATTEMPTS if tool.tasks.idempotent else 1,
        workflow_task=workflow_task,
        base_url=execution.base_url,
        traceparent=execution.services.telemetry.traceparent(),
        **spec,
    )
    variables: dict[str, Json] = {} if workflow_task is None else {WORKFLOW_TASK: workflow_task}
    if isinstance(tool, Tool) and tool.approval is not None:
        variables[SALT] = new_token()
    return NewTask(execution.owner or "", variables, arguments=arguments, ttl_ms=ttl_ms, work=job_spec, task_id=task_id)


def _dispatch_and_reply(request: Request, task: TaskRecord) -> JsonObject:
    dispatch(request.services, task)
    return _reply(request, task)


def reply_with_task(request: Request, task: TaskRecord, introduction: str) -> JsonObject:
    """Return the task of an equal call, and say so to the model."""
    reply = dict(_reply(request, task))
    meta = reply.get("_meta")
    members: dict[str, Json] = dict(meta) if isinstance(meta, Mapping) else {}
    text = " ".join(filter(None, [introduction, str(members.get(MODEL_TEXT_KEY, ""))]))
    if request.stateless:
        reply["statusMessage"] = text
    return {**reply, "_meta": {**members, MODEL_TEXT_KEY: text, REPEATS_KEY: True}}


def _reply(request: Request, task: TaskRecord) -> JsonObject:
    """Return the task for the client, and a text for its model. The extension has no member for such a text, but hosts
    may show the status message to the model."""
    summary = task_summary(task, request)
    meta: JsonObject = {}
    if not task.status.terminal and task.job is not None:
        text = f"{task.job.work.tool} runs in the background as task {task.task_id}. You may do other work meanwhile."
        meta = {"_meta": {MODEL_TEXT_KEY: text}}
        if request.stateless:
            summary.setdefault("statusMessage", text)
    return {"resultType": "task", **summary, **meta} if request.stateless else {"task": summary, **meta}


def becomes_task(request: Request, tool: Tool | WorkflowTool) -> bool:
    """Whether a call becomes a task. Raises `ProtocolError` if the tool requires a task and none can be created, or if
    the call requests a task that the tool forbids."""
    support = tool.tasks.support
    if support == "forbidden":
        # The 2026 era has no such param. A server without background tools has not declared it either.
        if not request.stateless and "task" in request.params and request.has_workers and request.server.has_jobs:
            raise ProtocolError(METHOD_NOT_FOUND, f"The tool {tool.name} does not run as a task; leave out `task`")
        return False
    if request.may_have_tasks and request.has_workers:
        return True
    if support == "optional":
        return False
    if not request.may_have_tasks:
        if request.stateless:
            raise missing_capability({"extensions": {TASKS_EXTENSION: {}}})
        raise ProtocolError(METHOD_NOT_FOUND, f"The tool {tool.name} runs as a task only; send `task` with the call")
    raise ProtocolError(INTERNAL_ERROR, f"The tool {tool.name} runs in the background, and {_missing_part(request)}")


def _missing_part(request: Request) -> str:
    if request.owner is None:
        return "the caller has no identity that a task could belong to"
    if request.store is None:
        return "this server has no task store: set BATON_TABLE"
    return "this server has no worker: set BATON_WORKER"


def _refusal(request: Request, tool: Tool, arguments: JsonObject) -> JsonObject | None:
    """Return the answer to a call with invalid arguments, for which no task is created; `None` if they are valid. A
    client that accepts only a task gets an error."""
    prepared = prepare_call(request, bound_tool(tool), arguments)
    if isinstance(prepared, Prepared):
        return None
    if isinstance(prepared, Failed):
        problem = prepared.error
    else:
        problem = f"Invalid arguments for tool {tool.name}: {prepared.text}"
    if request.stateless:
        return error_result(problem)
    raise ProtocolError(INVALID_PARAMS, problem)


def _ttl_ms(request: Request) -> int | None:
    return None if request.stateless else request.requested_ttl()


def _store(request: Request) -> TaskStore:
    if request.store is None:
        raise ProtocolError(INTERNAL_ERROR, "This server has no task store")
    return request.store


@contextmanager
def _protocol_errors(request: Request) -> Iterator[None]:
    """Turn errors of the store, while it creates tasks, into errors for the client."""
    try:
        yield
    except StoreBusy as error:
        raise ProtocolError(INTERNAL_ERROR, "busy; nothing was run", {"retryAfterMs": error.retry_after_ms}) from error
    except TooManyTasks as error:
        message = f"The task was not created and nothing was run: {error}. Wait for one to end, or cancel one."
        raise ProtocolError(INVALID_REQUEST, message) from error
    except TooLarge as error:
        raise InvalidParams(str(error)) from error
    except OutcomeUnknown as error:
        logger.exception("request %s: it is unknown whether a task was created", request.exchange.request_id)
        # If it was, the client finds it in a list; the first poll then invokes the worker.
        message = "It is not known whether the task was created; the call may still be made"
        raise request.internal_error(message) from error
    except StoreError as error:
        logger.exception("request %s: a task could not be created", request.exchange.request_id)
        raise request.internal_error("The task could not be created; nothing was run") from error


def start_workflow(
    request: Request,
    tool: WorkflowTool,
    arguments: JsonObject,
    task_id: str | None,
    starter: Starter | None = None,
) -> JsonObject:
    """Create the task of the call and, to start a workflow, the workflow's own task before it.

    Errors that can be found now are reported before anything is created. A crash between the two creations leaves a
    task of the workflow without a worker. Its owner can resume it.
    """
    if task_id is not None:
        _check_resumable(request, tool.workflow, task_id, arguments)
        return _dispatch_and_reply(request, _create(request, tool, arguments, task_id, resumes=True))
    ttl_ms, store = _ttl_ms(request), _store(request)
    workflow_ttl_ms = None if ttl_ms is None else max(ttl_ms, request.services.settings.default_ttl_ms)
    _, task = new_run(request, tool.workflow, arguments, workflow_ttl_ms)
    with _protocol_errors(request):
        start = starter.begin() if starter else None
        try:
            job = create_workflow_job(request, store, tool, task, arguments, ttl_ms, start)
        except StoreError as error:
            if starter and start and not isinstance(error, OutcomeUnknown):
                starter.forget(start)
            raise
    return _dispatch_and_reply(request, job)


def create_workflow_job(
    execution: Execution,
    store: TaskStore,
    tool: WorkflowTool,
    task: NewTask,
    arguments: JsonObject,
    ttl_ms: int | None,
    start: Start | None,
) -> TaskRecord:
    """Create the task of a workflow, and then the task of the call that runs it in the background.

    Args:
        task: The task of the workflow, to be created.

    Raises:
        StoreError: as `TaskStore.create`. Nothing runs, except after `OutcomeUnknown`.
    """
    try:
        workflow_task = store.create(task)
    except OutcomeUnknown as error:
        # No job names the task, so nothing runs in any case.
        if error.current is not None:
            _cancel_unused(store, error.current)
        raise StoreUnavailable(str(error)) from error
    answers: JsonObject = {ANSWERS: arguments[ANSWERS]} if ANSWERS in arguments else {}
    task_id = None if start is None else start.task_id
    try:
        job = store.create(new_job(execution, tool, answers, workflow_task.task_id, ttl_ms, task_id))
    except StoreError:
        _cancel_unused(store, workflow_task)
        raise
    if start and not lasts(start.until_ms, store.now_ms(), execution.exchange.remaining_ms):
        # The function stood still. An equal call may have found no task, and may have started another one.
        try:
            store.jobs.withdraw(job, TOO_LATE)
        except StoreError as error:
            # A poll or a sweep has started the job, which may have called tools, or will do so. So the next equal call
            # must find it.
            raise OutcomeUnknown("the task was created too late, and could not be cancelled", job) from error
        _cancel_unused(store, workflow_task)
        raise StoreBusy("the task was created too late")
    return job


def _cancel_unused(store: TaskStore, task: TaskRecord) -> None:
    try:
        store.cancel(task.owner, task.task_id)
    except StoreError:
        logger.warning("task %s: it has no worker and could not be cancelled", task.task_id, exc_info=True)


def _check_resumable(request: Request, workflow: Workflow, task_id: str, arguments: JsonObject) -> None:
    """Report errors of a resume that are known already. The worker, which claims the task, checks again."""
    try:
        task = request.own_task(task_id)
        if task.workflow != workflow.name:
            raise WrongWorkflow(task)
        if task.status.terminal:
            raise TaskFinished(task)
        if task.claim is not None and task.claim.holds_at(request.now_ms()):
            raise TaskHeld(task.claim.until_ms, task)
        resumed_values(workflow, task, arguments)
    except (TaskNotFound, TaskFinished, TaskHeld, StoreBusy):
        raise
    except StoreError as error:
        raise unreadable(task_id, error) from error
