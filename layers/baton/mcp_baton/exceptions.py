"""The exceptions that pass from one part of Baton to another, by who is meant to read them.

One that only the callers of a single module catch stands in that module.

```
Exception
└── BatonError
    ├── ProtocolError          the client: becomes a JSON-RPC error
    ├── ToolError              the author of a tool: becomes an MCP tool error (`isError: true`)
    ├── RegistrationError      the author of a server, at import time
    │   └── WorkflowError      names workflow, step and cause
    ├── SettingsError          the operator: names the setting and the remedy
    ├── EventError             the operator: the function was invoked with something that is not an HTTP request
    ├── NotDispatched          the code that starts background work: the worker's event was not taken
    └── StoreError             the code that talks to the task store
        ├── Conflict           a lost race; carries the state that won
        ├── TaskNotFound       missing, expired or another owner's: one and the same
        ├── TaskFinished       the task is in a terminal state; carries it
        ├── TaskHeld           another run holds the task; carries it, and until when
        ├── NoAttemptLeft          a job's attempts are used up; carries the task
        ├── ClaimLost          the run that writes does not hold the task any more; carries it
        ├── TooManyTasks       the owner has as many live tasks as it may have
        ├── TooLarge           what should be stored does not fit, and never will
        ├── ValueLost          a stored value whose object is gone; the rest of the task is there
        │   ├── ValueNotKept   one that was not stored: it did not fit, or could not be written
        │   └── ValueTooLarge  one that is there, and larger than is read at once
        └── StoreUnavailable   the store did not answer, or refused; nothing was written
            ├── StoreBusy      it refused for now, since it is asked for more than it can bear
            └── OutcomeUnknown its last word was lost: what was sent may have been written
BaseException
└── Abandoned                  internal: raised by `Context` in a tool whose caller has gone on
```
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp_baton.protocol.json import Json
    from mcp_baton.tasks.record import TaskRecord


class BatonError(Exception):
    """The root of Baton's exceptions."""


