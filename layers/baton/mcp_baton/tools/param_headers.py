"""`x-mcp-header`: tool parameters that clients copy into `Mcp-Param-*` headers, for proxies to read.

MCP 2026-07-28, basic/transports/streamable-http, Custom Headers from Tool Parameters. Pure.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from mcp_baton.exceptions import RegistrationError
from mcp_baton.protocol.envelope import decode_header
from mcp_baton.protocol.http import HEADER_NAME
from mcp_baton.protocol.json import Json, JsonObject

PARAM_HEADER_KEYWORD: Final = "x-mcp-header"
PARAM_HEADER_PREFIX: Final = "mcp-param-"
_SENDABLE = r"[\t\x20-\x7e]*"
_NUMBER = r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?"
_PRIMITIVE = frozenset({"string", "integer", "boolean"})
_DATA = frozenset({"default", "const", "enum", "examples"})
_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})


class Header(Struct, frozen=True):
    """Marks a parameter that clients copy into the header `Mcp-Param-<name>`: `Annotated[str, Header("Region")]`.

    The parameter must be a `str`, an `int` or a `bool`.
    """

    name: str

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        """Adds the annotation to the parameter's schema."""
        return {**handler(core_schema), PARAM_HEADER_KEYWORD: self.name}


def mirrored(schema: Mapping[str, Any], subject: str) -> dict[tuple[str, ...], str]:
    """Return the mirrored parameters of an input schema: property path to header name, in lower case.

    Raises:
        RegistrationError: a mark is invalid, so that clients would reject the tool.
    """
    if PARAM_HEADER_KEYWORD in schema or _has_misplaced_mark(schema, reachable=True):
        raise RegistrationError(
            f"{subject}: {PARAM_HEADER_KEYWORD!r} can only mark parameters, and properties of plain object parameters"
        )
    headers: dict[tuple[str, ...], str] = {}
    for path, node in _properties(schema):
        if PARAM_HEADER_KEYWORD not in node:
            continue
        name, kind = node[PARAM_HEADER_KEYWORD], node.get("type")
        label = f"{subject}, parameter {'.'.join(path)!r}"
        if not isinstance(name, str) or not re.fullmatch(HEADER_NAME, name):
            raise RegistrationError(f"{label}: {name!r} is not allowed in the name of a header")
        if not isinstance(kind, str) or kind not in _PRIMITIVE:
            raise RegistrationError(f"{label}: only a string, an integer or a boolean can be mirrored into a header")
        if PARAM_HEADER_PREFIX + name.lower() in headers.values():
            raise RegistrationError(f"{label}: another parameter is mirrored into the header {name!r}")
        headers[path] = PARAM_HEADER_PREFIX + name.lower()
    return headers


def _properties(schema: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, node in schema.get("properties", {}).items():
        if isinstance(node, Mapping):
            yield (*path, name), node
            yield from _properties(node, (*path, name))


def _has_misplaced_mark(node: Any, *, reachable: bool) -> bool:
    """Whether a mark cannot be reached from the root by `properties` alone."""
    if isinstance(node, list):
        return any(_has_misplaced_mark(item, reachable=False) for item in node)
    if not isinstance(node, Mapping):
        return False
    if PARAM_HEADER_KEYWORD in node and not reachable:
        return True
    return any(_value_has_misplaced_mark(key, value, reachable) for key, value in node.items() if key not in _DATA)


def _value_has_misplaced_mark(key: str, value: Any, reachable: bool) -> bool:
    if key in _BY_NAME and isinstance(value, Mapping):
        return any(_has_misplaced_mark(item, reachable=reachable and key == "properties") for item in value.values())
    return _has_misplaced_mark(value, reachable=False)


def header_mismatch(
    expected: Mapping[tuple[str, ...], str], arguments: JsonObject, headers: Mapping[str, str]
) -> str | None:
    """Return what is wrong with a call's `Mcp-Param-*` headers; `None` if they are correct."""
    for path, header in expected.items():
        value, header_value = _value_at(arguments, path), headers.get(header)
        if value is None:
            if header_value is not None:
                return f"the header {header} has no counterpart in the body"
        elif header_value is None:
            return f"the header {header} is required"
        elif not re.fullmatch(_SENDABLE, header_value):
            return f"the header {header} holds characters that must be sent as base64"
        elif not _is_same(decode_header(header_value), value):
            return f"the header {header} differs from the value in the body"
    return None


def _value_at(arguments: Json, path: tuple[str, ...]) -> Json:
    for name in path:
        if not isinstance(arguments, Mapping):
            return None
        arguments = arguments.get(name)
    return arguments


def _is_same(text: str | None, value: Json) -> bool:
    if text is None:
        return False
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, int | float):
        return _number(text) == value
    return text == value


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(_NUMBER, text) else None
