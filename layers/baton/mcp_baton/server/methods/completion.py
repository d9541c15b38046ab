"""Methods that a stateless server answers without doing much: completion, log levels, resource subscriptions."""

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.codes import INTERNAL_ERROR, INVALID_PARAMS
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.published.completion import requested, suggestions
from mcp_baton.server.request import Call
from mcp_baton.server.running.runner import Unreadable


def complete(call: Call) -> JsonObject:
    """Suggestions for an argument; none for an argument that nobody completes (MCP server/utilities/completion).

    Raises:
        ProtocolError: there is no such prompt, template or argument, or the completing function failed.
    """
    of, argument, value, known = requested(call.params)
    if argument not in call.server.arguments_of(of):
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: there is no argument {argument!r} of {of!r} to complete")
    completion = call.server.completions.get((of, argument))
    if completion is None:
        return suggestions(())
    try:
        return call.caller().suggestions(completion, value, known)
    except Unreadable as error:
        raise ProtocolError(INTERNAL_ERROR, f"The completion failed: {error}") from error
