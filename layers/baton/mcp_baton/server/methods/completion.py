"""`completion/complete` (MCP server/utilities/completion)."""

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.json import JsonObject
from mcp_baton.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from mcp_baton.server.definitions.completion import requested, suggestions
from mcp_baton.server.methods.calling import call_alone
from mcp_baton.server.request import Request
from mcp_baton.server.running.bound_function import bound_completion
from mcp_baton.server.schema.schema import explain
from mcp_baton.workflow.host import Failed, Mismatch


def complete(request: Request) -> JsonObject:
    """Suggest values for an argument. Without a completion there are none."""
    of, argument, value, known = requested(request.params)
    if argument not in request.server.arguments_of(of):
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: there is no argument {argument!r} of {of!r} to complete")
    completion = request.server.completions.get((of, argument))
    if completion is None:
        return suggestions(())
    match call_alone(request, bound_completion(completion, value, known), {}):
        case Mismatch() as mismatch:
            raise ProtocolError(INTERNAL_ERROR, f"The completion failed: {explain(mismatch)}")
        case Failed(error):
            raise ProtocolError(INTERNAL_ERROR, f"The completion failed: {error}")
        case suggested:
            return suggested
