"""Dataclasses as plain types: those of the standard library that are nothing but their fields."""

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any

from mcp_baton.protocol.json import Json
from mcp_baton.server.schema.functions import clean
from mcp_baton.server.schema.plain_types import Definitions, NotPlain, PlainType, is_plain_default

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
