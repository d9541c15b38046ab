"""`prompts/get`: the messages of a function, or a run of a workflow (docs/workflows.md)."""

import logging
import math

from mcp_baton.exceptions import ProtocolError, StoreBusy, TaskFinished, TaskHeld, TaskNotFound, ValueLost
from mcp_baton.present.run_text import Message, messages
from mcp_baton.protocol.envelope import TASK_ID_KEY
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST
from mcp_baton.tasks.record import PROGRESS, timestamp
from mcp_baton.tools.outcomes import Failed, Mismatch
from mcp_baton.tools.running.runner import bound_prompt
from mcp_baton.tools.schema.prompt_arguments import check_arguments
from mcp_baton.tools.schema.schema import explain
from mcp_baton.tools.uris import encoded
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.direct_calls import call_alone
from mcp_baton.workflow.engine_host import ServerHost
from mcp_baton.workflow.removed import unknown_name
from mcp_baton.workflow.request import Request
from mcp_baton.workflow.runs import (
    NOT_RESUMED,
    DefinitionChanged,
    NotResumed,
    TaskUnreadable,
    WrongWorkflow,
    answer_with_run,
    run_meta,
)
from mcp_baton.workflow.task_ids import InvalidTaskReference, handle_of, named_task

logger = logging.getLogger(__name__)


def get_prompt(request: Request) -> JsonObject:
    name, arguments = request.name_and_arguments()
    if name in request.server.workflows:
        return _run_workflow(request, request.server.workflows[name], arguments)
    if name in request.server.prompts:
        prompt = request.server.prompts[name]
        _, values = check_arguments(prompt.arguments, arguments)
        match call_alone(request, bound_prompt(prompt), values):
            case Mismatch() as mismatch:
                raise ProtocolError(INVALID_PARAMS, f"Invalid params: {explain(mismatch)}")
            case Failed(error):
                raise ProtocolError(INTERNAL_ERROR, f"The prompt {prompt.name!r} failed: {error}")
            case prompt_messages:
                return _result(prompt.labels.description or "", prompt_messages)
    raise unknown_name(request, "prompt", name, arguments)


def _run_workflow(request: Request, workflow: Workflow, arguments: JsonObject) -> JsonObject:
    task_id, arguments = _task_and_arguments(request, workflow, arguments)
    ttl_ms = request.requested_ttl()
    host = ServerHost(request, until_s=request.reply_due_s() if request.reply.silent else math.inf)
    try:
        run = answer_with_run(request, workflow, arguments, task_id, host, ttl_ms)
    except NOT_RESUMED as error:
        raise refusal(error, task_id) from error
    names_task = run.stored and request.server.names_tasks_in_text(run.workflow)
    handle = handle_of(request.server, run.workflow, run.task.task_id) if names_task and run.task else None
    tools = request.server.tools
    summaries = {step.tool: tools[step.tool].summary for step in run.workflow.steps if step.tool}
    run_messages = messages(run, request.server, summaries.__getitem__, handle)
    result = _result(run.workflow.description, [_message(message) for message in run_messages])
    meta = run_meta(request, run)
    return result | {"_meta": meta} if meta else result


def _task_and_arguments(request: Request, workflow: Workflow, arguments: JsonObject) -> tuple[str | None, JsonObject]:
    if not request.server.names_tasks_in_text(workflow):
        return request.bound_task(), arguments
    try:
        return named_task(request, arguments)
    except InvalidTaskReference as error:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: {error}") from error


def refusal(error: NotResumed, task_id: str | None) -> ProtocolError:
    match error:
        case StoreBusy(retry_after_ms=after_ms):
            return ProtocolError(INTERNAL_ERROR, "busy; nothing was run", {"retryAfterMs": after_ms})
        case TaskHeld(until_ms=until_ms, current=task):
            until = timestamp(until_ms)
            data: Json = {
                "status": task.status.value,
                "progress": task.variables.get(PROGRESS),
                "runningUntil": until,
            }
            cause = f"Another run holds the task until {until} or longer; nothing was run"
            return ProtocolError(INVALID_REQUEST, f"{cause}: read the task, or send the request again then", data)
        case TaskUnreadable(error=cause):
            # Nothing is run, because without the stored state a resume would repeat completed steps.
            logger.error("task %s: it could not be read, so it was not resumed", task_id, exc_info=cause)
            if isinstance(cause, ValueLost):
                message = f"The task cannot be resumed, because its arguments are lost: {cause}. Nothing was run."
            else:
                message = "The task store is not available; nothing was run. Send the same request again."
            return ProtocolError(INTERNAL_ERROR, message)
        case TaskNotFound():
            message = "Unknown task"
        case TaskFinished(current=task):
            message = f"The task is {task.status.value}; there is nothing to continue"
        case WrongWorkflow():
            message = f"Invalid params: `_meta.{TASK_ID_KEY}` is not a task of this workflow"
        case DefinitionChanged(steps=steps):
            change = f"these steps are completed and differ now: {', '.join(steps)}"
            message = f"The workflow has changed since the task was started; {change}"
    return ProtocolError(INVALID_PARAMS, message)


def _result(description: str, prompt_messages: list[Json]) -> dict[str, Json]:
    return ({"description": description} if description else {}) | {"messages": prompt_messages}


def _message(message: Message) -> Json:
    if message.blob is None:
        return {"role": message.role, "content": {"type": "text", "text": message.text}}
    resource: dict[str, Json] = {"uri": encoded(message.blob.uri), "blob": message.blob.blob}
    if message.blob.mime_type:
        resource["mimeType"] = message.blob.mime_type
    return {"role": message.role, "content": {"type": "resource", "resource": resource}}
