"""The values of a task's item: decoded when they are read, and weighed without being read, as DynamoDB counts it
(docs/storage.md, Sizes)."""

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
    """Task variables as they are stored: a value is decoded when it is asked for, each time anew.

    A continuation reads the progress and the pause reason of a task that may hold 400 KB of results, and many more
    elsewhere.

    Args:
        stored: The attributes, by stored name.
        fetcher: Gives what reads those that are elsewhere; `None` where all of them are at hand.
    """

    __slots__ = ("_fetcher", "_stored")

    def __init__(self, stored: Mapping[str, Attribute], fetcher: "Callable[[], Fetcher] | None" = None) -> None:
        # Few names are quoted, and a task may have thousands.
        quoted = any(map(str.startswith, stored, repeat('"')))
        self._stored = {from_text(name): each for name, each in stored.items()} if quoted else stored
        self._fetcher = fetcher or _Once(None, "", "")

    def __getitem__(self, name: str) -> Json:
        """The variable's value, exactly as it was stored.

        Raises:
            StoreError: it cannot be had.
        """
        attribute = self._stored[name]
        return self._fetcher().value(attribute) if _is_elsewhere(attribute) else decode(attribute)

    def weight(self, name: str) -> Weight:
        """What a value weighs, without reading it."""
        attribute = self._stored[name]
        if not _is_elsewhere(attribute):
            return Weight(text_bytes(attribute), outside=False)
        from mcp_baton.tasks.dynamodb.fetching import weight

        return weight(attribute)

    def holds(self, name: str, text: bytes) -> bool | None:
        """Whether a value's JSON text is this one; `None` where only reading the value can tell."""
        attribute = self._stored[name]
        if not _is_elsewhere(attribute):
            return None
        from mcp_baton.tasks.dynamodb.fetching import holds

        return holds(attribute, text)

    def text(self, name: str) -> Iterator[str]:
        """A value's JSON text, in pieces.

        Raises:
            StoreError: it cannot be had; what came before is then worth nothing.
        """
        from mcp_baton.tasks.dynamodb.fetching import text_pieces

        attribute = self._stored[name]
        return self._fetcher().text(attribute) if _is_elsewhere(attribute) else text_pieces(attribute)

    def read_ahead(self, names: Iterable[str]) -> None:
        """Fetch several values at once, which are asked for afterwards."""
        elsewhere = [self._stored[name] for name in names if name in self._stored and _is_elsewhere(self._stored[name])]
        if elsewhere:
            self._fetcher().read_ahead(elsewhere)

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
        # As they are stored: nothing is fetched or unzipped to be printed.
        return f"Variables({self._stored!r})"


def values_of(
    variables: Mapping[str, Attribute],
    kept: Mapping[str, Attribute],
    outside: "Callable[[], OverflowStore] | None",
    owner: str,
    task_id: str,
) -> tuple[Variables, Variables]:
    """A task's variables, and what else of it may be large. What is fetched for both of them is kept once.

    Args:
        variables: The variables' attributes, by stored name.
        kept: The other attributes.
        outside: Gives where values outside the head are; `None` where nothing is fetched.
        owner: The task's owner.
        task_id: The task.
    """
    fetcher = _Once(outside, owner, task_id)
    return Variables(variables, fetcher), Variables(kept, fetcher)


class _Once:
    """Makes a task's fetcher when it is first needed: most tasks have nothing outside their heads."""

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


def _is_elsewhere(attribute: Attribute) -> bool:
    """Whether a value is not in the attribute, but a pointer to it."""
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
    # Asked of each of thousands of values in a write: comparing names is several times as fast as matching patterns.
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
    """At most: DynamoDB counts a byte for two significant digits, one more, one for a sign, and no trailing zeros."""
    return 1 + (len(number.lstrip("-")) + 1) // 2 + number.startswith("-")
