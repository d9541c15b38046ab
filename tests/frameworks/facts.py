"""What an input schema tells a model, in a form that does not depend on how the schema says it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.frameworks.model_api import JsonDict

type Place = tuple[str, ...]
"""The names of properties. The elements of a list are `[]`, and the other members of an object `{}`."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What a schema says about one value.

    Attributes:
        types: Without null.
        choices: The values of an enumeration.
        default: `None` if there is none, or null.
        is_required: Whether the object is invalid without it.
        accepts_null: Whether null is valid.
    """

    types: frozenset[str] = frozenset()
    choices: frozenset[str] = frozenset()
    default: Any = None
    is_required: bool = False
    accepts_null: bool = False
    description: str = ""


@dataclass
class Reader:
    """Reads a schema, with its references."""

    root: JsonDict
    facts: dict[Place, Fact] = field(default_factory=dict)
    _open: tuple[str, ...] = ()

    def read(self) -> dict[Place, Fact]:
        self._members(self.root, ())
        return self.facts

    def _members(self, node: JsonDict, place: Place) -> None:
        required = node.get("required") or ()
        for name, part in (node.get("properties") or {}).items():
            self._value(part, (*place, name), is_required=name in required)
        for name, part in (("[]", node.get("items")), ("{}", node.get("additionalProperties"))):
            if isinstance(part, dict) and part:
                self._value(part, (*place, name), is_required=False)

    def _value(self, node: JsonDict, place: Place, *, is_required: bool) -> None:
        options = list(self._options(node))
        types = {kind for option in options for kind in types_of(option)}
        choices = {str(value) for option in options for value in option.get("enum") or () if value is not None}
        self.facts[place] = Fact(
            types=frozenset(types - {"null"}),
            choices=frozenset(choices),
            default=next((option["default"] for option in options if option.get("default") is not None), None),
            is_required=is_required,
            accepts_null="null" in types or not types or any(map(is_nullable_for_gemini, options)),
            description=next((option["description"] for option in options if option.get("description")), ""),
        )
        outer, self._open = self._open, (*self._open, *references(node))
        for option in options:
            self._members(option, place)
        self._open = outer

    def _options(self, node: JsonDict) -> Iterator[JsonDict]:
        """Yield a schema and all its alternatives, without references."""
        if "$ref" in node:
            name = str(node["$ref"]).rpartition("/")[2]
            if name in self._open:
                yield {"type": "recursive"}
                return
            yield from self._options({**self.root["$defs"][name], **{key: node[key] for key in node if key != "$ref"}})
            return
        yield {key: value for key, value in node.items() if key not in ("anyOf", "any_of", "oneOf", "allOf")}
        for keyword in ("anyOf", "any_of", "oneOf", "allOf"):
            for option in node.get(keyword) or ():
                yield from self._options(option)


def references(node: JsonDict) -> Iterator[str]:
    """Yield the names of the definitions that a value or one of its alternatives refers to."""
    for part in (node, *node.get("anyOf", ())):
        if "$ref" in part:
            yield str(part["$ref"]).rpartition("/")[2]


def is_nullable_for_gemini(option: JsonDict) -> bool:
    """Whether an API accepts null that writes types in capitals. In JSON Schema, `nullable` means nothing."""
    return bool(option.get("nullable")) and str(option.get("type")).isupper()


def types_of(option: JsonDict) -> set[str]:
    kinds = option.get("type") or ()
    return {kind.lower() for kind in ([kinds] if isinstance(kinds, str) else kinds)}


def facts_of(schema: JsonDict) -> dict[Place, Fact]:
    """Return the facts of every value in an input schema."""
    return Reader(schema).read()
