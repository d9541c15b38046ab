"""What a worker does for a task (docs/background.md)."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from mcp_baton.protocol.json import JsonObject

FIRST_DISPATCH_MS: Final = 30_000
"""How long after a dispatch a poll may dispatch a task again, milliseconds; twice as long after each further one."""

LONGEST_DISPATCH_MS: Final = 600_000
"""And never longer than this."""

ATTEMPTS: Final = 3
"""How often a job is begun at most, until it settles something: it asks the client, or hands over to a fresh worker."""


WORKFLOW_TASK: Final = "_workflow.task_id"
"""The variable of a call's task that names the task of the workflow that it runs."""


class Work(Struct, frozen=True):
    """What a worker has to do. ProcessScope with the task as it was created; the call's arguments are the task's.

    Attributes:
        tool: The name of the tool, or of the workflow whose twin was called.
        request_id: The id of the request that created the job, as it stands in the logs.
        scopes: The caller's scopes. Nothing else of what vouched for the caller is kept.
        capabilities: What the client has declared that it can be asked for; `None` where that is not known.
        revision: The MCP revision that it speaks.
        attempts: How often the job is begun at most: 1 for a tool that must not be repeated.
        key: The call's idempotency key.
        workflow_task: The id of the workflow's own task; `None` for a tool.
        answers: What the client had answered before the task began.
    """

    tool: str
    request_id: str
    scopes: tuple[str, ...] = ()
    capabilities: JsonObject | None = field(default_factory=dict)
    revision: str = ""
    attempts: int = ATTEMPTS
    key: str = ""
    workflow_task: str | None = None
    answers: JsonObject = field(default_factory=dict)


class Job(Struct, frozen=True):
    """A job as the store holds it.

    Attributes:
        work: What is to be done.
        due_ms: From when on a poll may dispatch it again, epoch milliseconds.
        dispatches: How often it has been dispatched.
        allowed: The claim's number at which its attempts are used up.
        asked: Every question that it has asked, by key: `{"method", "params"}`.
        answers: The client's answers, by key.
    """

    work: Work
    due_ms: int
    dispatches: int
    allowed: int
    asked: Mapping[str, JsonObject] = field(default_factory=dict)
    answers: Mapping[str, JsonObject] = field(default_factory=dict)

    @property
    def open(self) -> dict[str, JsonObject]:
        """The questions that have no answer yet, by key."""
        return {key: question for key, question in self.asked.items() if key not in self.answers}
