"""The values of a task's item: decoded when they are read, and weighed without being read."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat

from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.attributes import Attribute
from mcp_baton.tasks.dynamodb.fetching import Fetcher, weight
from mcp_baton.tasks.record import Weight
from mcp_baton.tasks.texts import from_text
from mcp_baton.tasks.values import StoredValues


class Variables(StoredValues):
    """Task variables as they are stored: a value is decoded when it is asked for, each time anew.

    A continuation reads the progress and the pause reason of a task that may hold 400 KB of results, and many more
    elsewhere.

    Args:
        stored: The attributes, by stored name.
        fetcher: Reads them; `None` where all of them are at hand.
    """

    __slots__ = ("_fetcher", "_stored")

    def __init__(self, stored: Mapping[str, Attribute], fetcher: Fetcher | None = None) -> None:
        # Few names are quoted, and a task may have thousands.
        quoted = any(map(str.startswith, stored, repeat('"')))
        self._stored = {from_text(name): each for name, each in stored.items()} if quoted else stored
        self._fetcher = fetcher or Fetcher(None, "", "")

    def __getitem__(self, name: str) -> Json:
        """The variable's value, exactly as it was stored.

        Raises:
            StoreError: it cannot be had.
        """
        return self._fetcher.value(self._stored[name])

    def weight(self, name: str) -> Weight:
        """What a value weighs, without reading it."""
        return weight(self._stored[name])

    def text(self, name: str) -> Iterator[str]:
        """A value's JSON text, in pieces.

        Raises:
            StoreError: it cannot be had; what came before is then worth nothing.
        """
        return self._fetcher.text(self._stored[name])

    def read_ahead(self, names: Iterable[str]) -> None:
        """Fetch several values at once, which are asked for afterwards."""
        self._fetcher.read_ahead(self._stored[name] for name in names if name in self._stored)

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
