"""The interface between the engine and the server: tools, resources, a clock, notifications, and their results."""

from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct

from mcp_baton.approvals.approval import Approval, NotApproved
from mcp_baton.exceptions import ToolError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import StepStatus, TaskRecord
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.workflow.definition import Argument, Step, Workflow
from mcp_baton.workflow.keys import Key
from mcp_baton.workflow.secrets import NO_SECRETS, Secrets


class Succeeded(Struct, frozen=True):
    """A tool's value, as JSON; `None` for a step that only fetched resources.

    Attributes:
        shown: The MCP result, if the tool has returned one itself.
    """

    value: Json
    shown: JsonObject | None = None


class Skipped(Struct, frozen=True):
    """The step was skipped: its tool was not called, and it has no result.

    Attributes:
        timed_out: Whether no callback came in time. Otherwise its condition was false.
    """

    timed_out: bool = False


class Failure(StrEnum):
    """How a call failed.

    Attributes:
        INVALID: Its arguments or its value do not match its signature.
        TIMED_OUT: It was abandoned. It may still have an effect.
    """

    RAISED = "raised"
    INVALID = "invalid"
    TIMED_OUT = "timed out"
    NOT_STARTED = "not started"


class Failed(Struct, frozen=True, eq=False):  # noqa: PLW1641 - is never hashed
    """The tool reported an error, raised, or timed out.

    Attributes:
        asks_client: The tool asked the client for input. It can do that if the client calls it, but not in a step.
        error_id: Identifies the error in the server's log, if its text is hidden from clients.
        not_approved: The approval that the call needs, if that is why it was not made.
        is_refused: Whether a guard refused the call. Nothing was run, and nothing is recorded.
    """

    error: str
    asks_client: bool = False
    kind: Failure = Failure.RAISED
    cause: BaseException | None = None
    error_id: str | None = None
    not_approved: NotApproved | None = None
    is_refused: bool = False

    def __eq__(self, other: object) -> bool:
        """Whether the client sees the same."""
        return isinstance(other, Failed) and (self.error, self.asks_client) == (other.error, other.asks_client)

    @property
    def is_final(self) -> bool:
        """Whether the tool has said that the same call will fail again."""
        return isinstance(self.cause, ToolError) and not self.cause.retryable


class Place(Struct, frozen=True):
    """Where a call belongs. Guards check it.

    Attributes:
        workflow: The workflow of the task that the call names.
        step: The step, if the definition has it.
        name: The step's name; for an element of a list, with its index.
        task: The task; `None` for a call without a task.
        is_turn: Whether it is the step's turn.
        is_item: Whether the call is one of several of its step.
        by: Names the attempt; empty to make a new name.
        before: The attempt that this one repeats: the earlier round of a call that asked the client.
        secrets: The secrets of the run, which people must not see.
    """

    workflow: Workflow | None = None
    step: Step | None = None
    name: str | None = None
    task: TaskRecord | None = None
    is_turn: bool = False
    is_item: bool = False
    by: str = ""
    before: str | None = None
    secrets: Secrets = NO_SECRETS

    @property
    def approval(self) -> Approval | None:
        """The approval that the step adds to its tool."""
        return self.step.approval if self.step else None

    def allows(self, only_in: Collection[str]) -> bool:
        """Whether a tool that runs only in these workflows may run here."""
        return self.is_turn and self.workflow is not None and self.workflow.name in only_in


NO_PLACE = Place()


class Attempt(Struct, frozen=True):
    """One of the calls of a tool.

    Attributes:
        key: The idempotency key of all attempts; `None` for a call that gets a key of its own.
    """

    number: int = 1
    key: Key | None = None
    place: Place = NO_PLACE


FIRST = Attempt()


type Outcome = Succeeded | Failed
"""How a call ended."""


def status_of(outcome: Outcome | Skipped) -> StepStatus:
    match outcome:
        case Succeeded():
            return StepStatus.COMPLETED
        case Skipped():
            return StepStatus.SKIPPED
    return StepStatus.FAILED


def stored_result(outcome: Outcome | Skipped) -> Json:
    """The value of `_workflow.result.<step>`. A skipped step has none; its value is not stored."""
    match outcome:
        case Succeeded(value):
            return value
        case Skipped():
            return None
    return {"error": outcome.error}


MAX_FIELDS = 20
"""Invalid fields that are reported: enough to see what is wrong."""


class InvalidField(Struct, frozen=True):
    """A field that does not satisfy the tool's input schema, and why."""

    field: str
    problem: str


class Mismatch(Struct, frozen=True):
    """How arguments fail to satisfy a tool's input schema."""

    missing: tuple[str, ...] = ()
    invalid: tuple[InvalidField, ...] = ()


class Prepared(Struct, frozen=True):
    """A call whose arguments satisfy the function's input schema."""

    name: str
    arguments: JsonObject
    bound: dict[str, Any]


class FetchedResource(Struct, frozen=True):
    """One content of a resource: text, or base64 of its bytes."""

    uri: str
    mime_type: str | None
    text: str | None = None
    blob: str | None = None


class ResourceUnavailable(Exception):
    """A resource could not be fetched."""

    def __init__(self, reason: str, error_id: str | None = None) -> None:
        super().__init__(reason)
        self.error_id = error_id


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

    def run(self, prepared: Prepared, variables: TaskVariables | None, attempt: Attempt = FIRST) -> Outcome:
        """Run a tool. Abandon it when only the write reserve of the function's time is left."""

    def read(self, uri: str) -> Sequence[FetchedResource]:
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

    pulse: Callable[[], float]
    """The thread that answers the request calls it while a tool runs or a wait lasts. It returns the seconds until the
    next call. The engine sets it."""

    def threads(self) -> "Threads":
        """Runs calls in other threads."""

    def words(self, name: str, error: Exception) -> str:
        """The text of an exception for the client. `name` is the tool or step that raised it."""

    def error_id(self, error: Exception) -> str | None:
        """The id of an exception in the server's log, if its text is hidden from clients."""


class Threads(Protocol):
    """Runs calls in other threads, while the request's thread delivers their notifications and renews claims."""

    def start(self, call: Callable[[Host], Any], pulse: Callable[[], float] | None) -> None:
        """Begin a call in another thread. The call gets a separate host.

        Args:
            pulse: The pulse of that host; `None` without a claim.
        """

    def ask(self, question: Callable[[], Any]) -> Any:
        """From another thread: call a function in the request's thread, and return its value."""

    def next(self) -> Any:
        """Wait until a call has ended; return its value or raise its exception."""

    def close(self) -> None:
        """Abandon the calls that still run."""
