"""`resources/read` (MCP server/resources)."""

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.codes import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.sessions import APP_TYPE
from mcp_baton.server.methods.stored_values import stored_text
from mcp_baton.server.published.finding import MAX_URI, find_in
from mcp_baton.server.published.own_uris import APP_URI, is_own
from mcp_baton.server.published.resource import Resource
from mcp_baton.server.request import Request
from mcp_baton.server.running.runner import Surroundings, call
from mcp_baton.server.running.work import resource_work
from mcp_baton.server.schema.schema import explain
from mcp_baton.server.server import Server
from mcp_baton.workflow.host import Failed, FetchedResource, Mismatch, ResourceUnavailable


def read_resource(request: Request) -> JsonObject:
    """Read one resource: the server's, or a task's stored value.

    Raises:
        ProtocolError: there is none at this URI, or reading it failed.
    """
    uri = request.text("uri")
    if uri == APP_URI and request.server.twin_names:
        return _app(request)
    meta: JsonObject = {}
    if is_own(uri):
        found = stored_text(request, uri)
        contents = None if found is None else FetchedResource(uri, "application/json", text=found[0])
        meta = {} if found is None else found[1]
    else:
        contents = _published(request, uri)
    if contents is None:
        code = INVALID_PARAMS if request.stateless else RESOURCE_NOT_FOUND
        raise ProtocolError(code, f"Unknown resource: {uri}", {"uri": uri})
    made: dict[str, Json] = {"contents": [shown(contents) | ({"_meta": meta} if meta else {})]}
    return made | {"ttlMs": 0, "cacheScope": "private"} if request.stateless else made


def _app(request: Request) -> JsonObject:
    """The page of the tasks, as MCP Apps has it (SEP-1865): it names no address, so a host lets it reach none."""
    from mcp_baton.console.page import text
    from mcp_baton.server.methods.lists import cacheable

    page: JsonObject = {
        "uri": APP_URI,
        "mimeType": APP_TYPE,
        "text": text(),
        "_meta": {"ui": {"prefersBorder": True}},
    }
    made: dict[str, Json] = {"contents": [page]}
    return cacheable(request, made) if request.stateless else made


def _published(request: Request, uri: str) -> FetchedResource | None:
    found = find_resource(request.server, uri)
    if found is None:
        return None
    try:
        return read(request, found[0], uri, found[1])
    except ResourceUnavailable as error:
        raise ProtocolError(INTERNAL_ERROR, f"Reading {uri} failed: {error}") from error


def read(request: Request, resource: Resource, uri: str, arguments: JsonObject) -> FetchedResource:
    """A resource's contents.

    Raises:
        ResourceUnavailable: its arguments do not fit, or its function failed.
    """
    return readable(uri, call(request, resource_work(resource, uri), arguments, Surroundings(stay=True)))


def readable(uri: str, ended: FetchedResource | Mismatch | Failed) -> FetchedResource:
    """What a resource's function made.

    Raises:
        ResourceUnavailable: nothing.
    """
    match ended:
        case Mismatch() as mismatch:
            raise ResourceUnavailable(f"{uri}: {explain(mismatch)}")
        case Failed(error) as failed:
            raise ResourceUnavailable(error, failed.error_id)
        case contents:
            return contents


def shown(contents: FetchedResource) -> dict[str, Json]:
    """A resource's contents as MCP's `TextResourceContents` or `BlobResourceContents`."""
    made: dict[str, Json] = {"uri": contents.uri}
    if contents.mime_type:
        made["mimeType"] = contents.mime_type
    return made | ({"text": contents.text} if contents.blob is None else {"blob": contents.blob})


def subscribe(request: Request) -> JsonObject:
    """Acknowledge a subscription to a resource, or its end. The capability is not advertised: no update is ever sent.

    Raises:
        ProtocolError: there is no such resource.
    """
    uri = request.text("uri")
    if find_resource(request.server, uri) is None:
        raise ProtocolError(RESOURCE_NOT_FOUND, f"Unknown resource: {uri}", {"uri": uri})
    return {}


def find_resource(server: Server, uri: str) -> tuple[Resource, dict[str, str]] | None:
    """The resource at a URI and its function's arguments."""
    return find_in(server.resources, uri)


def why_not(server: Server, uri: str) -> str:
    """What keeps a URI from the resource that it seems to be meant for, for the author of a workflow."""
    if len(uri) > MAX_URI:
        return f": it is longer than {MAX_URI} characters"
    for resource in server.resources.values():
        name = resource.withheld(uri)
        if name is not None:
            return (
                f": {{{name}}} of {resource.uri} takes one name, without a slash, a backslash or a NUL, and not '.' or "
                f"'..'. A resource whose URI has {{+{name}}} takes paths, too"
            )
    return ""
