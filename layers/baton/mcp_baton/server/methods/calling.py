"""A call of a tool's function, and its outcome as a result (MCP server/tools, Calling Tools)."""

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.definitions.tool import Tool
from mcp_baton.server.request import Asking, Request
from mcp_baton.server.running.bound_function import tool_work
from mcp_baton.server.running.runner import STANDALONE, CallOptions, call
from mcp_baton.server.schema.schema import explain
from mcp_baton.workflow.host import Failed, Mismatch, Outcome


def outcome_of(
    request: Request,
    tool: Tool,
    arguments: JsonObject,
    options: CallOptions = STANDALONE,
    asking: Asking | None = None,
) -> Outcome:
    """How a call of a tool ends."""
    ended = call(request, tool_work(tool), arguments, options, asking)
    if isinstance(ended, Mismatch):
        return Failed(f"Invalid arguments for tool {tool.name}: {explain(ended)}")
    return ended


def result_of(tool: Tool, outcome: Outcome) -> dict[str, Json]:
    """An outcome as a `CallToolResult`."""
    if isinstance(outcome, Failed):
        return {"content": [{"type": "text", "text": outcome.error}], "isError": True}
    return tool.result(outcome)
