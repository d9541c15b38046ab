"""Completion of prompt arguments and of resource templates' variables (MCP server/utilities/completion)."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import INVALID_PARAMS
from mcp_baton.server.schema.signature import NO_ANNOTATION, Signature, filled_by_server, is_async, read_dependencies

MAX_VALUES: Final = 100
"""The most suggestions in one reply (MCP)."""

type Completer = Callable[..., Iterable[str] | Awaitable[Iterable[str]]]
"""A `def` or `async def`. Takes the text so far and optionally the known arguments; returns suggestions, best first."""


class Completion(Struct, frozen=True):
    """A function that completes one argument."""

    function: Completer
    what: str
    signature: Signature

    @property
    def wants_arguments(self) -> bool:
        filled = {self.signature.context, *(name for name, _ in self.signature.dependencies)}
        return len(inspect.signature(self.function).parameters.keys() - filled) > 1


def completion_of(function: Completer, what: str) -> Completion:
    context, declared = filled_by_server(function, what)
    signature = Signature((), context, NO_ANNOTATION, is_async(function), read_dependencies(declared, what))
    return Completion(function, what, signature)


def requested(params: JsonObject) -> tuple[str, str, str, dict[str, Any]]:
    ref, argument, context = params.get("ref"), params.get("argument"), params.get("context", {})
    if not isinstance(ref, Mapping) or ref.get("type") not in ("ref/prompt", "ref/resource"):
        raise ProtocolError(INVALID_PARAMS, "Invalid params: `ref.type` must be ref/prompt or ref/resource")
    field = "name" if ref["type"] == "ref/prompt" else "uri"
    of = ref.get(field)
    if not isinstance(of, str):
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: `ref.{field}` must be a string")
    if not isinstance(argument, Mapping):
        raise ProtocolError(INVALID_PARAMS, "Invalid params: `argument` must be an object with `name` and `value`")
    name, value = argument.get("name"), argument.get("value")
    if not isinstance(name, str) or not isinstance(value, str):
        raise ProtocolError(INVALID_PARAMS, "Invalid params: `argument.name` and `argument.value` must be strings")
    known = context.get("arguments", {}) if isinstance(context, Mapping) else None
    if not isinstance(known, Mapping):
        raise ProtocolError(INVALID_PARAMS, "Invalid params: `context.arguments` must be an object")
    return of, name, value, dict(known)


def suggestions(values: Iterable[str]) -> JsonObject:
    found: list[Json] = list(values)
    shown: Json = found[:MAX_VALUES]
    return {"completion": {"values": shown, "total": len(found), "hasMore": len(found) > MAX_VALUES}}
