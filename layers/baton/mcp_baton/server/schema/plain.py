"""Which annotations are plain types, and their schemas: word for word what pydantic makes of them."""

import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from mcp_baton.server.schema.plain_types import (
    Anything,
    Choice,
    Definitions,
    ListOf,
    MapOf,
    NotPlain,
    Nullable,
    PlainType,
    Scalar,
    is_plain_default,
)
from mcp_baton.server.schema.signature import Parameter, is_field

BARE_TYPES: tuple[tuple[Any, PlainType], ...] = (
    (str, Scalar(str, "string")),
    (int, Scalar(int, "integer")),
    (float, Scalar(float, "number")),
    (bool, Scalar(bool, "boolean")),
    (dict, Anything({"additionalProperties": True, "type": "object"}, dict)),
    (list, Anything({"items": {}, "type": "array"}, list)),
    (Any, Anything({})),
)
"""The types that have no parts."""


def plain_type(annotation: object) -> PlainType | None:
    """The plain type that an annotation stands for; `None` where it is left to pydantic."""
    try:
        return _read(annotation, frozenset())
    except NotPlain:
        return None


def _read(annotation: object, inside: frozenset[type]) -> PlainType:
    """The plain type that an annotation stands for within these dataclasses. One that contains itself is pydantic's."""
    for bare, made in BARE_TYPES:
        if annotation is bare:
            return made
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is None and isinstance(annotation, type) and annotation not in inside:
        return _read_record(annotation, inside | {annotation})
    if origin is Literal and all(type(part) is str for part in parts):
        return Choice(parts)
    return _read_parts(origin, parts, inside)


def _read_record(annotation: type, inside: frozenset[type]) -> PlainType:
    if "__dataclass_fields__" not in vars(annotation):
        raise NotPlain
    from mcp_baton.server.schema.plain_dataclasses import (  # it needs `dataclasses`, which not all do
        PlainDataclass,
        field_types,
    )

    return PlainDataclass(annotation, {name: _read(field, inside) for name, field in field_types(annotation).items()})


def _read_parts(origin: object, parts: tuple[Any, ...], inside: frozenset[type]) -> PlainType:
    if origin is list:
        return ListOf(_read(parts[0], inside))
    if origin is dict and parts[0] is str:
        return MapOf(_read(parts[1], inside))
    if origin in (typing.Union, types.UnionType) and len(parts) == 2 and types.NoneType in parts and Any not in parts:
        return Nullable(_read(parts[0] if parts[1] is types.NoneType else parts[1], inside))
    raise NotPlain


def plain_parameters(parameters: Sequence[Parameter]) -> dict[str, PlainType] | None:
    """Each parameter's type; `None` where one of them is left to pydantic."""
    made: dict[str, PlainType] = {}
    for parameter in parameters:
        plain = None if is_field(parameter.default) else plain_type(parameter.bare)
        if plain is None:
            return None
        made[parameter.name] = plain
    return made


def plain_arguments(parameters: Sequence[Parameter], plain: Mapping[str, PlainType]) -> dict[str, Any] | None:
    """The schema of arguments; `None` where one of them is beyond what is written by hand."""
    if not all(parameter.required or is_plain_default(parameter.default) for parameter in parameters):
        return None
    definitions = Definitions(closed=True)
    try:
        properties = {item.name: _property(item, plain[item.name], definitions) for item in parameters}
    except NotPlain:
        return None
    required = [parameter.name for parameter in parameters if parameter.required]
    made: dict[str, Any] = {"additionalProperties": False, "properties": properties}
    return definitions.at_the_root_of(made | ({"required": required} if required else {}) | {"type": "object"})


def _property(parameter: Parameter, plain: PlainType, definitions: Definitions) -> dict[str, Any]:
    default = {} if parameter.required else {"default": parameter.default}
    text = {} if parameter.text is None else {"description": parameter.text}
    return dict(sorted({**plain.schema(definitions), **default, **text}.items()))


def plain_value(plain: PlainType) -> dict[str, Any] | None:
    """The schema of a function's value; `None` where it is beyond what is written by hand."""
    definitions = Definitions()
    try:
        # A dataclass's own is no reference to it.
        own: dict[str, Any] = getattr(plain, "own_schema", plain.schema)(definitions)
    except NotPlain:
        return None
    return definitions.at_the_root_of(own)
