"""`resources/read` (MCP server/resources)."""

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.codes import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.call import Call
from mcp_baton.server.host import find_resource
from mcp_baton.workflow.run import FetchedResource, ResourceUnavailable


def read_resource(call: Call) -> JsonObject:
    """Read one resource.

    Raises:
        ProtocolError: there is none at this URI, or reading it failed.
    """
    uri = call.text("uri")
    found = find_resource(call.server, uri)
    if found is None:
        code = INVALID_PARAMS if call.stateless else RESOURCE_NOT_FOUND
        raise ProtocolError(code, f"Unknown resource: {uri}", {"uri": uri})
    try:
        contents = call.caller().read(found[0], uri, found[1])
    except ResourceUnavailable as error:
        raise ProtocolError(INTERNAL_ERROR, f"Reading {uri} failed: {error}") from error
    made: dict[str, Json] = {"contents": [shown(contents)]}
    return made | {"ttlMs": 0, "cacheScope": "private"} if call.stateless else made


def shown(contents: FetchedResource) -> dict[str, Json]:
    """A resource's contents as MCP's `TextResourceContents` or `BlobResourceContents`."""
    made: dict[str, Json] = {"uri": contents.uri}
    if contents.mime_type:
        made["mimeType"] = contents.mime_type
    return made | ({"text": contents.text} if contents.blob is None else {"blob": contents.blob})
