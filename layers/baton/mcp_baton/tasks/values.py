"""The values of a task as a store keeps them: decoded when they are read, and weighed without being read."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.tasks.record import TaskRecord

FINAL_RESULT = "_workflow.result"
"""What a task's result is called beside its variables; no variable has this name, since those are the engine's."""


class Weight(Struct, frozen=True):
    """What it costs to show a stored value.

    Attributes:
        text_bytes: The length of its JSON text, bytes.
        outside: Whether it is kept outside its task's item: reading it takes a request of its own.
    """

    text_bytes: int
    outside: bool


class StoredValues(Mapping[str, Json]):
    """Values by name that a store keeps, and can weigh and hand out in pieces without decoding them."""

    __slots__ = ()

    @abstractmethod
    def weight(self, name: str) -> Weight:
        """What a value weighs, without reading it."""

    @abstractmethod
    def holds(self, name: str, text: bytes) -> bool | None:
        """Whether a value's JSON text is this one, by the length and the digest that are stored with it; `None` where
        only reading the value can tell."""

    @abstractmethod
    def text(self, name: str) -> Iterator[str]:
        """A value's JSON text, in pieces.

        Raises:
            StoreError: it cannot be had; what came before is then worth nothing.
        """

    @abstractmethod
    def read_ahead(self, names: Iterable[str]) -> None:
        """Fetch several values at once that are about to be read. What goes wrong is told when they are."""


def read_ahead(values: JsonObject, names: Iterable[str]) -> None:
    """Fetch several values at once that are about to be read, where they have to be fetched."""
    if isinstance(values, StoredValues):
        values.read_ahead(names)


def weight_of(task: TaskRecord, name: str) -> Weight | None:
    """What a task's variable, or its `FINAL_RESULT`, weighs; `None` where there is none of this name."""
    values, key = _place(task, name)
    if key not in values:
        return None
    if isinstance(values, StoredValues):
        return values.weight(key)
    return Weight(len(dumps(values[key]).encode()), outside=False)


def outside_bytes(task: TaskRecord, name: str) -> int:
    """The JSON bytes of a task's variable that is kept outside the task's item; 0 for any other one, or none."""
    values = task.variables
    try:
        weight = values.weight(name) if isinstance(values, StoredValues) else None
    except KeyError:
        return 0
    return weight.text_bytes if weight is not None and weight.outside else 0


def holds(task: TaskRecord, name: str, text: bytes) -> bool | None:
    """Whether the JSON text of a task's variable is this one; `None` where only reading the variable can tell."""
    values = task.variables
    return values.holds(name, text) if isinstance(values, StoredValues) and name in values else None


def text_of(task: TaskRecord, name: str) -> Iterator[str]:
    """The JSON text of a task's variable, or of its `FINAL_RESULT`, in pieces.

    Raises:
        KeyError: there is none of this name.
        StoreError: it cannot be had; what came before is then worth nothing.
    """
    values, key = _place(task, name)
    return values.text(key) if isinstance(values, StoredValues) else iter((dumps(values[key]),))


def _place(task: TaskRecord, name: str) -> tuple[JsonObject, str]:
    return (task.kept, "result") if name == FINAL_RESULT else (task.variables, name)
