"""`prompts/get`: the messages of a function, or a run of a workflow (docs/workflows.md)."""

import math
from collections.abc import Sequence

from mcp_baton.exceptions import ProtocolError
from mcp_baton.present.prompt_messages import messages
from mcp_baton.present.sentences import refusal_of
from mcp_baton.present.stored_task import run_meta, view_of_run
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import INTERNAL_ERROR, InvalidParams
from mcp_baton.tools.outcomes import Failed, Mismatch
from mcp_baton.tools.running.runner import bound_prompt
from mcp_baton.tools.schema.prompt_arguments import check_arguments
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.direct_calls import call_alone
from mcp_baton.workflow.engine_host import ServerHost
from mcp_baton.workflow.handle import handle_of
from mcp_baton.workflow.refusals import NOT_RESUMED, InvalidToolArguments
from mcp_baton.workflow.removed import unknown_name
from mcp_baton.workflow.request import Request
from mcp_baton.workflow.runs import answer_with_run


def get_prompt(request: Request) -> JsonObject:
    name, arguments = request.name_and_arguments()
    if name in request.server.workflows:
        return _run_workflow(request, request.server.workflows[name], arguments)
    if name in request.server.prompts:
        prompt = request.server.prompts[name]
        _, values = check_arguments(prompt.arguments, arguments)
        match call_alone(request, bound_prompt(prompt), values):
            case Mismatch() as mismatch:
                raise InvalidParams(mismatch.text)
            case Failed(error):
                raise ProtocolError(INTERNAL_ERROR, f"The prompt {prompt.name!r} failed: {error}")
            case prompt_messages:
                return _result(prompt.labels.description or "", prompt_messages)
    raise unknown_name(request, "prompt", name, arguments)


def _run_workflow(request: Request, workflow: Workflow, arguments: JsonObject) -> JsonObject:
    task_id, arguments = _task_and_arguments(request, workflow, arguments)
    ttl_ms = request.requested_ttl()
    host = ServerHost(request, until_s=request.reply_due_s() if request.exchange.silent else math.inf)
    try:
        run = answer_with_run(request, workflow, arguments, task_id, host, ttl_ms)
    except NOT_RESUMED as error:
        refusal = refusal_of(error, workflow, request.now_ms())
        raise ProtocolError(refusal.code, refusal.message, refusal.data) from error
    names_task = run.stored and request.server.names_tasks_in_text(run.workflow)
    handle = handle_of(request.server, run.workflow, run.task, run) if names_task and run.task else None
    tools = request.server.tools
    run_messages = messages(run, request.server, lambda tool: tools[tool].summary, handle)
    result = _result(run.workflow.description, run_messages)
    meta = run_meta(run, view_of_run(run, request.now_ms()), stateless=request.stateless)
    return result | {"_meta": meta} if meta else result


def _task_and_arguments(request: Request, workflow: Workflow, arguments: JsonObject) -> tuple[str | None, JsonObject]:
    if not request.server.names_tasks_in_text(workflow):
        named = request.bound_step()
        return (named.task_id if named else None), arguments
    try:
        return request.named_task(arguments)
    except InvalidToolArguments as error:
        raise InvalidParams(str(error)) from error


def _result(description: str, prompt_messages: Sequence[Json]) -> dict[str, Json]:
    return ({"description": description} if description else {}) | {"messages": list(prompt_messages)}
