"""A handler's ordinary proxy response, read so that it can be streamed.

API Gateway's streaming integrations, and function URLs that stream, take an answer in no other form than prelude, eight
NUL bytes and body (docs/performance.md). A handler that answers whole does so in the form of proxy integrations.
"""

import binascii
from base64 import b64decode
from collections.abc import Mapping

from msgspec import Struct

from mcp_baton.transport.runtime.stream import Headers


class MalformedProxyResponse(ValueError):
    """A return value has a status as a proxy response has, and a member that no proxy response can have."""


class ProxyResponse(Struct, frozen=True):
    """A whole answer. `headers` have one value or several, as they are sent."""

    status: int
    headers: Headers
    body: bytes


def proxy_response(value: object) -> ProxyResponse | None:
    """The proxy response (format 1.0 or 2.0) that a handler returned; `None` for any other return value.

    Raises:
        MalformedProxyResponse: it has a status, but cannot be sent.
    """
    if not isinstance(value, Mapping) or type(value.get("statusCode")) is not int:
        return None
    return ProxyResponse(value["statusCode"], _headers(value), _body(value))


def _headers(response: Mapping[str, object]) -> dict[str, str | list[str]]:
    """All headers; where both members have one, the values of `multiValueHeaders` count, as with API Gateway."""
    headers: dict[str, str | list[str]] = {}
    for name, single in _mapping(response, "headers").items():
        headers[name] = _text(single, name)
    for name, several in _mapping(response, "multiValueHeaders").items():
        for same in [known for known in headers if known.lower() == name.lower()]:
            del headers[same]
        headers[name] = _texts(several, name)
    if cookies := _texts(response.get("cookies") or [], "cookies"):
        headers["Set-Cookie"] = cookies
    return headers


def _body(response: Mapping[str, object]) -> bytes:
    body = response.get("body")
    if body is None:
        return b""
    if not isinstance(body, str):
        raise MalformedProxyResponse(f"`body` is a {type(body).__name__}, not text")
    try:
        return b64decode(body, validate=True) if response.get("isBase64Encoded") is True else body.encode()
    except (binascii.Error, ValueError) as error:
        raise MalformedProxyResponse(f"`body` cannot be sent: {error}") from error


def _mapping(response: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = response.get(name) or {}
    if not isinstance(value, Mapping):
        raise MalformedProxyResponse(f"`{name}` is a {type(value).__name__}, not an object")
    return value


def _texts(values: object, name: str) -> list[str]:
    if not isinstance(values, list | tuple):
        raise MalformedProxyResponse(f"`{name}` is a {type(values).__name__}, not a list")
    return [_text(value, name) for value in values]


def _text(value: object, name: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise MalformedProxyResponse(f"header `{name}` is a {type(value).__name__}, not text")
    return str(value)
