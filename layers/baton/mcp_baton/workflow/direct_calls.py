"""Calls of the author's functions, and their outcomes as MCP results (MCP server/tools, Calling Tools)."""

from msgspec import structs

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.ids import new_token
from mcp_baton.tools.asking import identity_for_task
from mcp_baton.tools.calls import ONLY_CALL, ToolCall
from mcp_baton.tools.content import error_result
from mcp_baton.tools.outcomes import Failed, Mismatch, Outcome
from mcp_baton.tools.published_schema import APPROVAL, takes_approval
from mcp_baton.tools.running.caller import AskerFactory
from mcp_baton.tools.running.runner import BoundFunction, bound_tool, call
from mcp_baton.tools.tool import Tool
from mcp_baton.workflow.execution import Execution
from mcp_baton.workflow.pause import approval_pause
from mcp_baton.workflow.request import Request


def call_alone[T](
    request: Request, target: BoundFunction[T], arguments: JsonObject, tool_call: ToolCall = ONLY_CALL
) -> T | Mismatch | Failed:
    """Call the only function of a request. It may ask the client, also over several rounds."""
    rounds = request.rounds()
    if rounds is not None:
        identity = identity_for_task(rounds.earlier_identity, None) or rounds.identity
        # Only a guard needs the name of the attempt: the next round continues it.
        by = "" if target.approval is None else f"call:{new_token()}"
        rounds.identity = structs.replace(identity, by=by or None)
        tool_call = structs.replace(tool_call, by=by, before=identity.by, key=identity.key)
    return call(request, target, arguments, request.asking(rounds), tool_call)


def outcome_alone(request: Request, tool: Tool, arguments: JsonObject, tool_call: ToolCall = ONLY_CALL) -> Outcome:
    return _outcome(tool, call_alone(request, bound_tool(tool), arguments, tool_call))


def outcome_of(
    execution: Execution, tool: Tool, arguments: JsonObject, asker_factory: AskerFactory, tool_call: ToolCall
) -> Outcome:
    return _outcome(tool, call(execution, bound_tool(tool), arguments, asker_factory, tool_call))


def _outcome(tool: Tool, outcome: Outcome | Mismatch) -> Outcome:
    if isinstance(outcome, Mismatch):
        return Failed(f"Invalid arguments for tool {tool.name}: {outcome.text}")
    return outcome


def result_of(tool: Tool, outcome: Outcome) -> dict[str, Json]:
    if isinstance(outcome, Failed):
        result = error_result(outcome.error)
        if outcome.not_approved is not None and (tool.output is None or takes_approval(tool.output.json_schema)):
            result["structuredContent"] = {APPROVAL: approval_pause("", outcome.not_approved).to_json()}
        return result
    return tool.result(outcome)
