"""`tools/call`: a plain call, a background task, or a continuation of a task (docs/workflows.md)."""

from collections.abc import Mapping, Sequence

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.protocol.jsonrpc import HEADER_MISMATCH
from mcp_baton.tasks.step_ids import StepId
from mcp_baton.tools.arguments import TASK_ID
from mcp_baton.tools.content import with_meta, with_note
from mcp_baton.tools.outcomes import Failed, Outcome
from mcp_baton.tools.param_headers import header_mismatch
from mcp_baton.tools.published_schema import free_name
from mcp_baton.tools.tool import Tool
from mcp_baton.workflow.definition import TASK_ACTION
from mcp_baton.workflow.direct_calls import outcome_alone, outcome_of, result_of
from mcp_baton.workflow.refusals import InvalidToolArguments
from mcp_baton.workflow.request import Request


def call_tool(request: Request) -> JsonObject:
    """Call a tool; if the call names a task, record the outcome there. A workflow's tool starts or resumes a run."""
    name, arguments = request.name_and_arguments()
    tool = request.server.tools.get(name)
    if tool is None:
        workflow_tool = request.server.workflow_tool(name)
        if workflow_tool is not None and arguments.get(TASK_ACTION):
            from mcp_baton.server.methods.task_actions import run_action

            return run_action(request, workflow_tool)
        if workflow_tool is not None:
            from mcp_baton.server.methods.workflow_tools import call_workflow_tool

            return call_workflow_tool(request, workflow_tool)
        from mcp_baton.workflow.removed import unknown_name

        raise unknown_name(request, "tool", name, arguments)
    arguments = tool.input.named(arguments)
    if request.stateless and (mismatch := header_mismatch(tool.mirrored, arguments, request.headers)):
        raise ProtocolError(HEADER_MISMATCH, f"Header mismatch: {mismatch}")
    if TASK_ID not in arguments or name not in request.server.tools_with_task_id:
        return _call(request, tool, arguments, request.bound_step())
    try:
        named, other_arguments = request.named_step(arguments)
    except InvalidToolArguments as error:
        return result_of(tool, Failed(f"Nothing was run: {error}."))
    return _call(request, tool, other_arguments, named, in_text=bool(arguments[TASK_ID]))


def _call(
    request: Request, tool: Tool, arguments: JsonObject, named: StepId | None, *, in_text: bool = False
) -> JsonObject:
    """Call a tool: alone, as a background task, or as a continuation.

    Args:
        named: The task, or the step, that the call names.
        in_text: Whether the text of the result says how the call was recorded, because the model does not see `_meta`.
    """
    if named is None and (refusal := _unreplaced(request, tool, arguments)) is not None:
        return result_of(tool, refusal)
    if tool.tasks.support != "forbidden" or "task" in request.params:
        from mcp_baton.background.creating import answer_with_task

        task_answer = answer_with_task(request, tool, arguments, continues=named is not None)
        if task_answer is not None:
            return task_answer
    if named is None:
        return result_of(tool, outcome_alone(request, tool, arguments))
    return _continue(request, tool, arguments, named, in_text=in_text)


def _unreplaced(request: Request, tool: Tool, arguments: JsonObject) -> Failed | None:
    """Return why a call that names no task must not be made: it has a placeholder of a workflow."""
    if not request.server.workflows or "<" not in dumps(arguments):
        return None
    from mcp_baton.workflow.placeholders import unknown_text, unreplaced

    unknown = unreplaced(tool.name, arguments, request.server.workflows.values())
    return Failed(unknown_text(unknown)) if unknown else None


def _continue(request: Request, tool: Tool, arguments: JsonObject, named: StepId, *, in_text: bool) -> JsonObject:
    """Run the tool as without the task, then record the outcome. Recording never changes the tool's own result."""
    from mcp_baton.present.recording import show_recording
    from mcp_baton.workflow.continuations import Continuation, Recording, prepare

    prepared = prepare(request, tool, arguments, named)
    outcome: Outcome
    recording: Recording
    if isinstance(prepared, Continuation):
        outcome = outcome_of(request, tool, prepared.call.arguments, prepared.asker_factory, prepared.tool_call)
        recording = prepared.record(outcome)
    else:
        outcome, recording = prepared.outcome, prepared.recording
    meta, text = show_recording(request, recording, in_text=in_text)
    result = result_of(tool, outcome)
    return with_meta(_with_text(result, tool, text) if in_text else result, meta)


def _with_text(result: JsonObject, tool: Tool, text: str) -> dict[str, Json]:
    """Add a text to a result: as a block of the content, and as a property of the structured content. Some hosts show
    their model only one of the two."""
    content, structured_content = result["content"], result.get("structuredContent")
    blocks: Sequence[Json] = content if isinstance(content, Sequence) else ()
    extended_result = {**result, "content": with_note(blocks, text, is_error=result.get("isError") is True)}
    if isinstance(structured_content, Mapping):
        name = free_name(structured_content, tool.output.json_schema if tool.output else None)
        if name is not None:
            extended_result["structuredContent"] = {**structured_content, name: text}
    return extended_result
