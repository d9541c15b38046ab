"""Schemas, validation and serialization of plain types, with the results of pydantic but without importing it.

Importing pydantic takes most of the time of a first request, and most tools have only plain types. msgspec converts
numbers, and texts of numbers and booleans, where it does so as pydantic does. This module rejects no values: pydantic
converts all others, or explains the error.
"""

import dataclasses
import inspect
import math
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NoReturn, Protocol

import msgspec

from mcp_baton.protocol.json import Json
from mcp_baton.tools.schema.signature import Parameter
from mcp_baton.tools.templates import copy_json


class NotPlain(Exception):
    """The type or the value needs pydantic."""


class Definitions:
    """The schemas of dataclasses, to which a schema refers by name. If `closed`, they allow no unknown members."""

    def __init__(self, *, closed: bool = False) -> None:
        self.closed = closed
        self.schemas: dict[str, dict[str, Any]] = {}
        self._types: dict[str, type] = {}

    def define(self, kind: type, schema: dict[str, Any]) -> dict[str, Any]:
        """Add the schema of a type. Returns a reference to it."""
        name = kind.__name__
        if self._types.setdefault(name, kind) is not kind:
            raise NotPlain
        self.schemas[name] = schema
        return {"$ref": f"#/$defs/{name}"}

    def add_to(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {"$defs": dict(sorted(self.schemas.items())), **schema} if self.schemas else schema


class PlainType(Protocol):
    """A plain type. Each method raises `NotPlain` for values that pydantic must handle. `bind` copies lists and maps,
    because the tool may change them.

    Attributes:
        takes_null: Whether null is one of the values.
    """

    takes_null: bool = False

    def schema(self, definitions: Definitions) -> dict[str, Any]: ...

    def bind(self, value: Json) -> Any: ...

    def dump(self, value: object) -> Any: ...


class Scalar(PlainType):
    def __init__(self, kind: type, name: str) -> None:
        self._kind = kind
        self._name = name

    def schema(self, _definitions: Definitions) -> dict[str, Any]:
        return {"type": self._name}

    def bind(self, value: Json) -> Any:
        if type(value) is self._kind:
            return value
        # msgspec reads "1e3" as an integer, rounds "0.9999999999999999999" to one, and reads "-0" as false.
        if type(value) is str and ((self._kind is int and not value.lstrip("-").isdigit()) or value == "-0"):
            raise NotPlain
        try:
            converted: Any = msgspec.convert(value, self._kind, strict=False)
        except (msgspec.ValidationError, UnicodeEncodeError) as error:  # half a surrogate pair
            raise NotPlain from error
        return converted if self._kind is not float or math.isfinite(converted) else _raise_not_plain()

    def dump(self, value: object) -> Any:
        return value if type(value) is self._kind else _raise_not_plain()


class Anything(PlainType):
    """`Any`, `dict` or `list`: any JSON, or any of that kind."""

    def __init__(self, schema: dict[str, Any], kind: type = object) -> None:
        self._schema = schema
        self._kind = kind
        self.takes_null = kind is object

    def schema(self, _definitions: Definitions) -> dict[str, Any]:
        return dict(self._schema)

    def bind(self, value: Json) -> Any:
        return copy_json(value) if self._kind in (object, type(value)) else _raise_not_plain()

    def dump(self, value: object) -> Any:
        return value if self._kind in (object, type(value)) else _raise_not_plain()


class Choice(PlainType):
    def __init__(self, choices: tuple[str, ...]) -> None:
        self._choices = choices

    def schema(self, _definitions: Definitions) -> dict[str, Any]:
        constraint = {"const": self._choices[0]} if len(self._choices) == 1 else {"enum": list(self._choices)}
        return {**constraint, "type": "string"}

    def dump(self, value: object) -> Any:
        return value if type(value) is str and value in self._choices else _raise_not_plain()

    bind = dump


class Nullable(PlainType):
    takes_null = True

    def __init__(self, inner: PlainType) -> None:
        self._inner = inner

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return {"anyOf": [self._inner.schema(definitions), {"type": "null"}]}

    def bind(self, value: Json) -> Any:
        return None if value is None else self._inner.bind(value)

    def dump(self, value: object) -> Any:
        return None if value is None else self._inner.dump(value)


class ListOf(PlainType):
    def __init__(self, item: PlainType) -> None:
        self._item = item

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return {"items": self._item.schema(definitions), "type": "array"}

    def bind(self, value: Json) -> Any:
        return [self._item.bind(item) for item in value] if type(value) is list else _raise_not_plain()

    def dump(self, value: object) -> Any:
        return [self._item.dump(item) for item in value] if type(value) is list else _raise_not_plain()


class MapOf(PlainType):
    def __init__(self, item: PlainType) -> None:
        self._item = item

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return {"additionalProperties": self._item.schema(definitions) or True, "type": "object"}

    def bind(self, value: Json) -> Any:
        return {key: self._item.bind(item) for key, item in _items(value)}

    def dump(self, value: object) -> Any:
        return {key: self._item.dump(item) for key, item in _items(value)}


def _items(value: object) -> Any:
    return value.items() if type(value) is dict and all(type(key) is str for key in value) else _raise_not_plain()


def _raise_not_plain() -> NoReturn:
    raise NotPlain


def is_plain_default(default: object) -> bool:
    if type(default) is float:
        return math.isfinite(default)
    return default is None or type(default) in (str, int, bool)


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
    try:
        return _read(annotation, frozenset())
    except NotPlain:
        return None


def _read(annotation: object, outer_types: frozenset[type]) -> PlainType:
    """Return the plain type of an annotation. `outer_types` are the dataclasses around it: recursive types need
    pydantic."""
    for bare_type, plain in BARE_TYPES:
        if annotation is bare_type:
            return plain
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is None and isinstance(annotation, type) and annotation not in outer_types:
        if "__dataclass_fields__" not in vars(annotation):
            raise NotPlain
        fields, outer_types = field_types(annotation), outer_types | {annotation}
        return PlainDataclass(annotation, {name: _read(field, outer_types) for name, field in fields.items()})
    if origin is Literal and all(type(part) is str for part in parts):
        return Choice(parts)
    if origin is list:
        return ListOf(_read(parts[0], outer_types))
    if origin is dict and parts[0] is str:
        return MapOf(_read(parts[1], outer_types))
    if origin in (typing.Union, types.UnionType) and len(parts) == 2 and types.NoneType in parts and Any not in parts:
        return Nullable(_read(parts[0] if parts[1] is types.NoneType else parts[1], outer_types))
    raise NotPlain


def bind_given(
    types_by_name: Mapping[str, PlainType], required: frozenset[str], values: Mapping[str, Json]
) -> dict[str, Any]:
    """Convert the values, without those that are null for an optional field that does not accept null."""
    return {
        name: types_by_name[name].bind(value)
        for name, value in values.items()
        if value is not None or name in required or types_by_name[name].takes_null
    }


def plain_parameters(parameters: Sequence[Parameter]) -> dict[str, PlainType] | None:
    plain_types: dict[str, PlainType] = {}
    for parameter in parameters:
        plain = plain_type(parameter.value_type)
        if plain is None:
            return None
        plain_types[parameter.name] = plain
    return plain_types


def plain_arguments_schema(parameters: Sequence[Parameter], plain: Mapping[str, PlainType]) -> dict[str, Any] | None:
    """Return the schema of arguments; `None` if only pydantic can create it."""
    if not all(parameter.required or is_plain_default(parameter.default) for parameter in parameters):
        return None
    definitions = Definitions(closed=True)
    try:
        properties = {item.name: _property(item, plain[item.name], definitions) for item in parameters}
    except NotPlain:
        return None
    required = [parameter.name for parameter in parameters if parameter.required]
    schema: dict[str, Any] = {"additionalProperties": False, "properties": properties}
    return definitions.add_to(schema | ({"required": required} if required else {}) | {"type": "object"})


def _property(parameter: Parameter, plain: PlainType, definitions: Definitions) -> dict[str, Any]:
    default = {} if parameter.required else {"default": parameter.default}
    text = {} if parameter.text is None else {"description": parameter.text}
    return dict(sorted({**plain.schema(definitions), **default, **text}.items()))


def plain_value_schema(plain: PlainType) -> dict[str, Any] | None:
    definitions = Definitions()
    try:
        # The root is the schema of the dataclass itself, not a reference to it.
        schema: dict[str, Any] = getattr(plain, "object_schema", plain.schema)(definitions)
    except NotPlain:
        return None
    return definitions.add_to(schema)


_HOOKS = frozenset(
    {"__new__", "__post_init__", "__deprecated__", "__get_pydantic_core_schema__", "__get_pydantic_json_schema__"}
)
"""Attributes of classes that need pydantic, because they do more than hold their fields."""


class PlainDataclass(PlainType):
    def __init__(self, kind: type, members: Mapping[str, PlainType]) -> None:
        self._kind = kind
        self._members = members
        self._fields: dict[str, dataclasses.Field[Any]] = {field.name: field for field in dataclasses.fields(kind)}
        self._required = frozenset(
            name
            for name, field in self._fields.items()
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        )

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return definitions.define(self._kind, self.object_schema(definitions))

    def object_schema(self, definitions: Definitions) -> dict[str, Any]:
        # Use the docstring, unless `dataclass` created it from the signature.
        documentation = self._kind.__doc__ or ""
        description = "" if documentation.startswith(f"{self._kind.__name__}(") else inspect.cleandoc(documentation)
        properties: dict[str, Any] = {}
        for name, member in self._members.items():
            default = self._fields[name].default
            default_member = {} if default is dataclasses.MISSING else {"default": default}
            properties[name] = dict(sorted({**member.schema(definitions), **default_member}.items()))
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
        return self._kind(**bind_given(self._members, self._required, value))

    def dump(self, value: object) -> Any:
        if type(value) is not self._kind:
            raise NotPlain
        # `self` replaces a deleted attribute. It has no plain type, so pydantic handles the value.
        return {name: member.dump(getattr(value, name, self)) for name, member in self._members.items()}


def field_types(annotation: type) -> dict[str, Any]:
    if not _is_plain_dataclass(annotation):
        raise NotPlain
    try:
        hints = typing.get_type_hints(annotation, include_extras=True)
    except (NameError, TypeError) as error:
        raise NotPlain from error
    return {field.name: hints[field.name] for field in dataclasses.fields(annotation)}


def _is_plain_dataclass(annotation: type) -> bool:
    bases = annotation.__mro__[:-1]
    if not bases or not all("__dataclass_fields__" in vars(base) for base in bases):
        return False
    if any(_is_hook(name, member) for base in bases for name, member in vars(base).items()):
        return False
    attributes = vars(annotation)
    fields: Any = attributes["__dataclass_fields__"]
    if not isinstance(fields, dict):  # a class of Baton
        return False
    # `__dataclass_fields__` also has class variables and `InitVar`s.
    has_others = len(dataclasses.fields(annotation)) != len(fields)
    # If only some are keyword-only, pydantic changes their order.
    is_mixed = len({field.kw_only for field in fields.values()}) > 1
    is_usual = attributes["__dataclass_params__"].init and not (has_others or is_mixed)
    return is_usual and all(_is_plain_field(field) for field in fields.values())


def _is_hook(name: str, member: object) -> bool:
    """Whether an attribute of a class is a hook or concerns pydantic."""
    is_of_pydantic = name.startswith("__pydantic") or type(member).__module__.partition(".")[0] == "pydantic"
    return is_of_pydantic or name in _HOOKS


def _is_plain_field(field: "dataclasses.Field[Any]") -> bool:
    if not field.init or field.metadata or getattr(field, "doc", None) or field.name.startswith("_"):
        return False
    return field.default is dataclasses.MISSING or is_plain_default(field.default)
