"""The interface between the engine and the server: tools, resources, a clock, notifications, and their results."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import StepStatus
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.calls import ToolCall
from mcp_baton.tools.content import ResourceContent
from mcp_baton.tools.outcomes import Failed, Mismatch, Outcome, Prepared, Succeeded
from mcp_baton.workflow.lease import Lease, ThreadLease


class Skip(StrEnum):
    """Why a step was skipped.

    Attributes:
        CONDITION: Its condition was false.
        NO_CALLBACK: No callback came in time, and the step may be skipped then.
    """

    CONDITION = "condition"
    NO_CALLBACK = "no callback"


class Skipped(Struct, frozen=True):
    """The step was skipped: its tool was not called, and it has no result."""

    why: Skip


def status_of(outcome: Outcome | Skipped | None) -> StepStatus:
    match outcome:
        case None:
            return StepStatus.PENDING
        case Succeeded():
            return StepStatus.COMPLETED
        case Skipped():
            return StepStatus.SKIPPED
    return StepStatus.FAILED


def stored_result(outcome: Outcome | Skipped | None) -> Json:
    """The value of `_workflow.result.<step>`. A skipped step has none; its value is not stored."""
    match outcome:
        case Succeeded(value):
            return value
        case Failed(error):
            return {"error": error}
    return None


class Host(Protocol):
    """The server, as the engine uses it."""

    def required(self, tool: str) -> frozenset[str]:
        """The names of a tool's required arguments."""

    def carries(self, size: int) -> bool:
        """Whether placeholders may put this many bytes into one call of the client."""

    def prepare(self, tool: str, arguments: JsonObject) -> Prepared | Mismatch:
        """Validate the arguments against the tool's input schema. This is done once for a step."""

    def answer_schema(self, question: Argument) -> JsonObject:
        """The JSON Schema of an answer to a question."""

    def canonical(self, tool: str, arguments: JsonObject) -> JsonObject:
        """The arguments as the tool receives them, as JSON, without those that equal their defaults."""

    def run(self, prepared: Prepared, tool_call: ToolCall) -> Outcome:
        """Run a tool. Abandon it when only the write reserve of the function's time is left."""

    def read(self, uri: str) -> Sequence[ResourceContent]:
        """Fetch a resource.

        Raises:
            ResourceUnavailable: the resource does not exist, or reading it failed.
        """

    job_id: str | None
    """The background job that runs the workflow; `None` if the client waits for the run."""

    announces: bool
    """Whether the client is notified of steps (`announce`)."""

    def announce(self, started: int, total: int, step: str, task_id: str | None) -> None:
        """Notify the client that the step with this number begins. The first notification has the task's id."""

    def may_start(self, after_s: float = 0.0) -> bool:
        """Whether enough of the function's time will be left to start a step after this many seconds."""

    def wait(self, seconds: float) -> None:
        """Wait this long."""

    def left_ms(self) -> int | None:
        """Milliseconds until the function is stopped; `None` if it has no time limit."""

    lease: Lease | ThreadLease | None
    """The run's claim on its task; `None` without a task. The thread that answers the request calls its `pulse` while a
    tool runs or a wait lasts. The engine sets it."""

    def threads(self) -> "Threads":
        """Runs calls in other threads."""

    def words(self, name: str, error: Exception) -> str:
        """The text of an exception for the client. `name` is the tool or step that raised it."""

    def error_id(self, error: Exception) -> str | None:
        """The id of an exception in the server's log, if its text is hidden from clients."""


class Threads(Protocol):
    """Runs calls in other threads, while the request's thread delivers their notifications and renews claims."""

    def start(self, call: Callable[[Host], Any], lease: ThreadLease | None) -> None:
        """Begin a call in another thread. The call gets a separate host.

        Args:
            lease: That of this host; `None` without a task.
        """

    def ask(self, question: Callable[[], Any]) -> Any:
        """From another thread: call a function in the request's thread, and return its value."""

    def next(self) -> Any:
        """Wait until a call has ended; return its value or raise its exception."""

    def close(self) -> None:
        """Abandon the calls that still run."""