class ProtocolError(BatonError):
    """A request that is answered with a JSON-RPC error.

    Args:
        code: The JSON-RPC or MCP error code, e.g. `-32602`.
        message: One sentence for the client's developer, naming the field and the remedy.
        data: The error's `data` member; left out when `None`.
    """

    def __init__(self, code: int, message: str, data: "Json" = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class ToolError(BatonError):
    """Raise it in a tool to report a failure to the model: its text is the tool result's text.

    Args:
        parts: The text.
        retryable: Whether the same call may succeed when it is made again. Where it may not, a step's `Retry` ends, and
            the pause reason's `retryable` is false whatever the step says (docs/workflows.md, Trying again).
    """

    retryable = True

    def __init__(self, *parts: object, retryable: bool = True) -> None:
        super().__init__(*parts)
        self.retryable = retryable


class RegistrationError(BatonError):
    """A tool, resource or prompt that cannot be registered."""


class WorkflowError(RegistrationError):
    """A workflow that cannot work; raised while the server is being put together, not when it is used.

    Args:
        workflow: The workflow's name.
        cause: What is wrong, and what to do about it.
        step: The step's name, where one step is to blame.
    """

    def __init__(self, workflow: str, cause: str, step: str | None = None) -> None:
        where = f"workflow {workflow!r}" if step is None else f"workflow {workflow!r}, step {step!r}"
        super().__init__(f"{where}: {cause}")
        self.workflow = workflow
        self.step = step
        self.cause = cause


class SettingsError(BatonError):
    """A setting with a value that cannot be used."""


class EventError(BatonError):
    """An invocation event that is not the HTTP request it should be; says what was expected."""


class NotDispatched(BatonError):
    """The event that a worker begins by was not taken, or that is not known. The task is there all the same."""


class StoreError(BatonError):
    """The task store could not do what it was asked to."""


class Conflict(StoreError):
    """A conditional write lost a race. Nothing was written.

    Args:
        current: The task as the winner left it.
        token: The name of the write, which it keeps when it is decided on again (`Batch.token`).
    """

    def __init__(self, current: "TaskRecord", token: "tuple[str, int] | None" = None) -> None:
        super().__init__("the task changed while it was being written")
        self.current, self.token = current, token


class TaskNotFound(StoreError):
    """There is no such task for this owner: it never was, it has expired, or it is another's."""

    def __init__(self) -> None:
        super().__init__("unknown task")


class TaskFinished(StoreError):
    """The task is in a terminal state, which nothing leaves.

    Args:
        current: The task as it stands.
    """

    def __init__(self, current: "TaskRecord") -> None:
        super().__init__(f"the task is {current.status}")
        self.current = current


class TaskHeld(StoreError):
    """Another run holds the task. Nothing was written.

    Args:
        until_ms: When its claim ends unless it is renewed, epoch milliseconds.
        current: The task as it stands.
    """

    def __init__(self, until_ms: int, current: "TaskRecord") -> None:
        super().__init__("another run holds the task")
        self.until_ms = until_ms
        self.current = current


class NoAttemptLeft(StoreError):
    """A job has been begun as often as it may be, and nobody works on it. Nothing was written.

    Args:
        current: The task as it stands.
    """

    def __init__(self, current: "TaskRecord") -> None:
        super().__init__("the job's attempts are used up")
        self.current = current


class ClaimLost(StoreError):
    """The run that writes does not hold the task any more: another one has taken it over. Nothing was written.

    Args:
        current: The task as it stands.
    """

    def __init__(self, current: "TaskRecord") -> None:
        super().__init__("another run has taken the task over")
        self.current = current


class TooManyTasks(StoreError):
    """The owner has as many live tasks as it may have. Nothing was written."""


class TooLarge(StoreError):
    """What should be stored is larger than the store takes. Nothing was written; trying again does not help."""


class ValueLost(StoreError):
    """A value is not where its task's item says, or is damaged. Reading again does not help.

    Args:
        text_bytes: The length of the value's JSON text, bytes.
        cause: What is wrong.
    """

    def __init__(self, text_bytes: int, cause: str) -> None:
        super().__init__(f"result of {text_bytes} bytes is lost: {cause}")


class ValueNotKept(ValueLost):
    """A value that was not stored: the task has a mark in its place.

    Args:
        text_bytes: The length of the value's JSON text, bytes.
        cause: Why it was not stored.
    """

    def __init__(self, text_bytes: int, cause: str) -> None:
        StoreError.__init__(self, f"result of {text_bytes} bytes {cause}")


class ValueTooLarge(ValueLost):
    """A stored value that is larger than Baton reads back. It stays where it is.

    Args:
        text_bytes: The length of the value's JSON text, bytes.
        most: The most that is read, bytes.
    """

    def __init__(self, text_bytes: int, most: int) -> None:
        StoreError.__init__(self, f"result of {text_bytes} bytes is larger than the {most} bytes that are read")


class StoreUnavailable(StoreError):
    """The store did not answer, or refused for a reason of its own. Nothing was written."""


class StoreBusy(StoreUnavailable):
    """The store is asked for more than it can bear, and was so for as long as this request could wait (docs/storage.md,
    Throttling). Nothing was written.

    Args:
        cause: What it said.
        retry_after_ms: After how long it is worth asking again, milliseconds.
    """

    def __init__(self, cause: str, retry_after_ms: int) -> None:
        super().__init__(cause)
        self.retry_after_ms = retry_after_ms


class OutcomeUnknown(StoreUnavailable):
    """A request was sent and its answer was lost, the last one too: whether it was written is not known.

    Args:
        cause: What went wrong last.
        current: The task that may have been created, for a creation.
    """

    def __init__(self, cause: str, current: "TaskRecord | None" = None) -> None:
        super().__init__(cause)
        self.current = current


class WrongResult(ValueError):
    """A tool returned something that cannot be its result."""


class Abandoned(BaseException):
    """Raised by the next `Context` call of a tool that was abandoned, so that it stops."""
