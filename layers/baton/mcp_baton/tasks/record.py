"""A task as it is stored: status, times, variables, progress of its steps, claim and job (docs/storage.md)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from time import gmtime, strftime
from typing import Final, NotRequired, TypedDict, cast

from msgspec import Struct, field

from mcp_baton.protocol.json import Json, JsonObject

ENGINE_PREFIX = "_workflow."
PROGRESS = "_workflow.progress"
PAUSE_REASONS = "_workflow.pause_reasons"
"""The variable with the reasons of all stopped steps, in the order of the steps."""
RESULT_PREFIX = "_workflow.result."
CALL_PREFIX = "_workflow.call."
EXTRA_PREFIX = "_workflow.extra."
ITEMS_PREFIX = "_workflow.items."
"""The prefix of the variable with the results of an unfinished list, in order; null for an open element."""
ELEMENTS_PREFIX = "_workflow.elements."
"""The prefix of the variable with the elements of an unfinished list."""
APPROVAL_PREFIX = "_workflow.approval."
WAIT_PREFIX = "_workflow.wait."
"""The prefix of the variable with the latest end of a step's wait, epoch milliseconds."""
EARLY_PREFIX = "_workflow.early."
"""The prefix of the variable that is true while the condition of an answered question, or of a step whose callback has
arrived, is not decided."""
TRIED_PREFIX = "_workflow.tried."
"""The prefix of the variable that counts the calls of a step's tool while the next attempt waits."""
WAITING_JOBS = "_workflow.job"
"""The variable with the background jobs that wait with the workflow: a text with one id, or a list of ids."""
MAX_JOBS_PER_TASK: Final = 10
"""Jobs that one workflow's task names. An older one continues when it is due."""
REPEATED = "_workflow.repeated"
"""The variable with the first steps that the runs of a background job may have repeated, by the job's id. The client
only gets the result of the last run."""
SALT = "_workflow.salt"
"""The variable with random characters that are part of digests of secrets."""

SCHEMA_VERSION = 1

PAUSED_STEP = ("failedStep", "blockedStep")
"""The members of a pause reason that name its step: the one that failed, or the one that could not start."""

LEASE_MS, RENEW_MS = 45_000, 15_000
"""How long a claim lasts after it is taken or renewed, and how often a run renews it, milliseconds."""

FIRST_DISPATCH_MS: Final = 30_000
"""How long after the first dispatch a poll may dispatch a job again, milliseconds. Doubles with each dispatch."""

MAX_DISPATCH_MS: Final = 600_000
"""The longest such time, milliseconds."""

JOB_ATTEMPTS: Final = 3
"""The most attempts at a job. A question to the client, and a handover to a new worker, give it all attempts again."""

WORKFLOW_TASK: Final = "_workflow.task_id"
"""The variable of a job's task with the id of the task of the workflow that it runs."""


