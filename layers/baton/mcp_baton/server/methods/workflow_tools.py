"""`tools/call` of a workflow: start a run or resume a task (docs/workflows.md, As a tool)."""

from mcp_baton.exceptions import ProtocolError, TaskHeld
from mcp_baton.present.fit import cut
from mcp_baton.present.sentences import NOTHING_RUN, sentence
from mcp_baton.present.task_action import paused_result
from mcp_baton.present.tool_result import (
    introduced,
    not_run,
    result_of_ended_task,
    result_of_run,
    starting_result,
    text_in,
)
from mcp_baton.protocol.json import JsonObject
from mcp_baton.protocol.jsonrpc import INVALID_PARAMS
from mcp_baton.tools.arguments import NEW_TASK, TASK_ID
from mcp_baton.tools.content import error_result
from mcp_baton.tools.schema.prompt_arguments import ArgumentRefused
from mcp_baton.workflow.engine_host import ServerHost
from mcp_baton.workflow.refusals import NOT_RESUMED, InvalidToolArguments
from mcp_baton.workflow.repetitions import RepeatedCall, Starter, starter_of
from mcp_baton.workflow.request import Request
from mcp_baton.workflow.runs import answer_with_run
from mcp_baton.workflow.workflow_tool import WorkflowTool


def call_workflow_tool(request: Request, tool: WorkflowTool) -> JsonObject:
    """Run a workflow as far as possible, or resume the task that the arguments name; in this request or by a worker."""
    as_task = tool.workflow.background or "task" in request.params
    if as_task:
        from mcp_baton.background.creating import becomes_task

        as_task = becomes_task(request, tool)
    answer = _start_or_resume(request, tool, as_task=as_task)
    if as_task and not request.stateless and "task" not in answer:
        # A client that asks for a task accepts no other result.
        raise ProtocolError(INVALID_PARAMS, text_in(answer))
    return answer


def _start_or_resume(request: Request, tool: WorkflowTool, *, as_task: bool) -> JsonObject:
    task_id, arguments = None, request.object("arguments")
    anew = arguments.get(TASK_ID) == NEW_TASK
    if anew:
        arguments = {name: value for name, value in arguments.items() if name != TASK_ID}
    try:
        task_id, arguments = request.named_task(arguments)
        if anew and task_id is not None:
            raise InvalidToolArguments(f'{TASK_ID} "{NEW_TASK}" starts a task, and _meta names one; keep one of them')
        arguments = tool.first_arguments(arguments) if task_id is None else tool.given_arguments(arguments)
        starter = None if task_id else starter_of(request, tool, arguments, as_task=as_task, anew=anew)
        try:
            if as_task:
                from mcp_baton.background.creating import start_workflow

                return start_workflow(request, tool, arguments, task_id, starter)
            return _run(request, tool, arguments, task_id, starter)
        except RepeatedCall as repeated:
            return _answer_repeated(request, tool, arguments, repeated, as_task=as_task)
    except InvalidToolArguments as error:
        return error_result(cut(f"{sentence(str(error))} {NOTHING_RUN}."))
    except (ArgumentRefused, *NOT_RESUMED) as error:
        return not_run(request, tool, error)


def _run(
    request: Request,
    tool: WorkflowTool,
    arguments: JsonObject,
    task_id: str | None,
    starter: Starter | None = None,
    *,
    takes_over: bool = False,
) -> JsonObject:
    host = ServerHost(request, until_s=request.reply_due_s())
    run = answer_with_run(request, tool.workflow, arguments, task_id, host, starter=starter, takes_over=takes_over)
    return result_of_run(request, run)


def _answer_repeated(
    request: Request,
    tool: WorkflowTool,
    arguments: JsonObject,
    repeated: RepeatedCall,
    *,
    as_task: bool,
) -> JsonObject:
    """Answer a repeated call with the task of the first one: its result, its pause, or that it still runs."""
    task = repeated.task
    if task is not None and as_task:
        from mcp_baton.background.creating import reply_with_task

        return reply_with_task(request, task, repeated.introduction)
    if task is None:
        result = starting_result(request, tool, repeated, as_task=as_task)
    elif repeated.takes_over:
        try:
            result = _run(request, tool, arguments, task.task_id, takes_over=True)
        except NOT_RESUMED as error:  # another repetition has taken it over
            result = not_run(request, tool, error, task.task_id)
    elif task.status.terminal:
        result = result_of_ended_task(request, tool.workflow, task)
    elif task.claim is not None and task.claim.holds_at(request.now_ms()):
        result = not_run(request, tool, TaskHeld(task.claim.until_ms, task), task.task_id)
    else:
        result = paused_result(request, tool, task)
    return introduced(result, repeated.introduction)
