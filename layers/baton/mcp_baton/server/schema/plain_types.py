"""Plain types: those that are described, checked and dumped by hand, just as pydantic would, without importing it; and
what users' functions return, of whatever type, as JSON.

Importing pydantic is most of what a first request costs, so the types that most tools are made of are known here. What
is not exactly of its type is never refused: it is left to pydantic, which may convert it, or has the words for what is
wrong with it.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn, Protocol, cast

from mcp_baton.protocol.json import MAX_LEVELS, Json, text_is_deeper_than
from mcp_baton.workflow.sources import copy_json

EXACT_INTEGERS = 2**53
"""Up to here every integer is a float too."""

SMALL_BITS = 64
"""An integer of so many is JSON as it stands, in a few characters."""


class NotPlain(Exception):
    """A type, or a value, that is left to pydantic."""


class Definitions:
    """The schemas of dataclasses, which a schema refers to by name.

    Args:
        closed: Whether unknown members are refused, as they are in arguments.
    """

    def __init__(self, *, closed: bool = False) -> None:
        self.closed = closed
        self.schemas: dict[str, dict[str, Any]] = {}
        self._defined: dict[str, type] = {}

    def define(self, defined: type, schema: dict[str, Any]) -> dict[str, Any]:
        """A reference to this type's schema.

        Raises:
            NotPlain: another type has the same name, which pydantic tells apart by longer ones.
        """
        name = defined.__name__
        if self._defined.setdefault(name, defined) is not defined:
            raise NotPlain
        self.schemas[name] = schema
        return {"$ref": f"#/$defs/{name}"}

    def at_the_root_of(self, schema: dict[str, Any]) -> dict[str, Any]:
        """A schema with its definitions, where it has any."""
        return {"$defs": dict(sorted(self.schemas.items())), **schema} if self.schemas else schema


class PlainType(Protocol):
    """A plain type. Each method raises `NotPlain` for what pydantic must see."""

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        """Its JSON Schema, members in pydantic's order."""

    def bind(self, value: Json) -> Any:
        """An argument as the function gets it. Shares no container with it."""

    def dump(self, value: object) -> Any:
        """What a function returned, down to what `to_json` takes."""


def bind_all(types: Mapping[str, PlainType], arguments: Mapping[str, Json]) -> dict[str, Any]:
    """A function's keyword arguments.

    Raises:
        NotPlain: pydantic must see one of them.
    """
    return {name: types[name].bind(value) for name, value in arguments.items()}


class Scalar:
    """`str`, `int`, `float` or `bool`."""

    def __init__(self, kind: type, name: str) -> None:
        self._kind = kind
        self._name = name

    def schema(self, _definitions: Definitions) -> dict[str, Any]:
        return {"type": self._name}

    def bind(self, value: Json) -> Any:
        if self._kind is float and type(value) is int and abs(value) <= EXACT_INTEGERS:
            return float(value)
        return self.dump(value)

    def surely_differ(self, one: Json, other: Json) -> bool:
        """Whether two values differ and are both taken as they are, so that nothing can make them one."""
        return type(one) is type(other) is self._kind and self._kind is not float and one != other

    def dump(self, value: object) -> Any:
        return value if type(value) is self._kind else _leave()


class Anything:
    """`Any`, `dict` or `list`: any JSON, or any of that kind."""

    def __init__(self, schema: dict[str, Any], kind: type = object) -> None:
        self._schema = schema
        self._kind = kind

    def schema(self, _definitions: Definitions) -> dict[str, Any]:
        return dict(self._schema)

    def bind(self, value: Json) -> Any:
        return copy_json(value) if self._kind in (object, type(value)) else _leave()

    def dump(self, value: object) -> Any:
        return value if self._kind in (object, type(value)) else _leave()


class Choice:
    """One of the strings of a `Literal`."""

    def __init__(self, choices: tuple[str, ...]) -> None:
        self._choices = choices

    def schema(self, _definitions: Definitions) -> dict[str, Any]:
        named = {"const": self._choices[0]} if len(self._choices) == 1 else {"enum": list(self._choices)}
        return {**named, "type": "string"}

    def bind(self, value: Json) -> Any:
        return self.dump(value)

    def dump(self, value: object) -> Any:
        return value if type(value) is str and value in self._choices else _leave()


class Nullable:
    """A type, or `None`."""

    def __init__(self, inner: PlainType) -> None:
        self._inner = inner

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return {"anyOf": [self._inner.schema(definitions), {"type": "null"}]}

    def bind(self, value: Json) -> Any:
        return None if value is None else self._inner.bind(value)

    def dump(self, value: object) -> Any:
        return None if value is None else self._inner.dump(value)


class ListOf:
    """A list of one type."""

    def __init__(self, item: PlainType) -> None:
        self._item = item

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return {"items": self._item.schema(definitions), "type": "array"}

    def bind(self, value: Json) -> Any:
        return [self._item.bind(item) for item in value] if type(value) is list else _leave()

    def dump(self, value: object) -> Any:
        return [self._item.dump(item) for item in value] if type(value) is list else _leave()


class MapOf:
    """A map from strings to one type."""

    def __init__(self, item: PlainType) -> None:
        self._item = item

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return {"additionalProperties": self._item.schema(definitions) or True, "type": "object"}

    def bind(self, value: Json) -> Any:
        return {key: self._item.bind(item) for key, item in _items(value)}

    def dump(self, value: object) -> Any:
        return {key: self._item.dump(item) for key, item in _items(value)}


def _items(value: object) -> Any:
    return value.items() if type(value) is dict and all(type(key) is str for key in value) else _leave()


def _leave() -> NoReturn:
    raise NotPlain


def is_plain_default(default: object) -> bool:
    """Whether a default stands in a schema as it is."""
    if type(default) is float:
        return math.isfinite(default)
    return default is None or type(default) in (str, int, bool)


def to_json(value: object) -> Json:
    """Any Python value as JSON: models and dataclasses dumped, tuples as lists; `NaN` and infinities become `null`.

    Raises:
        ValueError: something in it cannot be written as JSON.
    """
    kind = type(value)
    if kind is str or value is None or kind is bool or (kind is int and cast("int", value).bit_length() <= SMALL_BITS):
        return cast("Json", value)
    try:
        text = _encode(value)
        made: Json = _DECODER.raw_decode(text)[0]
    except Exception as error:
        # A value can bring code along, which may raise anything: a generator, a model's serializer.
        raise ValueError(f"the value is not JSON: {error}") from error
    if text_is_deeper_than(text, MAX_LEVELS, lambda: made):
        raise ValueError(f"the value is nested deeper than {MAX_LEVELS} levels")
    return made


def dumped(kind: PlainType, returned: object) -> Json:
    """What a function returned, of a plain type, as JSON.

    Raises:
        NotPlain: pydantic must see it.
        ValueError: as `to_json`.
    """
    return to_json(kind.dump(returned))


def _dump_special(value: object) -> object:
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return to_jsonable_python(value)
    except PydanticSerializationError as error:
        raise TypeError(str(error)) from error


# `json.dumps` and `json.loads` would make one of these anew for each call.
_encode = json.JSONEncoder(default=_dump_special).encode
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)
