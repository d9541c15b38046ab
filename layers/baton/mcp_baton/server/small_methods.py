"""Methods that a stateless server answers without doing much: completion, log levels, resource subscriptions."""

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.codes import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND
from mcp_baton.protocol.envelope import LOG_LEVELS
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.call import Call
from mcp_baton.server.calls import Unreadable
from mcp_baton.server.completions import requested, suggestions
from mcp_baton.server.host import find_resource


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


def set_log_level(call: Call) -> JsonObject:
    """Take note of a log level: which is to say nothing, for there is no session to keep it in.

    What a tool logs from `info` up is sent with the call that it belongs to (MCP 2025-11-25, server/utilities/logging:
    without a level the server decides).
    """
    level = call.text("level")
    if level not in LOG_LEVELS:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: `level` must be one of {', '.join(LOG_LEVELS)}")
    return {}


def subscribe(call: Call) -> JsonObject:
    """Acknowledge a subscription to a resource, or its end. The capability is not advertised: no update is ever sent.

    Raises:
        ProtocolError: there is no such resource.
    """
    uri = call.text("uri")
    if find_resource(call.server, uri) is None:
        raise ProtocolError(RESOURCE_NOT_FOUND, f"Unknown resource: {uri}", {"uri": uri})
    return {}
