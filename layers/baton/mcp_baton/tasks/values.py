"""The values of a task: decoded or fetched when they are read, and measured without reading them."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from mcp_baton.protocol.json import Json, JsonObject, dumps, json_size
from mcp_baton.tasks.ids import TEXT_DIGEST_CHARS, text_digest
from mcp_baton.tasks.record import ITEMS_PREFIX, TaskRecord
from mcp_baton.tasks.variables import TaskVariables

FINAL_RESULT = "_workflow.result"
"""The name of a task's result among its variables. No variable has this name."""


class ValueSize(Struct, frozen=True):
    """The size of a stored value.

    Attributes:
        text_bytes: The length of its JSON text.
        outside: Whether it is stored outside the task's item, so that reading takes a request.
        large: Whether it is stored outside for its own size.
    """

    text_bytes: int
    outside: bool
    large: bool = False


class StoredList(Struct, frozen=True):
    """The stored results of a list's elements.

    Attributes:
        done: The indexes of the elements with a result.
        digest: The digest of the elements that they belong to (`elements_digest`).
        read: Reads the results in order; `None` for an element without one. Raises `StoreError`.
    """

    total: int
    done: frozenset[int]
    digest: str
    read: Callable[[], list[Json]]


class StoredValues(Mapping[str, Json]):
    """Stored values by name. The store can measure them, and return their texts, without decoding."""

    __slots__ = ()

    @abstractmethod
    def weight(self, name: str) -> ValueSize: ...

    @abstractmethod
    def holds(self, name: str, text: bytes) -> bool | None:
        """Whether a value has this JSON text, by its stored length and digest; `None` if only reading it can tell."""

    @abstractmethod
    def stored_list(self, name: str) -> StoredList | None:
        """The list whose results a variable has; `None` if it is another variable or does not exist."""

    @abstractmethod
    def text(self, name: str) -> str:
        """A value's JSON text. Raises `StoreError`."""

    @abstractmethod
    def read_ahead(self, names: Iterable[str]) -> None:
        """Fetch several values at once that are about to be read. Errors are raised when they are read."""


def list_in(variables: JsonObject, step: str) -> StoredList | None:
    """The stored results of a step's unfinished list; `None` if there are none."""
    values = variables.stored if isinstance(variables, TaskVariables) else variables
    return values.stored_list(f"{ITEMS_PREFIX}{step}") if isinstance(values, StoredValues) else None


def elements_digest(elements: Json) -> str:
    """A short digest of a list's elements."""
    return text_digest(dumps(elements))[:TEXT_DIGEST_CHARS]


def read_ahead(values: JsonObject, names: Iterable[str]) -> None:
    """Fetch several values at once that are about to be read, if they have to be fetched."""
    if isinstance(values, StoredValues):
        values.read_ahead(names)


def weight_of(task: TaskRecord, name: str) -> ValueSize | None:
    """The size and place of a task's variable, or of its `FINAL_RESULT`; `None` if it does not exist."""
    values, key = _values_and_key(task, name)
    if key not in values:
        return None
    if isinstance(values, StoredValues):
        return values.weight(key)
    return ValueSize(json_size(values[key]), outside=False)


def outside_bytes(task: TaskRecord, name: str) -> int:
    """The JSON bytes of a variable that is stored outside the task's item; 0 for any other name."""
    values = task.variables
    try:
        weight = values.weight(name) if isinstance(values, StoredValues) else None
    except KeyError:
        return 0
    return weight.text_bytes if weight is not None and weight.outside else 0


def holds(task: TaskRecord, name: str, text: bytes) -> bool | None:
    """Whether a task's variable has this JSON text; `None` if only reading it can tell."""
    values = task.variables
    return values.holds(name, text) if isinstance(values, StoredValues) and name in values else None


def text_of(task: TaskRecord, name: str) -> str:
    """The JSON text of a task's variable, or of its `FINAL_RESULT`. Raises `KeyError` or `StoreError`."""
    values, key = _values_and_key(task, name)
    return values.text(key) if isinstance(values, StoredValues) else dumps(values[key])


def _values_and_key(task: TaskRecord, name: str) -> tuple[JsonObject, str]:
    return (task.large_values, "result") if name == FINAL_RESULT else (task.variables, name)
