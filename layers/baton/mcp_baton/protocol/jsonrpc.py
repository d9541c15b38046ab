"""JSON-RPC 2.0 messages of MCP: parsing those of clients, and building those of the server.

MCP basic/index, Messages. Pure.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.json import MAX_DEPTH, Json, JsonObject, TooDeep, has_more_values_than, loads

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

RESOURCE_NOT_FOUND: Final = -32002
"""Revisions up to 2025-11-25; later ones use `INVALID_PARAMS`."""

HEADER_MISMATCH: Final = -32020
MISSING_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_PROTOCOL_VERSION: Final = -32022

HTTP_STATUS: Mapping[int, int] = MappingProxyType(
    {
        PARSE_ERROR: 400,
        INVALID_REQUEST: 400,
        INVALID_PARAMS: 400,
        METHOD_NOT_FOUND: 404,
        HEADER_MISMATCH: 400,
        MISSING_CLIENT_CAPABILITY: 400,
        UNSUPPORTED_PROTOCOL_VERSION: 400,
    }
)
"""The HTTP status of errors in the request itself. Other errors have status 200."""


class InvalidParams(ProtocolError):
    """The params of a request are not those of its method. `problem` names the member and what it must be."""

    def __init__(self, problem: str, data: Json = None) -> None:
        super().__init__(INVALID_PARAMS, f"Invalid params: {problem}", data)


def checked_object(value: Json, name: str) -> JsonObject:
    """Return a member of the params that must be an object. Raises `InvalidParams`."""
    if not isinstance(value, Mapping):
        raise InvalidParams(f"`{name}` must be an object")
    return value


MAX_BODY_VALUES = 400_000
"""The most values of a body (docs/http.md). A value of three bytes takes hundreds of bytes of memory in the copies of
a call."""

type RequestId = str | int


class RequestMessage(Struct, frozen=True):
    id: RequestId
    method: str
    params: JsonObject


class Notification(Struct, frozen=True):
    method: str
    params: JsonObject


class Response(Struct, frozen=True):
    """A client's response to a request of the server (revisions up to 2025-11-25)."""

    id: RequestId
    result: JsonObject | None
    error: JsonObject | None


class Malformed(Struct, frozen=True):
    """A message that is not JSON-RPC, and the error for the client. `id` is `None` if it could not be read."""

    id: RequestId | None
    error: ProtocolError


type Message = RequestMessage | Notification | Response | Malformed


def parse_body(body: bytes) -> Message:
    """Return the message in a body.

    Raises:
        ProtocolError: the body is not JSON in UTF-8 (`-32700`); or it is nested too deep, has too many values, or is a
            batch (`-32600`).
    """
    try:
        value = loads(body, MAX_DEPTH)
    except TooDeep as error:
        message = f"Invalid request: the body is nested deeper than {MAX_DEPTH} levels"
        raise ProtocolError(INVALID_REQUEST, message) from error
    except ValueError as error:
        raise ProtocolError(PARSE_ERROR, "Parse error: the body is not JSON in UTF-8") from error
    # Each value except the first is after a bracket or a comma. Texts may have these, too.
    if sum(map(body.count, (b",", b"[", b"{"))) >= MAX_BODY_VALUES and has_more_values_than(value, MAX_BODY_VALUES):
        message = f"Invalid request: the body has more than {MAX_BODY_VALUES:,} values; send fewer, or longer texts"
        raise ProtocolError(INVALID_REQUEST, message)
    if isinstance(value, list):
        # Only revision 2025-03-26 has batches, and no known client sends them.
        raise ProtocolError(
            INVALID_REQUEST, "Invalid request: this server does not accept batches; send each message by itself"
        )
    return parse_message(value)


