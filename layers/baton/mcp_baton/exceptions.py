"""The exceptions of Baton that several modules use. Others are defined in the module that raises them.

```
Exception
└── BatonError
    ├── ProtocolError          for the client: becomes a JSON-RPC error
    ├── ToolError              raised by tools: becomes an MCP tool error (`isError: true`)
    ├── RegistrationError      for the author of a server, at import time
    │   └── WorkflowError      names workflow, step and cause
    ├── SettingsError          for the operator: names the setting and the remedy
    ├── EventError             for the operator: the event is not an HTTP request
    ├── NotDispatched          the worker's event was not accepted
    └── StoreError             for callers of the task store
        ├── Conflict           a lost race; has the task as the winner left it
        ├── TaskNotFound       missing, expired or another owner's
        ├── TaskFinished       the task is in a terminal state; has the task
        ├── TaskHeld           another run has claimed the task; has the task and the end of the claim
        ├── NoAttemptLeft      a job's attempts are used up; has the task
        ├── ClaimLost          another run has taken the task over; has the task
        ├── TooManyTasks       the owner has reached the limit of live tasks
        ├── TooLarge           the data is too large to be stored
        ├── ValueLost          a stored value is missing; the rest of the task exists
        │   ├── ValueNotKept   the value was not stored: too large, or the write failed
        │   └── ValueTooLarge  the value is too large to be read
        └── StoreUnavailable   the store did not answer, or refused; nothing was written
            ├── StoreBusy      the store throttled the request
            └── OutcomeUnknown the last response was lost: the write may have been applied
BaseException
└── Abandoned                  internal: stops an abandoned tool at its next `Context` call
```
"""

from typing import TYPE_CHECKING

from mcp_baton.protocol.json import to_json

if TYPE_CHECKING:
    from mcp_baton.tasks.record import TaskRecord


class BatonError(Exception):
    """The root of Baton's exceptions."""


class ProtocolError(BatonError):
    """A request fails with a JSON-RPC error.

    Args:
        code: The JSON-RPC or MCP error code, e.g. `-32602`.
        message: A sentence for the client's developer that names the field and the remedy.
        data: The error's `data` member: JSON, or what a tool may return as JSON.

    Raises:
        TypeError: the code is not an int, or the message is not a text.
        ValueError: the data is not JSON.
    """

    def __init__(self, code: int, message: str, data: object = None) -> None:
        if not isinstance(code, int) or isinstance(code, bool) or not isinstance(message, str):
            raise TypeError(f"ProtocolError({code!r}, {message!r}): the code is an int and the message a text")
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = to_json(data)


class ToolError(BatonError):
    """Raise it in a tool to report a failure to the model. Its text becomes the text of the tool result.

    Args:
        parts: The text.
        retryable: Whether the same call may succeed later. If not, a step's `Retry` stops, and the pause reason has
            `retryable: false` (docs/workflows.md, Trying again).
    """

    retryable = True

    def __init__(self, *parts: object, retryable: bool = True) -> None:
        super().__init__(*parts)
        self.retryable = retryable


class RegistrationError(BatonError):
    """A tool, resource or prompt cannot be registered."""


class WorkflowError(RegistrationError):
    """A workflow is invalid. Raised when the server is created, not when the workflow runs.

    Args:
        workflow: The workflow's name.
        cause: The problem and the remedy.
        step: The name of the step, if one step is invalid.
    """

    def __init__(self, workflow: str, cause: str, step: str | None = None) -> None:
        place = f"workflow {workflow!r}" if step is None else f"workflow {workflow!r}, step {step!r}"
        super().__init__(f"{place}: {cause}")
        self.workflow = workflow
        self.step = step
        self.cause = cause


class SettingsError(BatonError):
    """A setting has an invalid value."""


class EventError(BatonError):
    """The invocation event is not an HTTP request. The message says what was expected."""


class NotDispatched(BatonError):
    """The event for the worker was not accepted, or the outcome is unknown. The task exists nevertheless."""


class StoreError(BatonError):
    """A request to the task store failed."""


class Conflict(StoreError):
    """A conditional write lost a race. Nothing was written.

    Args:
        current: The task as the winner left it.
        token: The identifier of the write, which it keeps when it is repeated (`Batch.token`).
    """

    def __init__(self, current: "TaskRecord", token: "tuple[str, int] | None" = None) -> None:
        super().__init__("the task changed while it was being written")
        self.current, self.token = current, token


class TaskNotFound(StoreError):
    """This owner has no such task: it never existed, has expired or belongs to another owner."""

    def __init__(self) -> None:
        super().__init__("unknown task")


class TaskFinished(StoreError):
    """The task is in a terminal state."""

    def __init__(self, current: "TaskRecord") -> None:
        super().__init__(f"the task is {current.status}")
        self.current = current


class TaskHeld(StoreError):
    """Another run has claimed the task. Nothing was written.

    `until_ms` is when its claim expires unless it is renewed, epoch milliseconds.
    """

    def __init__(self, until_ms: int, current: "TaskRecord") -> None:
        super().__init__("another run holds the task")
        self.until_ms = until_ms
        self.current = current


class NoAttemptLeft(StoreError):
    """All attempts of a job were used, and no worker runs it. Nothing was written."""

    def __init__(self, current: "TaskRecord") -> None:
        super().__init__("the job's attempts are used up")
        self.current = current


class ClaimLost(StoreError):
    """Another run has taken the task over. Nothing was written."""

    def __init__(self, current: "TaskRecord") -> None:
        super().__init__("another run has taken the task over")
        self.current = current


class TooManyTasks(StoreError):
    """The owner has reached the limit of live tasks. Nothing was written."""


class TooLarge(StoreError):
    """The data is too large for the store. Nothing was written. Retrying does not help."""


class ValueLost(StoreError):
    """A stored value is missing or damaged. Retrying does not help. Sizes are bytes of the value's JSON text."""

    def __init__(self, text_bytes: int, cause: str) -> None:
        super().__init__(f"result of {text_bytes} bytes is lost: {cause}")


class ValueNotKept(ValueLost):
    """A value was not stored. The task contains a marker instead."""

    def __init__(self, text_bytes: int, cause: str) -> None:
        StoreError.__init__(self, f"result of {text_bytes} bytes {cause}")


class ValueTooLarge(ValueLost):
    """A stored value is too large to be read. It remains stored."""

    def __init__(self, text_bytes: int, limit: int) -> None:
        StoreError.__init__(self, f"result of {text_bytes} bytes is larger than {limit} bytes, the limit for reading")


class StoreUnavailable(StoreError):
    """The store did not answer or refused. Nothing was written."""


RETRY_AFTER_MS = 1_000
"""When a client should try again that met a busy store, or lost its races, milliseconds."""


class StoreBusy(StoreUnavailable):
    """The store throttled the request until its time was over (docs/storage.md, Throttling). Nothing was written.

    `retry_after_ms` is when the client should retry, milliseconds.
    """

    def __init__(self, cause: str, retry_after_ms: int = RETRY_AFTER_MS) -> None:
        super().__init__(cause)
        self.retry_after_ms = retry_after_ms


class OutcomeUnknown(StoreUnavailable):
    """The response to a write was lost, also after a retry. It is unknown whether the write was applied.

    `current` is the task that may have been created.
    """

    def __init__(self, cause: str, current: "TaskRecord | None" = None) -> None:
        super().__init__(cause)
        self.current = current


class WrongResult(ValueError):
    """A tool returned an invalid result."""


class Abandoned(BaseException):
    """Raised by the next `Context` call of a tool that was abandoned, so that it stops."""
