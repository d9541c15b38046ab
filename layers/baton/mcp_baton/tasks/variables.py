"""Task variables for tools: a mapping that collects changes for the next write."""

from collections.abc import Iterator, Mapping, MutableMapping

from mcp_baton.exceptions import Abandoned
from mcp_baton.protocol.json import MAX_LEVELS, Json, dumps, loads, text_is_deeper_than
from mcp_baton.tasks.record import ENGINE_PREFIX

MAX_VARIABLES_CHANGED = 50
"""The most variables that may change in one run or call. They fit into one `UpdateExpression` with the steps."""

MAX_NAME_CHARS = 255
"""The longest name of a variable. Names stay in the task's item: with long ones it could not be written."""

MCP_PREFIX = "io.modelcontextprotocol/"
"""`tasks/get` shows variables in `_meta`, where MCP reserves such names (MCP basic, `_meta`)."""


class TaskVariables(MutableMapping[str, Json]):
    """The bound task's variables. Assign to change one; changes are written with the step's result, or not at all.

    A value that was read is a snapshot: assign it again to store a change made inside it. Names that begin with
    `_workflow.` belong to the engine and can only be read (docs/workflows.md).
    """

    def __init__(self, variables: Mapping[str, Json], names: set[str] | None = None) -> None:
        self._variables = variables
        self._names: set[str] = set() if names is None else names
        # As texts, so that a tool cannot change a value after it has set it.
        self._changed: dict[str, str] = {}
        self._removed: set[str] = set()
        self._closed = False

    @property
    def stored(self) -> Mapping[str, Json]:
        """The stored variables."""
        return self._variables.stored if isinstance(self._variables, TaskVariables) else self._variables

    @property
    def changed(self) -> dict[str, Json]:
        return {name: loads(text) for name, text in self._changed.items()}

    @property
    def removed(self) -> frozenset[str]:
        """The names of stored variables that were removed."""
        return frozenset(self._removed)

    def __getitem__(self, name: str) -> Json:
        if name in self._changed:
            return loads(self._changed[name])
        if name in self._removed:
            raise KeyError(name)
        return self._variables[name]

    def __setitem__(self, name: str, value: Json) -> None:
        self._check_change(name)
        self._changed[name] = _text(name, value)
        self._removed.discard(name)

    def __delitem__(self, name: str) -> None:
        self._check_change(name)
        if name not in self:
            raise KeyError(name)
        self.forget(name)

    def note(self, name: str, value: Json) -> None:
        """Set a variable of the engine. A tool cannot."""
        self._changed[name] = dumps(value)
        self._removed.discard(name)

    def forget(self, name: str) -> None:
        """Remove a variable, also one of the engine."""
        self._changed.pop(name, None)
        if name in self._variables:
            self._removed.add(name)

    def branch(self) -> "TaskVariables":
        """The same variables for a call in another thread. `merge` adds its changes when the call has ended.
        Branches share the limit on changes."""
        self._names |= self._changed.keys() | self._removed
        return TaskVariables(self, self._names)

    def merge(self, branch: "TaskVariables") -> None:
        """Add the changes of a branch."""
        for name in branch.removed:
            self.forget(name)
        for name, value in branch.changed.items():
            self.note(name, value)

    def close(self) -> None:
        """Refuse further changes: the tool was abandoned, and its changes are being written."""
        self._closed = True

    def __contains__(self, name: object) -> bool:
        # Without reading the value, which may have to be fetched.
        return name in self._changed or (name in self._variables and name not in self._removed)

    def __iter__(self) -> Iterator[str]:
        yield from (name for name in self._variables if name not in self._changed and name not in self._removed)
        yield from list(self._changed)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _check_change(self, name: str) -> None:
        if self._closed:
            raise Abandoned
        if not isinstance(name, str) or not name:
            raise ValueError("a task variable's name is a string that is not empty")
        if len(name) > MAX_NAME_CHARS:
            raise ValueError(f"task variable '{name[:40]} …': give it a name of at most {MAX_NAME_CHARS} characters")
        for prefix, owner in ((ENGINE_PREFIX, "the engine"), (MCP_PREFIX, "MCP")):
            if name.startswith(prefix):
                raise ValueError(f"task variable {name!r}: names beginning with {prefix!r} belong to {owner}")
        changes = self._changed.keys() | self._removed | self._names
        if name not in changes and len(changes) >= MAX_VARIABLES_CHANGED:
            raise ValueError(f"task variable {name!r}: at most {MAX_VARIABLES_CHANGED} variables can change at once")
        self._names.add(name)


def _text(name: str, value: Json) -> str:
    try:
        text = dumps(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"task variable {name!r}: its value is not JSON: {error}") from error
    if text_is_deeper_than(text, MAX_LEVELS, lambda: loads(text)):
        raise ValueError(f"task variable {name!r}: its value is nested deeper than {MAX_LEVELS} levels")
    return text
