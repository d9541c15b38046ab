"""One call of a function that the server's author wrote: what the function's `Context` stands on."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from msgspec import Struct, field

from mcp_baton.exceptions import ToolError
from mcp_baton.protocol.envelope import Envelope
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.asking.asker import Asker
from mcp_baton.server.content import ResourceContent
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.workflow.keys import Key, own_key

type Emit = Callable[[str, dict[str, Json]], None]
"""Sends a notification: method and params."""

type ProgressMap = Callable[[float, float | None], tuple[float, float | None] | None]
"""How a function's own progress and total become the request's; `None` for what must not be reported."""

type Read = Callable[[str, object], list[ResourceContent]]
"""Reads a resource of the server: its URI, and the `Context` for its function."""


RUNNING: ContextVar[str] = ContextVar("RUNNING")
"""The function that runs, such as `tool refund`."""


def no_resources(uri: str, _context: object) -> list[ResourceContent]:
    """Where there are no resources.

    Raises:
        ToolError: always.
    """
    raise ToolError(f"There is no resource {uri}.")


class Call(Struct):
    """One call of a function.

    Attributes:
        emit: Sends a notification to the client while the function runs.
        asker: Gets answers from the client.
        variables: The variables of the task that the call belongs to; `None` without a task.
        progress: How the function's own progress becomes the request's; `None` where it is the request's as it is.
        abandoned: Whether the request has stopped waiting for the function.
        attempt: Which call of a workflow's step this is, from 1 on.
        key: The call's idempotency key.
        read: Reads the server's resources.
        asked: What each key has asked in this call.
        questions: How many questions it has asked.
        answers: The client's answers in this call, by key.
        starts_task: Whether its task begins where the function says so.
        reported: The progress that was reported last.
        claims: What the authorizer found out about the caller.
        waits_for: The dependency that is being made before the function begins, by its factory's name.
    """

    request_id: str
    owner: str | None
    envelope: Envelope
    remaining_ms: Callable[[], int | None]
    emit: Emit
    asker: Asker
    variables: TaskVariables | None = None
    progress: ProgressMap | None = None
    abandoned: bool = False
    attempt: int = 1
    key: Key = field(default_factory=own_key)
    read: Read = no_resources
    asked: dict[str, str] = field(default_factory=dict)
    questions: int = 0
    answers: dict[str, JsonObject] = field(default_factory=dict)
    starts_task: bool = False
    reported: float = field(default=float("-inf"))
    claims: Mapping[str, Any] = field(default_factory=dict)
    waits_for: str | None = None
