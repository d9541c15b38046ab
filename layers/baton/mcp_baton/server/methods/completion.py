"""`completion/complete` (MCP server/utilities/completion)."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any, Final

from mcp_baton.exceptions import ProtocolError, ToolError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import INTERNAL_ERROR, InvalidParams, checked_object
from mcp_baton.tools.completion import Completion
from mcp_baton.tools.outcomes import Failed, Mismatch
from mcp_baton.tools.running.runner import BoundFunction
from mcp_baton.workflow.direct_calls import call_alone
from mcp_baton.workflow.request import Request

MAX_SUGGESTIONS: Final = 100
"""The most suggestions in one reply (MCP)."""


def complete(request: Request) -> JsonObject:
    """Suggest values for an argument. An argument without a completion has no suggestions."""
    reference, argument, value, known_arguments = completion_params(request.params)
    if argument not in request.server.arguments_of(reference):
        raise InvalidParams(f"there is no argument {argument!r} of {reference!r} to complete")
    completion = request.server.completions.get((reference, argument))
    if completion is None:
        return suggestions(())
    match call_alone(request, _bound(completion, value, known_arguments), {}):
        case Mismatch() as mismatch:
            raise ProtocolError(INTERNAL_ERROR, f"The completion failed: {mismatch.text}")
        case Failed(error):
            raise ProtocolError(INTERNAL_ERROR, f"The completion failed: {error}")
        case result:
            return result


def completion_params(params: JsonObject) -> tuple[str, str, str, dict[str, Any]]:
    ref, argument, context = params.get("ref"), params.get("argument"), params.get("context", {})
    if not isinstance(ref, Mapping) or ref.get("type") not in ("ref/prompt", "ref/resource"):
        raise InvalidParams("`ref.type` must be ref/prompt or ref/resource")
    field = "name" if ref["type"] == "ref/prompt" else "uri"
    reference = ref.get(field)
    if not isinstance(reference, str):
        raise InvalidParams(f"`ref.{field}` must be a string")
    if not isinstance(argument, Mapping):
        raise InvalidParams("`argument` must be an object with `name` and `value`")
    name, value = argument.get("name"), argument.get("value")
    if not isinstance(name, str) or not isinstance(value, str):
        raise InvalidParams("`argument.name` and `argument.value` must be strings")
    known = checked_object(context, "context").get("arguments")
    known_arguments = {} if known is None else checked_object(known, "context.arguments")
    return reference, name, value, dict(known_arguments)


def _bound(completion: Completion, value: str, known_arguments: dict[str, Any]) -> BoundFunction[JsonObject]:
    """Bind a completing function to the text so far and, if it takes them, the known arguments."""
    arguments = (value, known_arguments) if completion.wants_arguments else (value,)
    function = partial(completion.function, *arguments)

    def bind(_: JsonObject) -> dict[str, Any]:
        return deepcopy(completion.defaults)

    def to_suggestions(values: object) -> JsonObject:
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise ToolError(f"{completion.subject} did not return suggestions")
        return suggestions(str(suggestion) for suggestion in values)

    return BoundFunction(completion.subject, "completion", function, completion.signature, bind, to_suggestions)


def suggestions(values: Iterable[str]) -> JsonObject:
    all_values: list[Json] = list(values)
    first_values: Json = all_values[:MAX_SUGGESTIONS]
    return {
        "completion": {"values": first_values, "total": len(all_values), "hasMore": len(all_values) > MAX_SUGGESTIONS}
    }
