"""What the engine needs of the server that it runs in, and what it gets from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.workflow.pause import InvalidField


@dataclass(frozen=True, slots=True)
class Succeeded:
    """A tool's value, as JSON; `None` for a step that only fetched resources.

    Attributes:
        shown: The MCP result that presents the value, where the tool has said it in full.
    """

    value: Json
    shown: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The tool reported an error, raised, or timed out.

    Attributes:
        by_itself: It wanted to ask the client, which it can where it is called by itself.
    """

    error: str
    by_itself: bool = False


type Outcome = Succeeded | Failed


@dataclass(frozen=True, slots=True)
class Mismatch:
    """How arguments fail to satisfy a tool's input schema."""

    missing: tuple[str, ...] = ()
    invalid: tuple[InvalidField, ...] = ()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call whose arguments satisfy the function's input schema.

    Attributes:
        name: The function's name: a tool's, for a step.
        arguments: The arguments, as JSON.
        bound: The same as keyword arguments, converted to their types.
    """

    name: str
    arguments: JsonObject
    bound: dict[str, Any]


@dataclass(frozen=True, slots=True)
class FetchedResource:
    """One content of a resource: text, or base64 of its bytes."""

    uri: str
    mime_type: str | None
    text: str | None = None
    blob: str | None = None


class ResourceUnavailable(Exception):
    """A resource could not be fetched; says why in words for the client."""


class Host(Protocol):
    """What the engine needs of the server that it runs in: its tools, its resources, its clock and the client's ear."""

    def required(self, tool: str) -> frozenset[str]:
        """The names of the arguments that a tool cannot do without."""

    def describe(self, tool: str) -> str:
        """What a tool does, in one line."""

    def prepare(self, tool: str, arguments: JsonObject) -> Prepared | Mismatch:
        """Validate the arguments against the tool's whole input schema: the only time that this is done for a step."""

    def run(self, prepared: Prepared, variables: TaskVariables | None) -> Outcome:
        """Run a tool; abandon it when only the write reserve of the function's time is left."""

    def read(self, uri: str) -> Sequence[FetchedResource]:
        """Fetch a resource.

        Raises:
            ResourceUnavailable: there is no such resource, or reading it failed.
        """

    def announce(self, begun: int, total: int, step: str, task_id: str | None) -> None:
        """Tell the client that the step with this number is about to run, and, the first time, in which task."""

    def may_start(self) -> bool:
        """Whether enough of the function's time is left to start a step."""

    def words(self, name: str, error: Exception) -> str:
        """An exception in words for the client. `name` is that of the tool or step that it ended."""
