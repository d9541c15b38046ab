"""HTTP requests in Lambda events, and responses in the format of each event source. Pure.

There is one class for each format: API Gateway's REST proxy event (format 1.0), and the event of HTTP APIs and function
URLs (format 2.0).
"""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Protocol

from mcp_baton.exceptions import EventError
from mcp_baton.protocol.http import HttpResponse

_PARAMETER = r"\{([^{}+]+)\+?\}"

EXPECTED = "expected an API Gateway proxy event (format 1.0 or 2.0) or a function URL event"


class HttpEvent(Protocol):
    """A request from an event.

    Attributes:
        path: The path without the stage and without the base path of a custom domain.
        query: The parameters of the query string. Of a repeated parameter, one value.
        headers: Names are in lower case. Values of a repeated header are joined by `", "`.
        body: `None` if the body is not valid base64 or UTF-8. That is the client's mistake.
        request_context: What API Gateway knows of the request: authorizer, identity, request id. Clients can only
            choose the request id, which can be any UUID.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes | None
    request_context: Mapping[str, object]

    def result(self, response: HttpResponse) -> dict[str, Any]:
        """Return a response in the format of this event source."""


def parse_event(event: object) -> HttpEvent:
    """Read an event. Raises `EventError` if the event has an unknown format, or a member with a wrong type."""
    if not isinstance(event, Mapping):
        raise EventError(f"the event is a {type(event).__name__}: {EXPECTED}")
    if event.get("version") == "2.0":
        return HttpApiEvent(event)
    if "httpMethod" in event:
        return RestApiEvent(event)
    names = ", ".join(sorted(map(str, event))[:8]) or "none"
    raise EventError(f"the event has neither `httpMethod` nor `version` 2.0 (its members: {names}): {EXPECTED}")


class RestApiEvent:
    """An event of a REST API: format 1.0."""

    def __init__(self, event: Mapping[str, object]) -> None:
        self.method = _text(event, "httpMethod")
        # `path` includes the base path of a custom domain. `resource` does not, but it can be `$default`.
        self.path = _route_path(event.get("resource"), event) or _text(event, "path")
        self.query = _query(event)
        # API Gateway sends each header in both members.
        several = _mapping(event, "multiValueHeaders")
        single = {name: value for name, value in _mapping(event, "headers").items() if several.get(name) is None}
        self.headers: Mapping[str, str] = {**_merged_headers(single), **_merged_headers(several)}
        self.body = _body(event)
        self.request_context = _mapping(event, "requestContext")

    def result(self, response: HttpResponse) -> dict[str, Any]:
        return {"statusCode": response.status, "headers": dict(response.headers), **_encoded_body(response.body)}


class HttpApiEvent:
    """An event of an HTTP API or a function URL: format 2.0."""

    def __init__(self, event: Mapping[str, object]) -> None:
        self.request_context = _mapping(event, "requestContext")
        self.method = _text(_mapping(self.request_context, "http"), "method")
        self.path = self._path(event)
        self.query = _query(event)
        cookies = _header_text("cookie", event.get("cookies") or [], "; ")
        self.headers: Mapping[str, str] = {
            **_merged_headers(_mapping(event, "headers")),
            **({"cookie": cookies} if cookies else {}),
        }
        self.body = _body(event)

    def result(self, response: HttpResponse) -> dict[str, Any]:
        headers = {name: value for name, value in response.headers.items() if name.lower() != "set-cookie"}
        cookies = [value for name, value in response.headers.items() if name.lower() == "set-cookie"]
        result = {"statusCode": response.status, "headers": headers, **_encoded_body(response.body)}
        return {**result, "cookies": cookies} if cookies else result

    def _path(self, event: Mapping[str, object]) -> str:
        path, route, stage = _text(event, "rawPath"), event.get("routeKey"), self.request_context.get("stage")
        if isinstance(route, str) and (filled := _route_path(route.partition(" ")[2], event)):
            return filled
        if isinstance(stage, str) and stage != "$default" and f"{path}/".startswith(f"/{stage}/"):
            return path.removeprefix(f"/{stage}") or "/"
        return path


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


def _body(event: Mapping[str, object]) -> bytes | None:
    body = event.get("body")
    if body is None:
        return b""
    if not isinstance(body, str):
        raise EventError(f"`body` is a {type(body).__name__}, not text: {EXPECTED}")
    try:
        return base64.b64decode(body, validate=True) if event.get("isBase64Encoded") is True else body.encode()
    except (binascii.Error, ValueError):
        return None


def _encoded_body(body: bytes) -> dict[str, Any]:
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
