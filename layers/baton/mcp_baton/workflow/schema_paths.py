"""Dotted paths in JSON Schemas: whether a value can have a path, and of which types it is there. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from mcp_baton.workflow.json_values import is_index

type Schema = Mapping[str, Any]

_ANYTHING: Schema = {}
_SCALARS = frozenset({"string", "number", "integer", "boolean", "null"})


class InvalidPath(Struct, frozen=True):
    """The part of a path that a schema does not allow.

    Attributes:
        path: The path up to the first key that cannot exist, with that key.
    """

    path: str
    alternatives: tuple[str, ...]
    remaining_keys: tuple[str, ...]


def invalid_path(schema: Schema, path: str) -> InvalidPath | None:
    """The part of a dotted path that a schema does not allow; `None` if the path can exist."""
    keys = path.split(".")
    leaves = list(_leaves(schema, schema))
    for position, key in enumerate(keys):
        members = _members(leaves, key, schema)
        if not members:
            names = dict.fromkeys(name for leaf in leaves for name in leaf.get("properties", ()))
            alternatives = tuple(".".join((*keys[:position], name)) for name in names)
            return InvalidPath(".".join(keys[: position + 1]), alternatives, tuple(keys[position + 1 :]))
        leaves = members
    return None


def kinds_at(schema: Schema, path: str | None) -> set[str] | None:
    """The JSON types that a value can have at a dotted path; `None` if the schema does not define them exactly."""
    leaves = _leaves_at(schema, path)
    if not leaves or any("type" not in leaf or "format" in leaf for leaf in leaves):
        return None
    return {str(leaf["type"]) for leaf in leaves}


def formats_at(schema: Schema, path: str | None) -> set[str | None]:
    """The formats that a value can have at a dotted path, such as `date`; `None` is any other value."""
    return {leaf.get("format") for leaf in _leaves_at(schema, path)}


def _leaves_at(schema: Schema, path: str | None) -> list[Schema]:
    leaves = list(_leaves(schema, schema))
    for key in path.split(".") if path else ():
        leaves = _members(leaves, key, schema)
    return leaves


def _members(leaves: list[Schema], key: str, root: Schema) -> list[Schema]:
    """The alternatives of the schema of a key. If no value has the key, there are none."""
    members = (_member(leaf, key) for leaf in leaves)
    return [leaf for member in members if member is not None for leaf in _leaves(member, root)]


def _leaves(schema: Schema, root: Schema, seen_names: frozenset[str] = frozenset()) -> Iterator[Schema]:
    """The alternatives of a schema, with references and unions resolved."""
    if "$ref" in schema:
        name = str(schema["$ref"]).removeprefix("#/$defs/")
        if name not in seen_names:
            yield from _leaves(root.get("$defs", {}).get(name, _ANYTHING), root, seen_names | {name})
        return
    members = schema.get("anyOf", schema.get("oneOf"))
    if members is not None:
        for member in members:
            yield from _leaves(member, root, seen_names)
    elif isinstance(schema.get("type"), list):
        yield from ({**schema, "type": kind} for kind in schema["type"])
    else:
        yield schema


def _member(leaf: Schema, key: str) -> Schema | None:
    """The schema of a key; `None` if no value has the key."""
    kind = leaf.get("type")
    if kind == "object":
        return _property(leaf, key)
    if kind == "array":
        return _item(leaf, key)
    return None if kind in _SCALARS else _ANYTHING


def _property(leaf: Schema, key: str) -> Schema | None:
    properties = leaf.get("properties")
    if properties and key in properties:
        return _schema(properties[key])
    if "patternProperties" in leaf:
        return _ANYTHING
    return _schema(leaf.get("additionalProperties", properties is None))


def _item(leaf: Schema, key: str) -> Schema | None:
    if not is_index(key, leaf.get("maxItems", 10**9)):
        return None
    prefix_items = leaf.get("prefixItems", ())
    return _schema(prefix_items[int(key)] if int(key) < len(prefix_items) else leaf.get("items", True))


def _schema(value: Schema | bool) -> Schema | None:
    """A schema in its long form: `true` is anything, `false` nothing."""
    if isinstance(value, bool):
        return _ANYTHING if value else None
    return value
