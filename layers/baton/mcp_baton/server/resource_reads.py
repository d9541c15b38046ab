"""`resources/read` (MCP server/resources)."""

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.codes import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.call import Call
from mcp_baton.server.host import find_resource
from mcp_baton.server.own_uris import is_own
from mcp_baton.server.stored_values import stored_text
from mcp_baton.workflow.run import FetchedResource, ResourceUnavailable


def read_resource(call: Call) -> JsonObject:
    """Read one resource: the server's, or a task's stored value.

    Raises:
        ProtocolError: there is none at this URI, or reading it failed.
    """
    uri = call.text("uri")
    contents = _stored(call, uri) if is_own(uri) else _published(call, uri)
    if contents is None:
        code = INVALID_PARAMS if call.stateless else RESOURCE_NOT_FOUND
        raise ProtocolError(code, f"Unknown resource: {uri}", {"uri": uri})
    made: dict[str, Json] = {"contents": [shown(contents)]}
    return made | {"ttlMs": 0, "cacheScope": "private"} if call.stateless else made


def _stored(call: Call, uri: str) -> FetchedResource | None:
    text = stored_text(call, uri)
    return None if text is None else FetchedResource(uri, "application/json", text=text)


def _published(call: Call, uri: str) -> FetchedResource | None:
    found = find_resource(call.server, uri)
    if found is None:
        return None
    try:
        return call.caller().read(found[0], uri, found[1])
    except ResourceUnavailable as error:
        raise ProtocolError(INTERNAL_ERROR, f"Reading {uri} failed: {error}") from error


def shown(contents: FetchedResource) -> dict[str, Json]:
    """A resource's contents as MCP's `TextResourceContents` or `BlobResourceContents`."""
    made: dict[str, Json] = {"uri": contents.uri}
    if contents.mime_type:
        made["mimeType"] = contents.mime_type
    return made | ({"text": contents.text} if contents.blob is None else {"blob": contents.blob})
