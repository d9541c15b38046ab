"""`resources/read` (MCP server/resources)."""

import logging

from mcp_baton.exceptions import ProtocolError, StoreError, StoreUnavailable, TaskNotFound
from mcp_baton.present.mcp_task import result_mark
from mcp_baton.protocol.budget import MAX_ANSWER_BYTES
from mcp_baton.protocol.envelope import APP_TYPE
from mcp_baton.protocol.json import Json, JsonObject, escaped, json_size
from mcp_baton.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, RESOURCE_NOT_FOUND
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.tasks.texts import MAX_VALUE_BYTES
from mcp_baton.tasks.values import FINAL_RESULT, text_of, weight_of
from mcp_baton.tools.calls import ToolCall
from mcp_baton.tools.content import ResourceContent
from mcp_baton.tools.outcomes import Mismatch, ResourceUnavailable
from mcp_baton.tools.resource import (
    APP_URI,
    MAX_URI_CHARS,
    Resource,
    contents_of_outcome,
    find_in,
    is_reserved,
    parse_value_uri,
)
from mcp_baton.tools.running.runner import bound_resource
from mcp_baton.workflow.direct_calls import call_alone
from mcp_baton.workflow.request import Request

logger = logging.getLogger(__name__)


def stored_text(request: Request, uri: str) -> tuple[str, JsonObject] | None:
    """Return the JSON text of the value at one of Baton's own URIs, or a placeholder if it is sent in pieces; and the
    members of `_meta`. `None` if the value is unknown, has expired or belongs to another owner."""
    target = parse_value_uri(uri)
    if target is None or request.store is None or request.owner is None:
        return None
    task_id, name = target
    try:
        task = request.own_task(task_id)
        text = _text(request, task, name, uri)
        return None if text is None else (text, result_mark(task) if name == FINAL_RESULT else {})
    except TaskNotFound:
        return None
    except StoreUnavailable as error:
        logger.exception("request %s: %s cannot be read", request.exchange.request_id, uri)
        raise request.internal_error("The task store is not available. Send the same request again.") from error
    except StoreError as error:
        raise ProtocolError(INTERNAL_ERROR, f"Reading {uri} failed: {error}") from error


def _text(request: Request, task: TaskRecord, name: str, uri: str) -> str | None:
    weight = weight_of(task, name)
    if weight is None:
        return None
    if weight.text_bytes > MAX_VALUE_BYTES:
        raise _too_long(uri, weight.text_bytes, f"at most {MAX_VALUE_BYTES} can be read")
    limit = request.budget.unread if request.exchange.can_stream else request.budget.shown
    if weight.text_bytes > limit:
        raise _needs_stream(uri, weight.text_bytes)
    request.budget.read(weight.text_bytes)
    text = text_of(task, name)
    if len(escaped(text).encode()) + 2 * json_size(uri) <= request.budget.left:
        return text
    if request.exchange.can_stream:
        return request.exchange.in_pieces(text)
    raise _needs_stream(uri, weight.text_bytes)


def _needs_stream(uri: str, text_bytes: int) -> ProtocolError:
    cause = f"an answer of more than {MAX_ANSWER_BYTES} bytes must be a stream of its own"
    return _too_long(uri, text_bytes, f"{cause}: send the request by itself, with `Accept: text/event-stream`")


def _too_long(uri: str, text_bytes: int, cause: str) -> ProtocolError:
    data: Json = {"uri": uri, "bytes": text_bytes}
    return ProtocolError(INVALID_REQUEST, f"{uri} has {text_bytes} bytes; {cause}", data)


def read_resource(request: Request) -> JsonObject:
    uri = request.text("uri")
    if uri.lower() == APP_URI and request.server.workflow_tool_names:
        return _app(request)
    meta: JsonObject = {}
    if is_reserved(uri):
        value = stored_text(request, uri)
        contents = None if value is None else ResourceContent(uri, value[0], "application/json")
        meta = {} if value is None else value[1]
    else:
        contents = _read_published(request, uri)
    if contents is None:
        code = INVALID_PARAMS if request.stateless else RESOURCE_NOT_FOUND
        raise ProtocolError(code, f"Unknown resource: {uri}", {"uri": uri[:MAX_URI_CHARS]})
    result: dict[str, Json] = {"contents": [contents.to_json() | ({"_meta": meta} if meta else {})]}
    return result | {"ttlMs": 0, "cacheScope": "private"} if request.stateless else result


def _app(request: Request) -> JsonObject:
    """Return the console page for MCP Apps (SEP-1865). It declares no addresses, so the host allows it no
    connections."""
    from mcp_baton.console.page import text
    from mcp_baton.server.methods.lists import cacheable

    page: JsonObject = {
        "uri": APP_URI,
        "mimeType": APP_TYPE,
        "text": text(),
        "_meta": {"ui": {"prefersBorder": True}},
    }
    result: dict[str, Json] = {"contents": [page]}
    return cacheable(request, result) if request.stateless else result


def _read_published(request: Request, uri: str) -> ResourceContent | None:
    match = find_in(request.server.resources, uri)
    if match is None:
        return None
    try:
        return read(request, match[0], uri, match[1])
    except ResourceUnavailable as error:
        raise ProtocolError(INTERNAL_ERROR, f"Reading {uri} failed: {error}") from error


def read(request: Request, resource: Resource, uri: str, arguments: JsonObject) -> ResourceContent:
    outcome = call_alone(request, bound_resource(resource, uri), arguments, ToolCall(stay=True))
    if isinstance(outcome, Mismatch):
        raise ProtocolError(INVALID_PARAMS, f"Invalid resource URI {uri}: {outcome.text}", {"uri": uri})
    return contents_of_outcome(outcome)


def subscribe(request: Request) -> JsonObject:
    """Acknowledge a subscription to a resource, or its end. No updates are sent: the capability is not declared."""
    uri = request.text("uri")
    if find_in(request.server.resources, uri) is None:
        raise ProtocolError(RESOURCE_NOT_FOUND, f"Unknown resource: {uri}", {"uri": uri[:MAX_URI_CHARS]})
    return {}
