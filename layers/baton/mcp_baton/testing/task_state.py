"""A tool's task as a test reads it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.testing.pause import short
from mcp_baton.testing.results import Result
from mcp_baton.testing.wire import JsonRpcError

TERMINAL = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True, repr=False)
class TaskState:
    """A tool's task, as `tasks/get` tells it.

    Attributes:
        status: `working`, `input_required`, `completed`, `failed` or `cancelled`.
        status_message: What the tool has reported; empty where it has not.
        input_requests: The questions that have no answer yet, by key: `{"method", "params"}`. Up to 2025-11-25 they
            travel otherwise, and this is empty.
        shown: Everything else that was said of it: `createdAt`, `ttlMs`, …
    """

    task_id: str
    status: str
    status_message: str
    input_requests: Mapping[str, JsonObject]
    shown: JsonObject = field(default_factory=dict)
    ended: JsonObject | JsonRpcError | None = field(default=None, repr=False)
    value: Json = field(default=None, repr=False)

    @property
    def over(self) -> bool:
        """Whether nothing changes it any more."""
        return self.status in TERMINAL

    @property
    def result(self) -> Result:
        """What the call would have returned.

        Raises:
            JsonRpcError: the task has failed.
            AttributeError: it was cancelled, or is not over.
        """
        return Result.of(self.sent, self.value)

    @property
    def sent(self) -> JsonObject:
        """The same as it is sent: a `CallToolResult`."""
        if isinstance(self.ended, JsonRpcError):
            raise self.ended
        if self.ended is None:
            raise AttributeError(f"the task has no result: {self!r}")
        return self.ended

    def __repr__(self) -> str:
        said = f": {short(self.status_message)}" if self.status_message else ""
        asks = f"; asks {', '.join(self.input_requests)}" if self.input_requests else ""
        error = isinstance(self.ended, JsonRpcError)
        ended = "" if self.ended is None else f"; {self.ended if error else self.result!r}"
        return f"TaskState({self.status}{said}{asks}{ended})"
