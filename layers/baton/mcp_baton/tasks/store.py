"""The interface of the task store: each method is one conditional write or one read (docs/storage.md).

A store does not decide anything about workflows. A `Batch` says what to write and what must still be true. The store
writes all of it or nothing. If a condition does not hold, it raises `Conflict` with the current state, so that the
caller can decide again.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self

from msgspec import Struct, field
from msgspec.structs import replace

from mcp_baton.exceptions import Conflict, StoreError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.answers import AnswerStore
from mcp_baton.tasks.record import Claim, NewTask, StepStatus, TaskPage, TaskRecord, TaskStanding

if TYPE_CHECKING:
    from mcp_baton.tasks.jobs import JobStore


FIRST_BACKOFF_S = 0.005
MAX_BACKOFF_S = 0.1


class Timing(Struct, frozen=True):
    """When a step began (epoch milliseconds), and how long it took (milliseconds)."""

    at_ms: int
    ms: int


class ListResult(Struct, frozen=True):
    """The result of a completed list: the stored results of its elements and those of the same write, in order."""


class ListWrite(Struct, frozen=True):
    """New results of a list's elements, by index. The stored results of other elements stay.

    Attributes:
        elements: The list's elements if they are not stored yet, or others are.
        dropped: Elements whose stored results do not count any more, because they are other elements now.
    """

    total: int
    results: Mapping[int, Json]
    elements: Sequence[Json] | None = None
    dropped: frozenset[int] = frozenset()


class StepWrite(Struct, frozen=True):
    """One step's new status and result. `None` as `call` or `timing` does not change what is stored.

    Attributes:
        index: The step's place in `_workflow.progress.steps`.
        expected: The status that must still be stored. Otherwise the whole write fails.
        result: The value to store. A skipped step has none.
        call: The arguments of the continuation that made the result.
    """

    index: int
    name: str
    expected: StepStatus
    status: StepStatus
    result: Json | ListResult
    call: JsonObject | None = None
    timing: Timing | None = None


class Batch(Struct, frozen=True):
    """Everything that one `UpdateItem` writes.

    Attributes:
        unchanged: Other steps, by their place, that must still have these statuses.
        same_version: Whether the task must be exactly as it was read: no other writer has changed it.
        pauses: The reasons of all stopped steps, in the order of the steps; `None` does not change them. A batch with
            reasons or steps requires the reasons that were read, and the statuses of the stopped steps.
        variables: Other task variables to set. The last writer wins.
        lists: Results of elements of unfinished lists, by step. They require `same_version`.
        result: The task's final result. With one, the task becomes `completed`.
        by_client: Whether a client supplied the result.
        arguments: The task's new arguments, all of them; `None` does not change them.
        definition: The task's new definition. The new progress is among `variables`.
        claim: The claim of the run that writes. The write requires it, and renews or releases it. `None` for a
            continuation, which needs no claim.
        message: The task's new status message; `None` does not change it.
        wakes: The jobs that a sweep wakes, if none of them claims the task soon.
        named: Whether a call that names the task writes.
        token: Identifies the write, with the time when it was created (epoch milliseconds). Of all writes with the same
            token, one is applied. So an attempt that arrives late is not applied after a later one. `None` creates one.
    """

    steps: tuple[StepWrite, ...] = ()
    pauses: tuple[JsonObject, ...] | None = None
    variables: Mapping[str, Json] = field(default_factory=dict)
    lists: Mapping[str, ListWrite] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    result: JsonObject | None = None
    by_client: bool = False
    arguments: JsonObject | None = None
    definition: str | None = None
    claim: Claim | None = None
    release: bool = False
    message: str | None = None
    wakes: tuple[str, ...] = ()
    named: bool = False
    unchanged: Mapping[int, StepStatus] = field(default_factory=dict)
    same_version: bool = False
    token: tuple[str, int] | None = None


class Start(Struct, frozen=True):
    """Which call has started a task. Times are epoch milliseconds.

    Attributes:
        task_id: The task that the call's reply names: of the workflow, or of its background call.
        asked_ms: When the call arrived.
        until_ms: When the claim of the first run ends. Until then the task may still be created.
        call: The digest of an event's arguments; empty for a call.
        created: Whether the task of an event is known to have been created.
    """

    task_id: str
    asked_ms: int
    until_ms: int
    call: str = ""
    created: bool = False


class StartStore(Protocol):
    """Stores the last start of each call, by a digest of the call (`start_digest`), so that a repeated call finds the
    task of the first one (docs/workflows.md, Repeated calls)."""

    def begin(
        self, owner: str, digest: str, start: Start, instead_of: Start | None, lives_ms: int | None = None
    ) -> Start | None:
        """Store a start: one `UpdateItem`.

        Args:
            instead_of: The start to replace; `None` if there must be none.
            lives_ms: How long it is kept; `None` for as long as a task can live.

        Returns:
            `None` if it was stored; otherwise the start that another call has stored.

        Raises:
            StoreError: it is not known whether the start was stored, or it was not.
        """

    def replace(self, owner: str, digest: str, start: Start) -> None:
        """Store a start instead of any other: one `UpdateItem`. Raises as `begin`."""

    def confirm(self, digest: str, start: Start) -> None:
        """Store that the task of an event was created: one `UpdateItem`."""

    def forget(self, digest: str, start: Start) -> None:
        """Remove a start whose task was not created, unless another call has replaced it: one `UpdateItem`."""


class CallbackTarget(Struct, frozen=True):
    """What an address leads to: a waiting step of a task.

    Attributes:
        job_id: The background job that runs the task's workflow, if one does.
    """

    owner: str
    task_id: str
    step: str
    job_id: str | None = None


class CallbackStore(Protocol):
    """Stores the addresses of callbacks (docs/waiting.md, Callbacks). Each method may raise `StoreUnavailable`."""

    def add(self, digest: str, pointer: CallbackTarget, until_ms: int) -> None:
        """Store the digest of a new address until a time, epoch milliseconds: one `PutItem`."""

    def find(self, digest: str) -> CallbackTarget | None:
        """What an address leads to; `None` if it is unknown or has expired: one `GetItem`, strongly consistent."""


class TaskStore(Protocol):
    """Durable tasks, each visible to its owner only.

    Every method raises `StoreUnavailable` if the store does not respond or refuses, and `StoreBusy` if it is throttled
    for longer than the method retries. Writes raise `OutcomeUnknown` if all responses were lost. Methods that take an
    owner and an id raise `TaskNotFound` if the task is missing, expired or another owner's. Writes raise `TaskFinished`
    if the task is terminal.
    """

    @property
    def answers(self) -> AnswerStore: ...

    @property
    def jobs(self) -> "JobStore": ...

    @property
    def callbacks(self) -> CallbackStore: ...

    @property
    def starts(self) -> StartStore: ...

    def within(self, left_ms: Callable[[], int | None]) -> Self:
        """The same store for one request: nothing is retried that the function has no time for (`None`: no limit)."""

    def now_ms(self) -> int:
        """The wall clock, epoch milliseconds. It runs while a function is frozen."""

    def new_task_id(self) -> str:
        """A new id for `NewTask.task_id`."""

    def create(self, task: NewTask) -> TaskRecord:
        """Create a `working` task: one `PutItem`; before it, the requests for large values and for the owner's limit.

        Raises:
            OutcomeUnknown: contains the task, which may have been created.
            TooManyTasks: the owner already has as many live tasks as allowed.
            StoreError: the task is too large.
        """

    def get(self, owner: str, task_id: str) -> TaskRecord:
        """Read one task: one `GetItem`, strongly consistent."""

    def read_status(self, owner: str, task_id: str) -> TaskStanding:
        """Read a task's status and claim: one `GetItem` of four attributes, eventually consistent.

        The answer may be a moment old, but it never reports an end or a takeover that did not happen.
        """

    def list(self, owner: str, cursor: str | None = None) -> TaskPage:
        """Read one page of the owner's tasks, newest first, without expired ones: one or more `Query` requests.
        Raises `ValueError` if this store did not create the cursor."""

    def take(self, owner: str, task_id: str, workflow: str, claim: Claim) -> TaskRecord:
        """Claim a task of this workflow that has no live claim, and read it: one `UpdateItem`.

        Raises:
            TaskHeld: another run has a live claim.
            Conflict: the task has another workflow.
        """

    def renew(self, task: TaskRecord, claim: Claim) -> TaskRecord:
        """Renew a claim until its new end, or release it (an end of 0): one `UpdateItem`, sent once. Only the claim of
        the returned task is new. Raises `ClaimLost` if another run has taken the task over."""

    def write(self, task: TaskRecord, batch: Batch) -> TaskRecord:
        """Write a batch to a live task, as it was last read: the end of a run, a checkpoint, or a continuation. One
        `UpdateItem`; before it, the requests for large values. Returns the task with the changes of other writers.

        Raises:
            Conflict: the task is not as the batch expects. Nothing was written.
            ClaimLost: the batch has a claim, and another run has taken the task over. Nothing was written.
            StoreError: the batch does not fit, even if its values are replaced.
        """

    def cancel(self, owner: str, task_id: str, claim: Claim | None = None) -> TaskRecord:
        """Make a live task `cancelled`: one `UpdateItem`. With `claim`, only if the task still has this claim. Raises
        `Conflict` otherwise."""

    def complete(self, owner: str, task_id: str, result: JsonObject, *, by_client: bool = True) -> TaskRecord:
        """Make a live task `completed`: one `UpdateItem`. A large result takes a `GetItem` and the requests for its
        value before. `by_client`, whether a client supplied the result, is stored and shown with it. Raises `TooLarge`
        if the result does not fit."""


class StoreAtFirstUse:
    """A store that is made when it is first used. Requests of a server with plain tools use none, and the modules of
    the store would slow its cold start."""

    def __init__(self, make: Callable[[], TaskStore]) -> None:
        self._make = make

    @cached_property
    def _store(self) -> TaskStore:
        return self._make()

    def within(self, left_ms: Callable[[], int | None]) -> "StoreAtFirstUse":
        return StoreAtFirstUse(lambda: self._store.within(left_ms))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def timings_of(task: TaskRecord) -> dict[str, Timing]:
    """When each step ran last, by its name. Steps without a timing are missing.

    A timing is stored as `<start>+<duration>` in milliseconds; the start counts from the task's creation.

    Raises:
        StoreError: the task is damaged.
    """
    timings = task.large_values.get("timings", {})
    if not isinstance(timings, Mapping):
        raise StoreError(f"the task {task.task_id} is damaged: its timings are not an object")
    try:
        return {name: _timing(str(text), task.created_ms) for name, text in timings.items()}
    except ValueError as error:
        raise StoreError(f"the task {task.task_id} is damaged: a timing is not one: {error}") from error


def _timing(text: str, created_ms: int) -> Timing:
    start_ms, _, duration_ms = text.partition("+")
    return Timing(created_ms + int(start_ms), int(duration_ms))


def random_fraction() -> float:
    """A random number from 0 up to 1."""
    from random import random

    return random()


def write_decided(
    store: TaskStore,
    task: TaskRecord,
    decide: Callable[[TaskRecord], Batch],
    *,
    attempts: int,
    sleep: Callable[[float], None] = time.sleep,
    rng: Callable[[], float] | None = None,
) -> TaskRecord:
    """Write the batch that `decide`, a pure function, makes of a task. After a lost race, decide again on the current
    state.

    Statuses only move forward. So as many attempts are enough as others can change the task. Between attempts it waits
    with full jitter, at most `MAX_BACKOFF_S`. All attempts have the same token: a late one is not applied as well.

    Raises:
        Conflict: every attempt lost its race. Nothing was written.
        StoreError: as `TaskStore.write`.
    """
    max_pause_s, token = FIRST_BACKOFF_S, None
    for attempt in range(1, attempts + 1):
        batch = decide(task)
        try:
            return store.write(task, batch if token is None else replace(batch, token=token))
        except Conflict as conflict:
            if attempt == attempts:
                raise
            task, token = conflict.current, conflict.token
        sleep((rng or random_fraction)() * max_pause_s)
        max_pause_s = min(max_pause_s * 2, MAX_BACKOFF_S)
    raise ValueError("attempts must be at least 1")
