"""Task variables as a tool sees them: a mapping whose changes are collected for the one write that follows."""

from collections.abc import Iterator, Mapping, MutableMapping

from mcp_baton.protocol.json import Json, dumps
from mcp_baton.tasks.record import ENGINE_PREFIX

MAX_VARIABLES = 50
"""Variables that may change in one run or call: what one `UpdateExpression` of 4 KB surely holds beside the steps."""


class TaskVariables(MutableMapping[str, Json]):
    """The bound task's variables. Assign to change one; changes are written with the step's result, or not at all.

    A value that was read is a snapshot: assign it again to store a change made inside it. Names that begin with
    `_workflow.` belong to the engine and can only be read (contract section 1).
    """

    def __init__(self, stored: Mapping[str, Json]) -> None:
        self._stored = stored
        self._changed: dict[str, Json] = {}
        self._removed: set[str] = set()

    @property
    def changed(self) -> dict[str, Json]:
        """The variables that were set, and their values."""
        return dict(self._changed)

    @property
    def removed(self) -> frozenset[str]:
        """The names of stored variables that were removed."""
        return frozenset(self._removed)

    def __getitem__(self, name: str) -> Json:
        if name in self._changed:
            return self._changed[name]
        if name in self._removed:
            raise KeyError(name)
        return self._stored[name]

    def __setitem__(self, name: str, value: Json) -> None:
        """Set a variable.

        Raises:
            ValueError: the name is the engine's or empty, the value is not JSON, or too many variables have changed.
        """
        self._check_name(name)
        try:
            dumps(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"task variable {name!r}: its value is not JSON: {error}") from error
        if name not in self._changed and len(self._changed) + len(self._removed) >= MAX_VARIABLES:
            raise ValueError(f"task variable {name!r}: at most {MAX_VARIABLES} variables can change at once")
        self._changed[name] = value
        self._removed.discard(name)

    def __delitem__(self, name: str) -> None:
        self._check_name(name)
        self[name]
        self._changed.pop(name, None)
        if name in self._stored:
            self._removed.add(name)

    def __iter__(self) -> Iterator[str]:
        yield from (name for name in self._stored if name not in self._changed and name not in self._removed)
        yield from list(self._changed)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _check_name(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError("a task variable's name is a string that is not empty")
        if name.startswith(ENGINE_PREFIX):
            raise ValueError(f"task variable {name!r}: names beginning with {ENGINE_PREFIX!r} belong to the engine")
