"""`tools/call`: a plain call, or a continuation of a task (docs/workflows.md)."""

from collections.abc import Mapping, Sequence

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import HEADER_MISMATCH, INVALID_PARAMS
from mcp_baton.server.definitions.param_headers import header_mismatch
from mcp_baton.server.definitions.tool import Tool, free_name
from mcp_baton.server.methods.calling import outcome_alone, outcome_of, result_of
from mcp_baton.server.request import Request
from mcp_baton.workflow.definition import TASK_ACTION, TASK_ID
from mcp_baton.workflow.host import Failed, Outcome


def call_tool(request: Request) -> JsonObject:
    """Call a tool; when the call names a task, record its outcome there. A workflow is run, or goes on with a task.

    Raises:
        ProtocolError: an unknown tool, or params that are not of the right form.
    """
    name, arguments = request.called()
    tool = request.server.tools.get(name)
    if tool is None:
        twin = request.server.workflow_tool(name)
        if twin is not None and arguments.get(TASK_ACTION):
            from mcp_baton.server.workflows.task_actions import act

            return act(request, twin)
        if twin is not None:
            from mcp_baton.server.workflows.workflow_tools import call_workflow_tool

            return call_workflow_tool(request, twin)
        raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {name}")
    _check_headers(request, tool, arguments)
    if TASK_ID not in arguments or name not in request.server.tools_with_task_id:
        return _call(request, tool, arguments, request.bound_task())
    from mcp_baton.server.workflows.task_ids import NamedWrongly, named_task

    try:
        task_id, others = named_task(request, arguments)
    except NamedWrongly as error:
        return result_of(tool, Failed(f"Nothing was run: {error}."))
    return _call(request, tool, others, task_id, told=bool(arguments[TASK_ID]))


def _call(
    request: Request, tool: Tool, arguments: JsonObject, task_id: str | None, *, told: bool = False
) -> JsonObject:
    """Call a tool, alone, as a task of its own or as a continuation.

    Args:
        told: Whether the model must be told what became of the call: it reads no `_meta`.
    """
    if tool.tasks.support != "forbidden" or "task" in request.params:
        from mcp_baton.server.background.creating import as_task

        answered = as_task(request, tool, arguments, task_id)
        if answered is not None:
            return answered
    if task_id is None:
        return result_of(tool, outcome_alone(request, tool, arguments))
    return _continue(request, tool, arguments, task_id, told=told)


def _check_headers(request: Request, tool: Tool, arguments: JsonObject) -> None:
    if not request.stateless:
        return
    mismatch = header_mismatch(tool.mirrored, arguments, request.headers)
    if mismatch:
        raise ProtocolError(HEADER_MISMATCH, f"Header mismatch: {mismatch}")


def _continue(request: Request, tool: Tool, arguments: JsonObject, task_id: str, *, told: bool) -> JsonObject:
    """Run the tool exactly as without the task, then record. Recording never changes the tool's result."""
    from mcp_baton.server.workflows.continuations import Continuation, begin

    begun = begin(request, tool, arguments, task_id)
    outcome: Outcome
    if isinstance(begun, Continuation):
        outcome = outcome_of(request, tool, begun.call.arguments, begun.asking, begun.options)
        recording = begun.record(outcome)
    else:
        outcome, recording = begun.outcome, begun.recording
    result = result_of(tool, outcome)
    if told:
        result = with_text(result, tool, recording.text())
    own = result.get("_meta")
    return result | {"_meta": {**own, **recording.meta} if isinstance(own, Mapping) else recording.meta}


def with_text(result: JsonObject, tool: Tool, text: str) -> dict[str, Json]:
    """A result that tells its model more: as the content's last block, and as a property of its structured content,
    which is all that some hosts show to their model.

    Args:
        result: A `CallToolResult`.
        tool: Whose.
        text: What is to be told.
    """
    content, structured = result["content"], result.get("structuredContent")
    blocks: Sequence[Json] = content if isinstance(content, Sequence) else ()
    made = {**result, "content": [*blocks, {"type": "text", "text": text}]}
    if isinstance(structured, Mapping):
        name = free_name(structured, tool.output.json_schema if tool.output else None)
        if name is not None:
            made["structuredContent"] = {**structured, name: text}
    return made