def parse_message(value: Json) -> Message:
    """Return a message; `Malformed` if it is invalid."""
    if not isinstance(value, Mapping):
        return _malformed(None, "a message is a JSON object")
    known_id = as_id(value.get("id"))
    if value.get("jsonrpc") != "2.0":
        return _malformed(known_id, '`jsonrpc` must be "2.0"')
    if "method" not in value and ("result" in value or "error" in value):
        result, error = value.get("result"), value.get("error")
        if known_id is None:
            return _malformed(None, "a response needs the `id` of the request that it answers")
        if isinstance(result, Mapping) and error is None:
            return Response(known_id, result, None)
        if isinstance(error, Mapping) and result is None:
            return Response(known_id, None, error)
        return _malformed(known_id, "a response has either a `result` or an `error`, and it is an object")
    method, params = value.get("method"), value.get("params", {})
    if not isinstance(method, str):
        return _malformed(known_id, "`method` must be a string")
    is_notification = value.get("id") is None and ("id" not in value or method.startswith("notifications/"))
    if known_id is None and not is_notification:
        return _malformed(None, f"`id` {ID_RULE}")
    params = {} if params is None else params
    if not isinstance(params, Mapping):
        return Malformed(known_id, InvalidParams("`params` must be an object"))
    params = _without_nulls(params)
    return Notification(method, params) if known_id is None else RequestMessage(known_id, method, params)


_NOT_OF_MCP: Final = "result"
"""The member of `tasks/cancel` that is Baton's own. Without it the task is cancelled, so null is an error."""


def _without_nulls(params: JsonObject) -> JsonObject:
    """Leave out the members of the params and of `_meta` that are null: MCP's members are optional, not nullable, and
    some clients send null for each one that they leave out."""
    if isinstance(meta := params.get("_meta"), Mapping) and None in meta.values():
        params = {**params, "_meta": {name: value for name, value in meta.items() if value is not None}}
    if None not in params.values():
        return params
    return {name: value for name, value in params.items() if value is not None or name == _NOT_OF_MCP}


def _malformed(message_id: RequestId | None, cause: str) -> Malformed:
    return Malformed(message_id, ProtocolError(INVALID_REQUEST, f"Invalid request: {cause}"))


MAX_ID_CHARS: Final = 1_000
"""Characters of an id and of a progress token. Each notification of the request repeats them."""

ID_RULE: Final = f"must be an integer or a string of at most {MAX_ID_CHARS:,} characters"


def as_id(value: Json) -> RequestId | None:
    """Return a value that can be an id or a progress token; otherwise `None`."""
    if isinstance(value, str):
        return value if len(value) <= MAX_ID_CHARS else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def result_message(request_id: RequestId, result: JsonObject) -> dict[str, Json]:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def missing_capability(required: JsonObject) -> ProtocolError:
    """The error for a request that needs capabilities that the client has not declared."""
    data: JsonObject = {"requiredCapabilities": required}
    names, inner = [], required
    while inner:
        name, inner = next((key, value if isinstance(value, Mapping) else {}) for key, value in inner.items())
        names.append(name)
    # Frameworks show their models the message, but not the data.
    return ProtocolError(MISSING_CLIENT_CAPABILITY, f"Missing required client capability: {'.'.join(names)}", data)


MAX_ERROR_MESSAGE_CHARS: Final = 100_000
"""Characters of an error's message. It may quote what the client has sent."""


def error_message(request_id: RequestId | None, error: ProtocolError) -> dict[str, Json]:
    """Return an error response. `id` is `null` if the id of the request could not be read."""
    cut_off = " …" if len(error.message) > MAX_ERROR_MESSAGE_CHARS else ""
    body: dict[str, Json] = {"code": error.code, "message": error.message[:MAX_ERROR_MESSAGE_CHARS] + cut_off}
    if error.data is not None:
        body["data"] = error.data
    return {"jsonrpc": "2.0", "id": request_id, "error": body}


def request_message(identifier: RequestId, method: str, params: JsonObject) -> dict[str, Json]:
    """Return a request to the client (revisions up to 2025-11-25)."""
    return {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params}


def notification_message(method: str, params: JsonObject) -> dict[str, Json]:
    return {"jsonrpc": "2.0", "method": method, "params": params}
