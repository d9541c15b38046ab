"""`tools/call`: a plain call, or a continuation of a task (docs/workflows.md)."""

from collections.abc import Mapping

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.codes import HEADER_MISMATCH, INVALID_PARAMS
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.published.param_headers import header_mismatch
from mcp_baton.server.published.tool import Tool
from mcp_baton.server.request import Asking, Request
from mcp_baton.server.running.runner import ALONE, Surroundings, call
from mcp_baton.server.running.work import tool_work
from mcp_baton.server.schema.schema import explain
from mcp_baton.workflow.host import Failed, Mismatch, Outcome


def call_tool(request: Request) -> JsonObject:
    """Call a tool; when the call names a task, record its outcome there. A workflow is run, or goes on with a task.

    Raises:
        ProtocolError: an unknown tool, or params that are not of the right form.
    """
    name, arguments = request.text("name"), request.object("arguments")
    tool = request.server.tools.get(name)
    if tool is None:
        twin = request.server.twin(name)
        if twin is not None:
            from mcp_baton.server.methods.twins import call_twin

            return call_twin(request, twin)
        raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {name}")
    _check_headers(request, tool, arguments)
    task_id = request.bound_task()
    if task_id is None:
        return result_of(tool, outcome_of(request, tool, arguments))
    return _continue(request, tool, arguments, task_id)


def _check_headers(request: Request, tool: Tool, arguments: JsonObject) -> None:
    if not request.stateless:
        return
    mismatch = header_mismatch(tool.mirrored, arguments, request.headers)
    if mismatch:
        raise ProtocolError(HEADER_MISMATCH, f"Header mismatch: {mismatch}")


def outcome_of(
    request: Request,
    tool: Tool,
    arguments: JsonObject,
    surroundings: Surroundings = ALONE,
    asking: Asking | None = None,
) -> Outcome:
    """How a call of a tool ends."""
    ended = call(request, tool_work(tool), arguments, surroundings, asking)
    if isinstance(ended, Mismatch):
        return Failed(f"Invalid arguments for tool {tool.name}: {explain(ended)}")
    return ended


def result_of(tool: Tool, outcome: Outcome) -> dict[str, Json]:
    """An outcome as a `CallToolResult`."""
    if isinstance(outcome, Failed):
        return {"content": [{"type": "text", "text": outcome.error}], "isError": True}
    return tool.result(outcome)


def _continue(request: Request, tool: Tool, arguments: JsonObject, task_id: str) -> JsonObject:
    """Run the tool exactly as without the task, then record. Recording never changes the tool's result."""
    from mcp_baton.server.methods.continuing import begin

    continuation = begin(request, tool, arguments, task_id)
    outcome = outcome_of(request, tool, arguments, continuation.surroundings, continuation.asking)
    meta = continuation.record(outcome)
    result = result_of(tool, outcome)
    own = result.get("_meta")
    return result | {"_meta": {**own, **meta} if isinstance(own, Mapping) else meta}
