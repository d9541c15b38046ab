"""HTTP requests of Lambda events, and responses in the format of each event source. Pure.

There are two formats: API Gateway's REST proxy event (format 1.0), and the event of HTTP APIs and function URLs (format
2.0).
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from mcp_baton.exceptions import EventError
from mcp_baton.protocol.http import HttpRequest, HttpResponse
from mcp_baton.transport.request_context import arrival_ms, base_url, claims_in, resolve_owner, source_address

_PARAMETER = r"\{([^{}+]+)\+?\}"

EXPECTED = "expected an API Gateway proxy event (format 1.0 or 2.0) or a function URL event"


class UnreadableBody(ValueError):
    """The body is not valid base64 or UTF-8. That is the client's mistake."""


class EventFormat(Struct, frozen=True):
    """How an event source writes requests and reads responses.

    Attributes:
        method: Returns the method of an event.
        path: Returns the path, without the stage and without the base path of a custom domain.
        headers: Returns the headers. Names are in lower case. Values of a repeated header are joined by `", "`.
        result: Returns a response in this format.
    """

    method: Callable[[Mapping[str, object]], str]
    path: Callable[[Mapping[str, object]], str]
    headers: Callable[[Mapping[str, object]], Mapping[str, str]]
    result: Callable[[HttpResponse], dict[str, Any]]


def format_of(event: object) -> tuple[EventFormat, Mapping[str, object]]:
    """Return the format of an event, and the event as a mapping. Raises `EventError` if the format is unknown."""
    if not isinstance(event, Mapping):
        raise EventError(f"the event is a {type(event).__name__}: {EXPECTED}")
    if event.get("version") == "2.0":
        return HTTP_API, event
    if "httpMethod" in event:
        return REST_API, event
    names = ascii(", ".join(sorted(map(str, event))[:8]))[1:-1] or "none"
    raise EventError(f"the event has neither `httpMethod` nor `version` 2.0 (its members: {names}): {EXPECTED}")


def request_context_of(event: Mapping[str, object]) -> Mapping[str, object]:
    """Return what API Gateway knows of the request: authorizer, identity, request id. Clients can only choose the
    request id, which can be any UUID."""
    return _mapping(event, "requestContext")


def http_request(event: Mapping[str, object], form: EventFormat, *, allow_anonymous: bool) -> HttpRequest:
    """Return the request of an event.

    Args:
        allow_anonymous: As for `resolve_owner`.

    Raises:
        EventError: a member of the event has a wrong type.
        UnreadableBody: the client's mistake.
    """
    context = request_context_of(event)
    return HttpRequest(
        method=form.method(event),
        path=form.path(event),
        headers=form.headers(event),
        query=_query(event),
        owner=resolve_owner(context, allow_anonymous=allow_anonymous),
        claims=claims_in(context),
        base_url=base_url(context),
        source=source_address(context),
        arrived_ms=arrival_ms(context),
        body=_body(event),
    )


def _rest_method(event: Mapping[str, object]) -> str:
    return _text(event, "httpMethod")


def _rest_path(event: Mapping[str, object]) -> str:
    # `path` includes the base path of a custom domain. `resource` does not, but it can be `$default`.
    return _route_path(event.get("resource"), event) or _text(event, "path")


def _rest_headers(event: Mapping[str, object]) -> Mapping[str, str]:
    # API Gateway sends each header in both members.
    several = _mapping(event, "multiValueHeaders")
    single = {name: value for name, value in _mapping(event, "headers").items() if several.get(name) is None}
    return {**_merged_headers(single), **_merged_headers(several)}


def _rest_result(response: HttpResponse) -> dict[str, Any]:
    return {"statusCode": response.status, "headers": dict(response.headers), **encoded_body(response.body)}


def _http_method(event: Mapping[str, object]) -> str:
    return _text(_mapping(request_context_of(event), "http"), "method")


def _http_path(event: Mapping[str, object]) -> str:
    path, route, stage = _text(event, "rawPath"), event.get("routeKey"), request_context_of(event).get("stage")
    # The route has neither the stage nor the base path of a custom domain.
    if isinstance(route, str) and (filled := _route_path(route.partition(" ")[2], event)):
        return filled
    if isinstance(stage, str) and stage != "$default" and f"{path}/".startswith(f"/{stage}/"):
        return path.removeprefix(f"/{stage}") or "/"
    return path


def _http_headers(event: Mapping[str, object]) -> Mapping[str, str]:
    cookies = _header_text("cookie", event.get("cookies") or [], "; ")
    return {**_merged_headers(_mapping(event, "headers")), **({"cookie": cookies} if cookies else {})}


def _http_result(response: HttpResponse) -> dict[str, Any]:
    # Several cookies cannot be one header, so format 2.0 has a member for them.
    headers = {name: value for name, value in response.headers.items() if name.lower() != "set-cookie"}
    cookies = [value for name, value in response.headers.items() if name.lower() == "set-cookie"]
    result = {"statusCode": response.status, "headers": headers, **encoded_body(response.body)}
    return {**result, "cookies": cookies} if cookies else result


REST_API: Final = EventFormat(_rest_method, _rest_path, _rest_headers, _rest_result)
HTTP_API: Final = EventFormat(_http_method, _http_path, _http_headers, _http_result)


def _route_path(pattern: object, event: Mapping[str, object]) -> str | None:
    """Return the path of a route, with its parameters, such as `{proxy+}`, filled in; `None` if one has no value."""
    if not isinstance(pattern, str) or not pattern.startswith("/"):
        return None
    values = _mapping(event, "pathParameters")
    if not all(isinstance(values.get(name), str) for name in re.findall(_PARAMETER, pattern)):
        return None
    return re.sub(_PARAMETER, lambda match: str(values[match[1]]), pattern)


def _query(event: Mapping[str, object]) -> Mapping[str, str]:
    parameters = _mapping(event, "queryStringParameters")
    return {name: value for name, value in parameters.items() if isinstance(value, str)}


def _body(event: Mapping[str, object]) -> bytes:
    body = event.get("body")
    if body is None:
        return b""
    if not isinstance(body, str):
        raise EventError(f"`body` is a {type(body).__name__}, not text: {EXPECTED}")
    try:
        return base64.b64decode(body, validate=True) if event.get("isBase64Encoded") is True else body.encode()
    except (binascii.Error, ValueError) as error:
        raise UnreadableBody("the body is not valid base64 or UTF-8") from error


def encoded_body(body: bytes) -> dict[str, Any]:
    try:
        return {"body": body.decode(), "isBase64Encoded": False}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}


def _merged_headers(headers: Mapping[str, object]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for name, value in headers.items():
        if value is not None:
            lower, text = name.lower(), _header_text(name, value)
            merged[lower] = f"{merged[lower]}, {text}" if lower in merged else text
    return merged


def _header_text(name: str, value: object, separator: str = ", ") -> str:
    values: Any = value if isinstance(value, list) else [value]
    try:
        return separator.join(values)
    except TypeError as error:
        raise EventError(f"header {name!r} is not text: {EXPECTED}") from error


def _text(members: Mapping[str, object], name: str) -> str:
    value = members.get(name)
    if not isinstance(value, str) or not value:
        raise EventError(f"`{name}` is missing or is not text: {EXPECTED}")
    return value


def _mapping(members: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = members.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise EventError(f"`{name}` is not an object: {EXPECTED}")
    return value
