"""Which annotations are plain types, and their schemas: word for word what pydantic makes of them."""

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from mcp_baton.protocol.json import Json
from mcp_baton.server.schema.functions import clean
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


_HOOKS = frozenset(
    {"__new__", "__post_init__", "__deprecated__", "__get_pydantic_core_schema__", "__get_pydantic_json_schema__"}
)
"""What a class does besides holding its fields, or has pydantic do."""


class PlainDataclass:
    """A dataclass.

    Args:
        made: The class.
        members: Its fields' types, in order.
    """

    def __init__(self, made: type, members: Mapping[str, PlainType]) -> None:
        self._made = made
        self._members = members
        self._fields: dict[str, dataclasses.Field[Any]] = {field.name: field for field in dataclasses.fields(made)}
        self._required = frozenset(name for name, field in self._fields.items() if _is_required(field))

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return definitions.define(self._made, self.own_schema(definitions))

    def own_schema(self, definitions: Definitions) -> dict[str, Any]:
        """The schema itself, where `schema` is a reference to it."""
        description = _description(self._made)
        properties: dict[str, Any] = {}
        for name, member in self._members.items():
            default = self._fields[name].default
            shown = {} if default is dataclasses.MISSING else {"default": default}
            properties[name] = dict(sorted({**member.schema(definitions), **shown}.items()))
        return {
            **({"additionalProperties": False} if definitions.closed else {}),
            **({"description": description} if description else {}),
            "properties": properties,
            **({"required": [name for name in self._members if name in self._required]} if self._required else {}),
            "type": "object",
        }

    def bind(self, value: Json) -> Any:
        if type(value) is not dict or not self._required <= value.keys() <= self._members.keys():
            raise NotPlain
        return self._made(**{name: self._members[name].bind(item) for name, item in value.items()})

    def dump(self, value: object) -> Any:
        if type(value) is not self._made:
            raise NotPlain
        # An attribute that was deleted is left to pydantic, as nothing plain is a `PlainDataclass`.
        return {name: member.dump(getattr(value, name, self)) for name, member in self._members.items()}


def field_types(annotation: type) -> dict[str, Any]:
    """The types of a dataclass's fields, in order.

    Raises:
        NotPlain: it is no dataclass, or it is more than its fields: pydantic's, generic, with a constructor or checks
            of its own.
    """
    if not _is_its_fields(annotation):
        raise NotPlain
    try:
        hints = typing.get_type_hints(annotation, include_extras=True)
    except (NameError, TypeError) as error:
        raise NotPlain from error
    return {field.name: hints[field.name] for field in dataclasses.fields(annotation)}


def _is_its_fields(annotation: type) -> bool:
    bases = annotation.__mro__[:-1]
    if not bases or not all("__dataclass_fields__" in vars(base) for base in bases):
        return False
    if any(_does_more(name, member) for base in bases for name, member in vars(base).items()):
        return False
    own = vars(annotation)
    declared: Any = own["__dataclass_fields__"]
    if not isinstance(declared, dict):  # one of Baton's own
        return False
    # `__dataclass_fields__` has class variables and `InitVar`s too, which `fields` has not.
    has_others = len(dataclasses.fields(annotation)) != len(declared)
    # Where some are keyword-only and some are not, pydantic orders them anew.
    is_mixed = len({field.kw_only for field in declared.values()}) > 1
    made = own["__dataclass_params__"].init and not (has_others or is_mixed)
    return made and all(_is_plain_field(field) for field in declared.values())


def _does_more(name: str, member: object) -> bool:
    """Whether a class's attribute is more than a field: a hook, or what says something to pydantic."""
    is_pydantics = name.startswith("__pydantic") or type(member).__module__.partition(".")[0] == "pydantic"
    return is_pydantics or name in _HOOKS


def _is_plain_field(field: "dataclasses.Field[Any]") -> bool:
    if not field.init or field.metadata or getattr(field, "doc", None) or field.name.startswith("_"):
        return False
    return field.default is dataclasses.MISSING or is_plain_default(field.default)


def _is_required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _description(made: type) -> str:
    """The docstring, unless it is the one that `dataclass` makes of the signature."""
    documentation = made.__doc__ or ""
    return "" if documentation.startswith(f"{made.__name__}(") else clean(documentation)
