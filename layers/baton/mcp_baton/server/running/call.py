"""The state of one call of an author's function, which its `Context` uses."""

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
"""Converts a function's progress and total to those of the request. `None` if they must not be reported."""

type Read = Callable[[str, object], list[ResourceContent]]
"""Reads a resource of the server: its URI, and the `Context` for its function."""


RUNNING: ContextVar[str] = ContextVar("RUNNING")
"""The running function, such as `tool refund`."""


def no_resources(uri: str, _context: object) -> list[ResourceContent]:
    """Read a resource where there are none.

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
        progress: Converts the function's progress to the request's; `None` to report it unchanged.
        abandoned: Whether the request no longer waits for the function.
        attempt: The number of the call within its step, from 1.
        key: The call's idempotency key.
        read: Reads the server's resources.
        asked: The question of each key in this call.
        questions: The number of questions so far.
        answers: The client's answers in this call, by key.
        starts_task: Whether `Context.start_task` starts a background task.
        reported: The last reported progress.
        claims: The authorizer's claims about the caller.
        waits_for: The name of the factory whose dependency is being created before the function starts.
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