class TaskStatus(StrEnum):
    """The states of a task. The last three are terminal: nothing leaves them."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        return self not in LIVE


LIVE = frozenset({TaskStatus.WORKING, TaskStatus.INPUT_REQUIRED})


class StepStatus(StrEnum):
    """The states of a step. `completed` and `skipped` are settled: the engine does not run such a step again."""

    PENDING = "pending"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"

    def __init__(self, status: str) -> None:
        self.settled = status in ("completed", "skipped")


class StepProgress(TypedDict):
    """One step in `_workflow.progress`. A step that only fetches resources has neither `tool` nor `ask` nor `wait`."""

    name: str
    status: str
    tool: NotRequired[str]
    ask: NotRequired[str]
    """Who answers the question: `model` or `user`."""
    wait: NotRequired[str]
    """What the step waits for: `callback` or `time`."""


def has_value(step: StepProgress) -> bool:
    """Whether a step has a result once it is completed: it calls a tool, asks a question or gets a callback."""
    return "tool" in step or "ask" in step or step.get("wait") == "callback"


class Progress(TypedDict):
    """The value of `_workflow.progress`."""

    goal: str
    steps: list[StepProgress]
    schemaVersion: int


class Claim(Struct, frozen=True):
    """The ownership of a task by one run at a time (docs/storage.md, Claims).

    `until_ms` is 0 after release. `number` counts the runs that have claimed the task, including this one. `dispatch`
    is the number of the dispatch that started a worker; 0 for a run without an event. `interrupted`: an earlier run did
    not release its claim: it was killed or could not write, and steps that are still open may have run. `by_worker`:
    whether a worker claims a workflow's task; not stored. `named`: whether a call that names the task claims it; stored
    in the task. `takes_over`: whether it only replaces a claim that expired without release; not stored. `ended_ms`:
    when the last run of the task ended, with its last write; 0 before that.
    """

    id: str
    until_ms: int
    number: int = 1
    dispatch: int = 0
    interrupted: bool = False
    by_worker: bool = False
    named: bool = False
    takes_over: bool = False
    ended_ms: int = 0

    def holds_at(self, now_ms: int) -> bool:
        """Whether no other run may claim the task now."""
        return self.until_ms >= now_ms

    def lapsed_at(self, now_ms: int) -> bool:
        """Whether it expired without release: its run was killed, or cannot reach the store."""
        return 0 < self.until_ms < now_ms


class TaskStanding(Struct, frozen=True):
    """The answer of `TaskStore.read_status`. `version` is 0 if it was not read."""

    status: TaskStatus
    claim: Claim | None = None
    version: int = 0


class JobSpec(Struct, frozen=True):
    """The call that a worker makes. It is stored when the task is created. Its arguments are those of the task.

    Attributes:
        request_id: The id of the request that created the job, as in the logs.
        scopes: The caller's scopes. Nothing else of the caller's token is stored.
        capabilities: The client's declared capabilities; `None` if they are unknown.
        attempts: The most attempts: 1 for a tool that must not be repeated.
        key: The call's idempotency key.
        workflow_task: The id of the workflow's own task; `None` for a tool.
        resumes: Whether the call has named the workflow's task.
        answers: What the client had answered before the task was created.
        base_url: The address of the API that created the task, for links to it.
        traceparent: The span of the request that created the task. Empty without OpenTelemetry.
    """

    tool: str
    request_id: str
    scopes: tuple[str, ...] = ()
    capabilities: JsonObject | None = field(default_factory=dict)
    revision: str = ""
    attempts: int = JOB_ATTEMPTS
    key: str = ""
    workflow_task: str | None = None
    answers: JsonObject = field(default_factory=dict)
    base_url: str = ""
    traceparent: str = ""
    resumes: bool = False


APPROVAL_WAIT: Final = "approval"
"""That a job waits for a person, in `JobWaits.kinds`."""


class JobWaits(Struct, frozen=True, omit_defaults=True):
    """What a job waits for while no worker runs.

    Attributes:
        message: The status message that says it.
        kinds: `APPROVAL_WAIT`, `callback` and `time`, those for which it waits.
        audience: Who decides the first approval; empty without approvals.
        expires_ms: When that approval expires, epoch milliseconds.
    """

    message: str
    kinds: tuple[str, ...]
    audience: str = ""
    expires_ms: int = 0


class Job(Struct, frozen=True):
    """A job as it is stored.

    Attributes:
        due_ms: When a poll may dispatch it again, epoch milliseconds.
        dispatches: How often it has been dispatched.
        waits: What it waits for, from `JobStore.suspend` until a worker claims it; `None` otherwise.
        allowed: The number of the claim at which its attempts are used up.
        asked: All questions that it has asked, by key: `{"method", "params"}`.
    """

    work: JobSpec
    due_ms: int
    dispatches: int
    allowed: int
    asked: Mapping[str, JsonObject] = field(default_factory=dict)
    answers: Mapping[str, JsonObject] = field(default_factory=dict)
    waits: JobWaits | None = None

    @property
    def open(self) -> dict[str, JsonObject]:
        """The questions without an answer, by key."""
        return {key: question for key, question in self.asked.items() if key not in self.answers}


class NewTask(Struct, frozen=True):
    """A task to be created.

    Attributes:
        workflow: The name of its workflow; `None` for a tool's task.
        definition: The hash of the workflow's definition. A resume compares it.
        arguments: The prompt arguments of the first call, as the client sent them, for a resume.
        ttl_ms: The lifetime that the client asked for, milliseconds; `None` for the default. The store has a maximum.
        task_id: Its id (`TaskStore.new_task_id`); `None` for a new one.
        claim: The claim of the run that creates it. The task does not expire before the claim ends.
        work: The call of a job.
    """

    owner: str
    variables: JsonObject
    workflow: str | None = None
    definition: str | None = None
    arguments: JsonObject = field(default_factory=dict)
    ttl_ms: int | None = None
    claim: Claim | None = None
    work: JobSpec | None = None
    task_id: str | None = None


class TaskRecord(Struct, frozen=True, eq=False):  # noqa: PLW1641 - is never hashed
    """A task as it is stored.

    Attributes:
        task_id: Opaque; sorts by creation time.
        created_at: As `timestamp` writes it. So is `updated_at`.
        ttl_ms: Lifetime from creation, milliseconds.
        version: Grows by one with each write, except writes that change only the claim.
        variables: Task variables by name. Access may decode or fetch a value, and raise `ValueLost` or
            `StoreUnavailable`. A value is exactly what was stored.
        large_values: Other values that may be large, in the same way: `arguments`, `timings` and `result`.
        claim: The claim, current or last; `None` if no run has claimed it.
        error: Why it failed: the JSON-RPC error, `{"code", "message"}`.
        by_client: Whether a client supplied the result, not a tool or a run.
        named: Whether a later call has named it to continue it, so that its client has its id.
        shown_pauses: Replaces the stored pause reasons in views, because approvals were decided or have expired, or
            waits are over. Not stored.
        wakes: The jobs to wake, because a callback has arrived that no worker has read (`Batch.wakes`).
        wakes_ms: From when on a sweep wakes it, epoch milliseconds; 0 if a run has seen the callback.
        oversized: The variables whose values the last write could not store; empty after a read. Reading such a value
            raises `ValueNotKept`.
        source: Opaque data of the store, which needs it to write to the task as it was read.
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
    large_values: JsonObject = field(default_factory=dict)
    claim: Claim | None = None
    job: Job | None = None
    shown_pauses: tuple[JsonObject, ...] | None = None
    error: JsonObject | None = None
    by_client: bool = False
    named: bool = False
    wakes: tuple[str, ...] = ()
    wakes_ms: int = 0
    oversized: tuple[str, ...] = ()
    source: object = None

    def __eq__(self, other: object) -> bool:
        """Whether the task is the same, wherever it was read."""
        names = (name for name in self.__struct_fields__ if name not in ("source", "oversized"))
        return isinstance(other, TaskRecord) and all(getattr(self, name) == getattr(other, name) for name in names)

    @property
    def waits(self) -> JobWaits | None:
        """What a background call waits for; `None` if it does not wait, or an event for its worker is under way."""
        job, claim = self.job, self.claim
        if job is None or self.status is not TaskStatus.WORKING:
            return None
        return None if claim is not None and job.dispatches > claim.dispatch else job.waits

    @property
    def created_ms(self) -> int:
        return epoch_ms(self.created_at)

    @property
    def arguments(self) -> Json:
        """The prompt arguments, also of resumes: an object, unless the stored task is damaged. Raises `StoreError`."""
        return self.large_values.get("arguments", {})

    @property
    def result(self) -> Json:
        """The final result's object; `None` if there is none yet. Raises `StoreError`."""
        return self.large_values.get("result")


