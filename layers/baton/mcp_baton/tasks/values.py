"""The values of a task as a store keeps them: decoded when they are read, and weighed without being read."""

from collections.abc import Iterator, Mapping

from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.tasks.attributes import Attribute, from_text
from mcp_baton.tasks.moving import Fetcher, weight
from mcp_baton.tasks.record import TaskRecord, Weight

FINAL_RESULT = "_workflow.result"
"""What a task's result is called beside its variables; no variable has this name, since those are the engine's."""


class Variables(Mapping[str, Json]):
    """Task variables as they are stored: a value is decoded when it is asked for, each time anew.

    A continuation reads the progress and the pause reason of a task that may hold 400 KB of results, and many more
    elsewhere.

    Args:
        stored: The attributes, by stored name.
        fetcher: Reads them; `None` where all of them are at hand.
    """

    __slots__ = ("_fetcher", "_stored")

    def __init__(self, stored: Mapping[str, Attribute], fetcher: Fetcher | None = None) -> None:
        self._stored = {from_text(name): attribute for name, attribute in stored.items()}
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


def weight_of(task: TaskRecord, name: str) -> Weight | None:
    """What a task's variable, or its `FINAL_RESULT`, weighs; `None` where there is none of this name."""
    values, key = _place(task, name)
    if key not in values:
        return None
    if isinstance(values, Variables):
        return values.weight(key)
    return Weight(len(dumps(values[key]).encode()), outside=False)


def text_of(task: TaskRecord, name: str) -> Iterator[str]:
    """The JSON text of a task's variable, or of its `FINAL_RESULT`, in pieces.

    Raises:
        KeyError: there is none of this name.
        StoreError: it cannot be had; what came before is then worth nothing.
    """
    values, key = _place(task, name)
    return values.text(key) if isinstance(values, Variables) else iter((dumps(values[key]),))


def _place(task: TaskRecord, name: str) -> tuple[JsonObject, str]:
    return (task.kept, "result") if name == FINAL_RESULT else (task.variables, name)
