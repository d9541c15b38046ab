"""Calls of the author's functions, and their outcomes as MCP results (MCP server/tools, Calling Tools)."""

from msgspec import structs

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.asking.asker import carried_to
from mcp_baton.server.definitions.tool import Tool
from mcp_baton.server.execution import Asking, Execution
from mcp_baton.server.request import Request
from mcp_baton.server.running.runner import STANDALONE, BoundFunction, CallOptions, bound_tool, call
from mcp_baton.server.schema.schema import explain
from mcp_baton.workflow.host import Failed, Mismatch, Outcome


def call_alone[T](
    request: Request, target: BoundFunction[T], arguments: JsonObject, options: CallOptions = STANDALONE
) -> T | Mismatch | Failed:
    """Call the only function of a request. It may ask the client, also over several rounds."""
    rounds = request.rounds()
    if rounds is not None:
        rounds.identity = carried_to(rounds.earlier, None) or rounds.identity
        options = structs.replace(options, attempt=structs.replace(options.attempt, key=rounds.identity.key))
    return call(request, target, arguments, request.asking(rounds), options)


def outcome_alone(request: Request, tool: Tool, arguments: JsonObject, options: CallOptions = STANDALONE) -> Outcome:
    return _outcome(tool, call_alone(request, bound_tool(tool), arguments, options))


def outcome_of(
    execution: Execution, tool: Tool, arguments: JsonObject, asking: Asking, options: CallOptions
) -> Outcome:
    return _outcome(tool, call(execution, bound_tool(tool), arguments, asking, options))


def _outcome(tool: Tool, ended: Outcome | Mismatch) -> Outcome:
    if isinstance(ended, Mismatch):
        return Failed(f"Invalid arguments for tool {tool.name}: {explain(ended)}")
    return ended


def result_of(tool: Tool, outcome: Outcome) -> dict[str, Json]:
    if isinstance(outcome, Failed):
        return {"content": [{"type": "text", "text": outcome.error}], "isError": True}
    return tool.result(outcome)
