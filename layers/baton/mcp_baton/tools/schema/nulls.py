"""Validation by pydantic, in which null for an optional field counts as left out.

Strict modes of models, and some frameworks, send null for each argument that the model has left out.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.tools.schema.sent_values import NO_PART, Path, all_options, member, replaced

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

MAX_PYDANTIC_ERRORS = 1_000
"""If pydantic reports more errors, they are only counted. Each takes a kilobyte, and a large body can have a
million."""


def validate(adapter: "TypeAdapter[Any]", value: Json, schema: Callable[[], JsonObject]) -> Any:
    """Validate a value. Null for an optional field that does not accept null counts as left out.

    Args:
        schema: Returns the JSON schema of the type, which says which fields are optional.

    Raises:
        pydantic.ValidationError: the value is invalid.
    """
    from pydantic import ValidationError

    visited: set[Path] = set()
    while True:
        try:
            return validate_json(adapter, value)
        except ValidationError as error:
            paths = _refused_nulls(error, value, schema) - visited
            if not paths:
                raise
        visited |= paths
        value = replaced(value, paths, lambda _: NO_PART)


def validate_json(adapter: "TypeAdapter[Any]", value: Json) -> Any:
    """Validate a value of JSON. Raises `pydantic.ValidationError`. In its strict mode, pydantic accepts a text for a
    date, or a list for a set, only in JSON text."""
    from pydantic import ValidationError

    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        if not any(node.get("strict") is True for node in core_nodes(adapter.core_schema)):
            raise
        try:
            return adapter.validate_json(dumps(value))
        except ValidationError as json_error:
            # Pydantic cannot read JSON with a lone surrogate.
            raise (error if json_error.errors()[0]["type"] == "json_invalid" else json_error) from None


def core_nodes(core_schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield all objects in a core schema of pydantic. Not recursive."""
    nodes = [core_schema]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            yield node
        nodes += [value for value in (node.values() if isinstance(node, dict) else node) if isinstance(value, _PARTS)]


_PARTS = (dict, list, tuple)


def _refused_nulls(error: "ValidationError", value: Json, schema: Callable[[], JsonObject]) -> set[Path]:
    """Return the paths of the optional fields that are invalid because they are null."""
    if error.error_count() > MAX_PYDANTIC_ERRORS:
        return set()
    items = error.errors(include_url=False, include_context=False)
    nulls = [item["loc"] for item in items if item["input"] is None]
    paths = {path for location in nulls if (path := _path(value, location))}
    try:
        return {path for path in paths if _is_optional(schema(), path)}
    except Exception:  # noqa: BLE001 - code of the author's type runs and may raise anything
        return set()


def _path(value: Json, location: tuple[str | int, ...]) -> tuple[str | int, ...] | None:
    """Return the path to the null of an error; `None` if there is none. pydantic's locations also name the members of
    unions."""
    path: list[str | int] = []
    for part in location:
        inner: Any = value
        is_key = isinstance(inner, dict) and part in inner
        if is_key or (isinstance(inner, list) and isinstance(part, int) and part < len(inner)):
            value = inner[part]
            path.append(part)
    return tuple(path) if value is None and path and path[-1] == location[-1] else None


def _is_optional(schema: JsonObject, path: tuple[str | int, ...]) -> bool:
    """Whether a path leads to a field that may be left out. A key of a map is not a field."""
    definitions: Any = schema.get("$defs", {})
    nodes = all_options([schema], definitions)
    for part in path[:-1]:
        inner = [found for node in nodes if isinstance(found := member(node, part), Mapping)]
        nodes = all_options(inner, definitions)
    name = path[-1]
    properties: list[tuple[Any, Any]] = [(node.get("properties", {}), node.get("required", ())) for node in nodes]
    return any(name in known and name not in required for known, required in properties)
