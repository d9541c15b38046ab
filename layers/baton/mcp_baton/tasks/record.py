"""A task as it is kept: status, times, variables and the progress of its steps (docs/storage.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NotRequired, TypedDict, cast

import msgspec

from mcp_baton.protocol.json import Json, JsonObject

ENGINE_PREFIX = "_workflow."
PROGRESS = "_workflow.progress"
PAUSE_REASON = "_workflow.pause_reason"
RESULT_PREFIX = "_workflow.result."
CALL_PREFIX = "_workflow.call."
EXTRA_PREFIX = "_workflow.extra."
SCHEMA_VERSION = 1

PAUSED = "paused: waits for the model"
"""What is shown beside the status `working` of a paused task, which MCP has no status for."""
PAUSED_STEP = ("failedStep", "blockedStep")
"""The members of a pause reason that name its step: the one that failed, or the one that could not start."""

LEASE_MS, RENEW_MS = 45_000, 15_000
"""How long a claim holds from when it is taken or renewed, and how often a run renews it, milliseconds."""


FIRST_DISPATCH_MS: Final = 30_000
"""How long after a dispatch a poll may dispatch a task again, milliseconds; twice as long after each further one."""

LONGEST_DISPATCH_MS: Final = 600_000
"""And never longer than this."""

ATTEMPTS: Final = 3
"""How often a job is begun at most, until it settles something: it asks the client, or hands over to a fresh worker."""


WORKFLOW_TASK: Final = "_workflow.task_id"
"""The variable of a call's task that names the task of the workflow that it runs."""


class TaskStatus(StrEnum):
    """The states of a task. The last three are terminal: nothing leaves them."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether the task is over."""
        return self not in LIVE


LIVE = frozenset({TaskStatus.WORKING, TaskStatus.INPUT_REQUIRED})


class StepStatus(StrEnum):
    """The states of a step. `completed` and `skipped` are settled: the engine does not run such a step again."""

    PENDING = "pending"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"

    @property
    def settled(self) -> bool:
        """Whether the engine has nothing left to do for the step."""
        return self is StepStatus.COMPLETED or self is StepStatus.SKIPPED


class StepProgress(TypedDict):
    """One step in `_workflow.progress`. A step that only fetches resources has neither `tool` nor `ask`."""

    name: str
    status: str
    tool: NotRequired[str]
    ask: NotRequired[str]
    """Who answers the question: `model` or `user`."""


def has_value(step: StepProgress) -> bool:
    """Whether a step has a result once it is completed: it calls a tool or asks a question."""
    return "tool" in step or "ask" in step


class Progress(TypedDict):
    """The value of `_workflow.progress`."""

    goal: str
    steps: list[StepProgress]
    schemaVersion: int


@dataclass(frozen=True, slots=True)
class Claim:
    """Who runs a task: at most one run at a time (docs/storage.md, Claims).

    Attributes:
        id: Names the run.
        until_ms: When it ends unless it is renewed, epoch milliseconds; 0 once it was given up.
        number: How many runs have taken the task, this one included. It only grows.
        dispatch: The number of the dispatch that a worker came by; 0 for a run that no event has begun.
        interrupted: Whether an earlier run did not give its claim up: it was killed, or could not write, and steps that
            are still open may have run.
    """

    id: str
    until_ms: int
    number: int = 1
    dispatch: int = 0
    interrupted: bool = False

    def holds_at(self, now_ms: int) -> bool:
        """Whether nobody else may take the task now."""
        return self.until_ms >= now_ms

    def lapsed_at(self, now_ms: int) -> bool:
        """Whether it ran out without having been given up: its run was killed, or cannot reach the store."""
        return 0 < self.until_ms < now_ms


@dataclass(frozen=True, slots=True)
class TaskStanding:
    """What a light look at a task tells.

    Attributes:
        status: Its status.
        claim: Who runs it; `None` when nobody ever has.
        version: As the task's; 0 where that was not read.
    """

    status: TaskStatus
    claim: Claim | None = None
    version: int = 0


class Work(msgspec.Struct, frozen=True):
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
    capabilities: JsonObject | None = msgspec.field(default_factory=dict)
    revision: str = ""
    attempts: int = ATTEMPTS
    key: str = ""
    workflow_task: str | None = None
    answers: JsonObject = msgspec.field(default_factory=dict)


