"""The values in a task's item: decoded when they are read, and measured as DynamoDB does (docs/storage.md, Sizes)."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, cast

from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.attributes import IN_BUCKET, IN_ITEMS, Attribute, decode, text_bytes
from mcp_baton.tasks.texts import from_text
from mcp_baton.tasks.values import StoredValues, Weight

if TYPE_CHECKING:
    from mcp_baton.tasks.dynamodb.fetching import Fetcher
    from mcp_baton.tasks.dynamodb.overflow import OverflowStore

COLLECTION_BYTES: Final = 3
ELEMENT_BYTES: Final = 1

LARGE_BYTES: Final = 4_096
"""A value of more stored bytes leaves the task's item: every later write of the task would be charged for it."""


class Variables(StoredValues):
    """Stored task variables. A value is decoded each time that it is read.

    So a continuation, which reads only progress and pause reason, does not decode 400 KB of results.

    Args:
        stored: The attributes, by stored name.
        fetcher: Returns the reader of values outside the item; `None` if there are none.
    """

    __slots__ = ("_fetcher", "_stored")

    def __init__(self, stored: Mapping[str, Attribute], fetcher: "Callable[[], Fetcher] | None" = None) -> None:
        # Few names are quoted, but a task may have thousands of names.
        quoted = any(map(str.startswith, stored, repeat('"')))
        self._stored = {from_text(name): each for name, each in stored.items()} if quoted else stored
        self._fetcher = fetcher or _Once(None, "", "")

    def __getitem__(self, name: str) -> Json:
        """The variable's value, exactly as it was stored.

        Raises:
            StoreError: it cannot be read.
        """
        attribute = self._stored[name]
        return self._fetcher().value(attribute) if _is_outside(attribute) else decode(attribute)

    def weight(self, name: str) -> Weight:
        """The size and place of a value, without reading it."""
        attribute = self._stored[name]
        if not _is_outside(attribute):
            return Weight(text_bytes(attribute), outside=False)
        from mcp_baton.tasks.dynamodb.fetching import weight

        return weight(attribute)

    def holds(self, name: str, text: bytes) -> bool | None:
        """Whether a value has this JSON text; `None` if only reading it can tell."""
        attribute = self._stored[name]
        if not _is_outside(attribute):
            return None
        from mcp_baton.tasks.dynamodb.fetching import holds

        return holds(attribute, text)

    def text(self, name: str) -> Iterator[str]:
        """A value's JSON text, in pieces.

        Raises:
            StoreError: it cannot be read. Discard the pieces before.
        """
        from mcp_baton.tasks.dynamodb.fetching import text_pieces

        attribute = self._stored[name]
        return self._fetcher().text(attribute) if _is_outside(attribute) else text_pieces(attribute)

    def read_ahead(self, names: Iterable[str]) -> None:
        """Fetch several values at once that are about to be read."""
        outside = [self._stored[name] for name in names if name in self._stored and _is_outside(self._stored[name])]
        if outside:
            self._fetcher().read_ahead(outside)

    def __iter__(self) -> Iterator[str]:
        """The variables' names."""
        return iter(self._stored)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._stored)

    def __contains__(self, name: object) -> bool:
        """Whether there is such a variable, without decoding it."""
        return name in self._stored

    def __repr__(self) -> str:
        # As stored: printing fetches and decompresses nothing.
        return f"Variables({self._stored!r})"


def values_of(
    variables: Mapping[str, Attribute],
    kept: Mapping[str, Attribute],
    outside: "Callable[[], OverflowStore] | None",
    owner: str,
    task_id: str,
) -> tuple[Variables, Variables]:
    """A task's variables, and its other values that may be large. Both share what they fetch.

    Args:
        variables: The attributes of the variables, by stored name.
        kept: The other attributes.
        outside: Returns the places for values outside the item; `None` if nothing is fetched.
        owner: The task's owner.
        task_id: The task.
    """
    fetcher = _Once(outside, owner, task_id)
    return Variables(variables, fetcher), Variables(kept, fetcher)


class _Once:
    """Creates a task's fetcher when it is first needed. Most tasks have no values outside."""

    __slots__ = ("_made", "_of")

    def __init__(self, outside: "Callable[[], OverflowStore] | None", owner: str, task_id: str) -> None:
        self._of = outside, owner, task_id
        self._made: Fetcher | None = None

    def __call__(self) -> "Fetcher":
        if self._made is None:
            from mcp_baton.tasks.dynamodb.fetching import Fetcher

            outside, owner, task_id = self._of
            self._made = Fetcher(outside and outside(), owner, task_id)
        return self._made


def _is_outside(attribute: Attribute) -> bool:
    """Whether an attribute is a pointer to a value outside."""
    return attribute.get("S", "")[:1] in (IN_ITEMS, IN_BUCKET)


def is_large(value: Attribute) -> bool:
    """Whether a value has to leave the task's item."""
    return size(value) > LARGE_BYTES


def item_size(item: Mapping[str, Attribute]) -> int:
    """The bytes that DynamoDB counts for an item: its names and its values."""
    total = 0
    for name, attribute in item.items():
        total += (len(name) if name.isascii() else len(name.encode())) + size(attribute)
    return total


def excess(item: Mapping[str, Attribute], limit: int) -> int:
    """By how many bytes an item exceeds a limit. If it clearly does not, any number up to 0.

    Computing the exact size takes longer than everything else in a write.
    """
    over = at_most(item) - limit
    return over if over <= 0 else item_size(item) - limit


def at_most(*attributes: Mapping[str, Attribute]) -> int:
    """An upper bound of the bytes that DynamoDB counts: the attributes as JSON, which is fast and longer."""
    return len(_as_json(attributes))


_as_json = json.JSONEncoder(separators=(",", ":"), default=bytes.hex).encode


def size(attribute: Attribute) -> int:
    """The bytes that DynamoDB counts for one attribute value."""
    # Called for thousands of values in a write. Comparing names is several times as fast as matching patterns.
    [(kind, value)] = cast("Iterable[tuple[str, Any]]", attribute.items())
    if kind == "S":
        return len(value) if value.isascii() else len(value.encode())
    if kind == "M":
        return COLLECTION_BYTES + ELEMENT_BYTES * len(value) + item_size(value)
    if kind == "L":
        total = COLLECTION_BYTES + ELEMENT_BYTES * len(value)
        for element in value:
            total += size(element)
        return total
    if kind == "B":
        return len(value)
    if kind == "N":
        return _number_size(value)
    if kind == "SS":
        return sum(map(_utf8_bytes, value))  # a set has no overhead, unlike a map or a list
    if kind == "BS":
        return sum(map(len, value))
    return 1


def _utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _number_size(number: str) -> int:
    """An upper bound: DynamoDB counts a byte per two digits, one more, and one for a sign, but no trailing zeros."""
    return 1 + (len(number.lstrip("-")) + 1) // 2 + number.startswith("-")