class TaskPage(Struct, frozen=True):
    """A page of a list, newest first; `cursor` is `None` on the last. Tasks have only progress and pause reason."""

    tasks: Sequence[TaskRecord]
    cursor: str | None = None


def timestamp(epoch_ms: int) -> str:
    """Epoch milliseconds as ISO-8601 in UTC with milliseconds: `2026-11-21T09:30:00.000Z`."""
    seconds, milliseconds = divmod(epoch_ms, 1000)
    return f"{strftime('%Y-%m-%dT%H:%M:%S', gmtime(seconds))}.{milliseconds:03d}Z"


def waiting_jobs(variables: Mapping[str, Json]) -> tuple[str, ...]:
    """The background jobs that wait with a workflow's task, oldest first."""
    stored = variables.get(WAITING_JOBS)
    if isinstance(stored, str):
        return (stored,)
    return tuple(job for job in stored if isinstance(job, str)) if isinstance(stored, list) else ()


def epoch_ms(text: str) -> int:
    """The epoch milliseconds of a text of `timestamp`."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def is_early(variables: Mapping[str, Json], step: str) -> bool:
    """Whether a stored answer or callback came before the condition of its step was decided."""
    name = f"{EARLY_PREFIX}{step}"
    return name in variables and variables[name] is True


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


def pauses_of(task: TaskRecord) -> tuple[JsonObject, ...]:
    """The stored reasons of a task's stopped steps, in the order of the steps. They may be outdated: see
    `present.stored_task.shown_pauses`."""
    if task.shown_pauses is not None:
        return task.shown_pauses
    stored = task.variables.get(PAUSE_REASONS)
    return tuple(reason for reason in stored if isinstance(reason, Mapping)) if isinstance(stored, list) else ()
