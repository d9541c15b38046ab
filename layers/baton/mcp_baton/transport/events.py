"""HTTP requests out of Lambda events, and answers in the shape that each kind of sender expects. Pure.

Two kinds of event are read: API Gateway's REST proxy event (payload format 1.0), and the format 2.0 that HTTP APIs
and function URLs send. What the sender found out about the caller is passed on as it came; `owner` reads it.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from mcp_baton.exceptions import EventError
from mcp_baton.protocol.http import HttpResponse

EXPECTED = "expected an API Gateway proxy event (format 1.0 or 2.0) or a function URL event"


class Incoming(Struct, frozen=True):
    """A request as the event tells it.

    Attributes:
        method: `POST`, `GET`, …
        path: Below the stage and below a custom domain's base path.
        headers: Names in lower case; a repeated header's values joined by `", "`.
        body: `None` when it is not what the event says it is (base64, UTF-8): the client's mistake, not the event's.
        request_context: The sender's own notes: authorizer, identity, request id. Nothing the client can write but the
            request id, for which API Gateway takes any UUID.
        answer: Makes the handler's return value of a response, as this kind of sender takes it.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | None
    request_context: Mapping[str, object]
    answer: Callable[[HttpResponse], dict[str, Any]]


def parse_event(event: object) -> Incoming:
    """Read an event of either kind.

    Raises:
        EventError: it is of neither kind, or one of its members has a type that the kind does not have.
    """
    if not isinstance(event, Mapping):
        raise EventError(f"the event is a {type(event).__name__}: {EXPECTED}")
    if event.get("version") == "2.0":
        return _http_api(event)
    if "httpMethod" in event:
        return _rest(event)
    names = ", ".join(sorted(map(str, event))[:8]) or "none"
    raise EventError(f"the event has neither `httpMethod` nor `version` 2.0 (its members: {names}): {EXPECTED}")


def rest_answer(response: HttpResponse) -> dict[str, Any]:
    """A response in format 1.0."""
    return {"statusCode": response.status, "headers": dict(response.headers), **_answer_body(response.body)}


def http_api_answer(response: HttpResponse) -> dict[str, Any]:
    """A response in format 2.0, which takes cookies apart from the other headers."""
    headers = {name: value for name, value in response.headers.items() if name.lower() != "set-cookie"}
    cookies = [value for name, value in response.headers.items() if name.lower() == "set-cookie"]
    answer = {"statusCode": response.status, "headers": headers, **_answer_body(response.body)}
    return {**answer, "cookies": cookies} if cookies else answer


def _rest(event: Mapping[str, object]) -> Incoming:
    # API Gateway sends every header in both; what `multiValueHeaders` has need not be read twice.
    several = _mapping(event, "multiValueHeaders")
    single = {name: value for name, value in _mapping(event, "headers").items() if several.get(name) is None}
    return Incoming(
        method=_text(event, "httpMethod"),
        path=_rest_path(event),
        headers={**_joined(single), **_joined(several)},
        body=_body(event),
        request_context=_mapping(event, "requestContext"),
        answer=rest_answer,
    )


def _rest_path(event: Mapping[str, object]) -> str:
    # `path` begins with a custom domain's base path; `resource` never does, but may be a pattern, or `$default`.
    return _literal_path(event.get("resource")) or _text(event, "path")


def _http_api(event: Mapping[str, object]) -> Incoming:
    context = _mapping(event, "requestContext")
    headers = _joined(_mapping(event, "headers"))
    cookies = _header_values("cookie", event.get("cookies") or [])
    return Incoming(
        method=_text(_mapping(context, "http"), "method"),
        path=_http_api_path(event, context.get("stage")),
        headers={**headers, "cookie": "; ".join(cookies)} if cookies else headers,
        body=_body(event),
        request_context=context,
        answer=http_api_answer,
    )


def _http_api_path(event: Mapping[str, object], stage: object) -> str:
    path = _text(event, "rawPath")
    route = event.get("routeKey")
    if isinstance(route, str) and (literal := _literal_path(route.partition(" ")[2])):
        return literal
    if isinstance(stage, str) and stage != "$default" and f"{path}/".startswith(f"/{stage}/"):
        return path.removeprefix(f"/{stage}") or "/"
    return path


def _literal_path(pattern: object) -> str | None:
    return pattern if isinstance(pattern, str) and pattern.startswith("/") and "{" not in pattern else None


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


def _answer_body(body: bytes) -> dict[str, Any]:
    try:
        return {"body": body.decode(), "isBase64Encoded": False}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}


def _joined(headers: Mapping[str, object]) -> dict[str, str]:
    values: dict[str, list[str]] = {}
    for name, value in headers.items():
        if value is not None:
            key, found = name.lower(), _header_values(name, value)
            values[key] = [*values[key], *found] if key in values else found
    return {name: found[0] if len(found) == 1 else ", ".join(found) for name, found in values.items()}


def _header_values(name: str, value: object) -> list[str]:
    if type(value) is str:
        return [value]
    if type(value) is list and len(value) == 1 and type(value[0]) is str:
        return value
    values = value if isinstance(value, list) else [value]
    texts = [item for item in values if isinstance(item, str)]
    if len(texts) < len(values):
        raise EventError(f"header {name!r} is not text: {EXPECTED}")
    return texts


def _text(members: Mapping[str, object], name: str) -> str:
    value = members.get(name)
    if not isinstance(value, str) or not value:
        raise EventError(f"`{name}` is missing or is not text: {EXPECTED}")
    return value


_TEXT = {str}


def _mapping(members: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = members.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict | Mapping) or not set(map(type, value)) <= _TEXT:
        raise EventError(f"`{name}` is not an object: {EXPECTED}")
    return value
