"""How the call of a function ends, and what is known before it."""

from enum import StrEnum
from typing import Any

from msgspec import Struct

from mcp_baton.exceptions import ToolError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tools.approval import NotApproved


class Succeeded(Struct, frozen=True):
    """A tool's value, as JSON; `None` for a step that only fetched resources.

    Attributes:
        shown: The MCP result, if the tool has returned one itself.
    """

    value: Json
    shown: JsonObject | None = None


class Failure(StrEnum):
    """How a call failed.

    Attributes:
        INVALID: Its arguments or its value do not match its signature.
        TIMED_OUT: It was abandoned. It may still have an effect.
        NOT_STARTED: It was not made, and the same call would not be made either.
        OUT_OF_TIME: It was not made because the time was over. A step of a workflow stays open.
    """

    RAISED = "raised"
    INVALID = "invalid"
    TIMED_OUT = "timed out"
    NOT_STARTED = "not started"
    OUT_OF_TIME = "out of time"


class Failed(Struct, frozen=True, eq=False):  # noqa: PLW1641 - is never hashed
    """The tool reported an error, raised, or timed out.

    Attributes:
        asks_client: The tool asked the client for input. It can do that if the client calls it, but not in a step.
        error_id: Identifies the error in the server's log, if its text is hidden from clients.
        not_approved: The approval that the call needs, if that is why it was not made.
        is_refused: Whether a guard refused the call. Nothing was run, and nothing is recorded.
        refused: The arguments of a step that the tool's input schema refused.
    """

    error: str
    asks_client: bool = False
    kind: Failure = Failure.RAISED
    cause: BaseException | None = None
    error_id: str | None = None
    not_approved: NotApproved | None = None
    is_refused: bool = False
    refused: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        """Whether the client sees the same."""
        return isinstance(other, Failed) and (self.error, self.asks_client) == (other.error, other.asks_client)

    @property
    def was_made(self) -> bool:
        """Whether the tool was called."""
        return self.kind not in (Failure.NOT_STARTED, Failure.OUT_OF_TIME)

    @property
    def is_final(self) -> bool:
        """Whether the tool has said that the same call will fail again."""
        return isinstance(self.cause, ToolError) and not self.cause.retryable


type Outcome = Succeeded | Failed
"""How a call ended."""


MAX_INVALID_FIELDS = 20
"""Invalid fields that are reported: enough to see what is wrong."""


class InvalidField(Struct, frozen=True):
    """A field that does not satisfy the tool's input schema, and why."""

    field: str
    problem: str


class Mismatch(Struct, frozen=True):
    """How arguments fail to satisfy a tool's input schema."""

    missing: tuple[str, ...] = ()
    invalid: tuple[InvalidField, ...] = ()

    @property
    def text(self) -> str:
        missing = [f"{name}: required, but missing" for name in self.missing]
        return "; ".join(missing + [f"{item.field}: {item.problem}" for item in self.invalid])


class Prepared(Struct, frozen=True):
    """A call whose arguments satisfy the function's input schema."""

    name: str
    arguments: JsonObject
    bound: dict[str, Any]


class ResourceUnavailable(Exception):
    """A resource could not be fetched."""

    def __init__(self, reason: str, error_id: str | None = None, kind: Failure = Failure.RAISED) -> None:
        super().__init__(reason)
        self.error_id, self.kind = error_id, kind
