"""Comparing a call with others of the same tool (docs/workflows.md, Going on). Pure."""

from collections.abc import Callable, Collection
from functools import cached_property

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.workflow.canonical import canonical_text


class Comparison:
    """A call's arguments, which others are held against.

    Args:
        arguments: The call's, as the client sent them.
        exact: The arguments whose values Baton has put in, exactly as they are stored.
        canonical: Makes arguments comparable: as the tool takes them, without those that equal their defaults. Only
            used where they differ as they are.
    """

    def __init__(
        self, arguments: JsonObject, canonical: Callable[[JsonObject], JsonObject], exact: Collection[str] = ()
    ) -> None:
        self.arguments = arguments
        self.exact = exact
        self._canonical = canonical

    def changed_by(self, values: JsonObject) -> frozenset[str]:
        """The names of the arguments that would be others if the call had these values in the place of its own."""
        others = {name: value for name, value in values.items() if not self._has(name, value)}
        return self._unlike({**self.arguments, **others}) if others else frozenset()

    def equals(self, other: JsonObject) -> bool:
        """Whether a call with these arguments means the same."""
        if other.keys() == self.arguments.keys() and all(self._has(name, value) for name, value in other.items()):
            return True
        return not self._unlike(other)

    def _has(self, name: str, value: Json) -> bool:
        return name in self.arguments and _alike(self.arguments[name], value)

    def _unlike(self, other: JsonObject) -> frozenset[str]:
        mine, others = self._own, self._canonical(other)
        return frozenset(
            name
            for name in mine.keys() | others.keys()
            if name not in mine or name not in others or not _alike(mine[name], others[name])
        )

    @cached_property
    def _own(self) -> JsonObject:
        return self._canonical(self.arguments)


def _alike(one: Json, other: Json) -> bool:
    # Not so of a boolean and a number, which are equal in Python.
    if type(one) is type(other) and isinstance(one, str | int):
        return one == other
    return canonical_text(one) == canonical_text(other)
