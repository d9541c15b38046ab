"""Whether a path can exist in a value, by the value's JSON Schema (docs/workflows.md, "What is checked").

A schema that Baton makes of a type lists the properties that the type has, so an object with `properties` and nothing
said of others has no others. Whatever else a schema leaves open is open.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

type Schema = Mapping[str, Any]

_ANYTHING: Schema = {}
_WITHOUT_PARTS = frozenset({"string", "number", "integer", "boolean", "null"})


class Astray(Struct, frozen=True):
    """Where a path leaves what can exist.

    Attributes:
        path: The path up to the first key that cannot exist, that key included.
        instead: The paths that can exist in its place.
        rest: What of the path comes after that key.
    """

    path: str
    instead: tuple[str, ...]
    rest: tuple[str, ...]


def astray(schema: Schema, path: str) -> Astray | None:
    """Where a dotted path leads out of everything that satisfies a schema; `None` where it can exist."""
    definitions: Schema = schema.get("$defs", {})
    keys = path.split(".")
    here = [schema]
    for place, key in enumerate(keys):
        leaves = [leaf for found in here for leaf in _leaves(found, definitions, frozenset())]
        following = [member for member in (_member(leaf, key) for leaf in leaves) if member is not None]
        if not following:
            names = dict.fromkeys(name for leaf in leaves for name in leaf.get("properties", ()))
            instead = tuple(".".join((*keys[:place], name)) for name in names)
            return Astray(".".join(keys[: place + 1]), instead, tuple(keys[place + 1 :]))
        here = following
    return None


def kinds_at(schema: Schema, path: str | None) -> set[str] | None:
    """The JSON types that a value can have at a dotted path; `None` if the schema does not say it, or says more."""
    definitions: Schema = schema.get("$defs", {})
    here = [schema]
    for key in path.split(".") if path else ():
        leaves = [leaf for found in here for leaf in _leaves(found, definitions, frozenset())]
        here = [member for member in (_member(leaf, key) for leaf in leaves) if member is not None]
    leaves = [leaf for found in here for leaf in _leaves(found, definitions, frozenset())]
    if not leaves or any("type" not in leaf or "format" in leaf for leaf in leaves):
        return None
    return {str(leaf["type"]) for leaf in leaves}


def _leaves(schema: Schema, definitions: Schema, seen: frozenset[str]) -> Iterator[Schema]:
    """The alternatives that a schema stands for: references followed, unions taken apart."""
    if "$ref" in schema:
        name = str(schema["$ref"]).removeprefix("#/$defs/")
        if name not in seen:
            yield from _leaves(definitions.get(name, _ANYTHING), definitions, seen | {name})
        return
    members = schema.get("anyOf", schema.get("oneOf"))
    if members is not None:
        for member in members:
            yield from _leaves(member, definitions, seen)
    elif isinstance(schema.get("type"), list):
        yield from ({**schema, "type": kind} for kind in schema["type"])
    else:
        yield schema


def _member(leaf: Schema, key: str) -> Schema | None:
    """What a key leads to; `None` where no value has it."""
    kind = leaf.get("type")
    if kind == "object":
        return _property(leaf, key)
    if kind == "array":
        return _item(leaf, key)
    return None if kind in _WITHOUT_PARTS else _ANYTHING


def _property(leaf: Schema, key: str) -> Schema | None:
    properties = leaf.get("properties")
    if properties and key in properties:
        return _schema(properties[key])
    if "patternProperties" in leaf:
        return _ANYTHING
    return _schema(leaf.get("additionalProperties", properties is None))


def _item(leaf: Schema, key: str) -> Schema | None:
    if not (key.isascii() and key.isdigit()) or len(key) >= 10 or int(key) >= leaf.get("maxItems", 10**9):
        return None
    first = leaf.get("prefixItems", ())
    return _schema(first[int(key)] if int(key) < len(first) else leaf.get("items", True))


def _schema(given: Any) -> Schema | None:
    """A schema in its long form: `true` is anything, `false` nothing."""
    if isinstance(given, bool):
        return _ANYTHING if given else None
    made: Schema = given
    return made