class Job(msgspec.Struct, frozen=True):
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
    asked: Mapping[str, JsonObject] = msgspec.field(default_factory=dict)
    answers: Mapping[str, JsonObject] = msgspec.field(default_factory=dict)

    @property
    def open(self) -> dict[str, JsonObject]:
        """The questions that have no answer yet, by key."""
        return {key: question for key, question in self.asked.items() if key not in self.answers}


@dataclass(frozen=True, slots=True)
class NewTask:
    """What a task is created with.

    Attributes:
        owner: The identity that it will belong to.
        variables: The first task variables, `_workflow.progress` among them.
        workflow: The name of the workflow that it runs; `None` for a tool's task.
        definition: The hash of the workflow's definition, against which a resume is checked (docs/storage.md).
        arguments: The prompt arguments of the first call, as the client sent them, for a resume.
        ttl_ms: Lifetime the client asked for, milliseconds; `None` for the default. The store cuts it at its maximum.
        claim: Of the run that creates it. The task does not expire before the claim ends.
        work: Of a job: what a worker has to do.
    """

    owner: str
    variables: JsonObject
    workflow: str | None = None
    definition: str | None = None
    arguments: JsonObject = field(default_factory=dict)
    ttl_ms: int | None = None
    claim: Claim | None = None
    work: Work | None = None


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task as the store holds it.

    Attributes:
        task_id: Opaque; sorts by creation time.
        created_at: ISO-8601, UTC, milliseconds, e.g. `2026-11-21T09:30:00.000Z`. So is `updated_at`.
        ttl_ms: Lifetime from creation, milliseconds.
        version: Grows by one with each write but those of a claim alone.
        variables: Task variables by name. May decode or fetch on access, and then raise `ValueLost` or
            `StoreUnavailable`; a value is exactly what was stored.
        kept: What else may be large, in the same way: `arguments`, `timings` and, once there is one, `result`.
        claim: Who runs it, or ran it last; `None` when nobody ever has.
        job: What a worker does for it; `None` for a task that the client drives.
        error: Why it failed: the JSON-RPC error, `{"code", "message"}`.
        by_client: Whether a client supplied the result, so that neither a tool nor a run made it.
        source: The store's own notes, needed to write against this task as it was read. Opaque to everyone else.
    """

    owner: str
    task_id: str
    status: TaskStatus
    created_at: str
    updated_at: str
    ttl_ms: int
    version: int
    variables: JsonObject
    status_message: str | None = None
    workflow: str | None = None
    definition: str | None = None
    kept: JsonObject = field(default_factory=dict)
    claim: Claim | None = None
    job: Job | None = None
    error: JsonObject | None = None
    by_client: bool = False
    source: object = field(default=None, repr=False, compare=False)

    @property
    def arguments(self) -> Json:
        """The prompt arguments of the first call: an object, unless the stored task is damaged.

        Raises:
            StoreError: they cannot be had.
        """
        return self.kept.get("arguments", {})

    @property
    def result(self) -> Json:
        """The final result's object; `None` until there is one.

        Raises:
            StoreError: it cannot be had.
        """
        return self.kept.get("result")


@dataclass(frozen=True, slots=True)
class TaskPage:
    """A page of a list, newest first; `cursor` is `None` on the last. Variables: progress and pause reason alone."""

    tasks: Sequence[TaskRecord]
    cursor: str | None = None


def timestamp(epoch_ms: int) -> str:
    """Epoch milliseconds as ISO-8601 in UTC with milliseconds: `2026-11-21T09:30:00.000Z`."""
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def steps_of(task: TaskRecord) -> list[StepProgress]:
    """The steps in a task's `_workflow.progress`; none for a task without one."""
    progress = task.variables.get(PROGRESS)
    if not isinstance(progress, Mapping):
        return []
    return cast("list[StepProgress]", progress["steps"])


def statuses_of(task: TaskRecord) -> dict[str, StepStatus]:
    """Each step's stored status, by name, in the stored order."""
    return {step["name"]: StepStatus(step["status"]) for step in steps_of(task)}


def paused_step[T](reason: Mapping[str, T]) -> T | None:
    """The step that a stored pause reason names."""
    return next((reason[name] for name in PAUSED_STEP if name in reason), None)


def pause_of(task: TaskRecord) -> JsonObject | None:
    """A task's stored pause reason, whether or not it still says how the task stands: see `shown_pause`."""
    reason = task.variables.get(PAUSE_REASON)
    return reason if isinstance(reason, Mapping) else None
