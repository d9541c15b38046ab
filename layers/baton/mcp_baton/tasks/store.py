"""What a task store must be able to do: verbs of the domain, each of them one conditional write or one read.

A store never decides anything about workflows. It is handed a `Batch` that says what to write and what must still be
true, writes all of it or nothing, and where a condition no longer holds it reports the state that won (`Conflict`),
so that whoever decided can decide again.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, Self

from mcp_baton.exceptions import Conflict, StoreError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.answers import AnswerStore
from mcp_baton.tasks.record import Claim, NewTask, StepStatus, TaskPage, TaskRecord, TaskStanding

if TYPE_CHECKING:
    from mcp_baton.tasks.jobs import JobStore


FIRST_BACKOFF_S = 0.005
LONGEST_BACKOFF_S = 0.1


@dataclass(frozen=True, slots=True)
class Timing:
    """When a step began, and how long it took.

    Attributes:
        at_ms: Its beginning, epoch milliseconds.
        ms: From then to its end, milliseconds.
    """

    at_ms: int
    ms: int


@dataclass(frozen=True, slots=True)
class StepWrite:
    """One step's new status and result.

    Attributes:
        index: The step's place in `_workflow.progress.steps`.
        name: The step's name, for `_workflow.result.<name>`.
        expected: The status that must still be stored. The write fails as a whole when it is not.
        status: The new status; equal to `expected` when only the result changes.
        result: The new value of `_workflow.result.<name>`.
        call: The new value of `_workflow.call.<name>`: the arguments of the continuation that made the result; `None`
            leaves it alone.
        timing: When it ran; `None` leaves what is kept of an earlier time alone.
    """

    index: int
    name: str
    expected: StepStatus
    status: StepStatus
    result: Json
    call: JsonObject | None = None
    timing: Timing | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SetPause:
    """Store this pause reason, whatever was there."""

    reason: JsonObject


@dataclass(frozen=True, slots=True)
class ClearPause:
    """Remove the pause reason, which must still be `expected`: another one belongs to somebody else."""

    expected: JsonObject


type PauseWrite = SetPause | ClearPause | None
"""What happens to `_workflow.pause_reason`; `None` leaves it alone."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Everything that one `UpdateItem` writes.

    Attributes:
        steps: Steps to write, each guarded by its expected status.
        pause: What happens to the pause reason.
        variables: Other task variables to set, whatever they were (last writer wins).
        removed: Names of task variables to remove.
        result: The task's final result. When given, the task becomes `completed` in the same write.
        by_client: Whether a client supplied the result.
        definition: The definition that the task goes by from now on; comes with a new progress among `variables`.
        claim: The run that writes; the write fails as a whole unless it still holds the task, and renews the claim.
            `None` for a continuation, which needs no claim.
        release: Give the claim up with this write.
        message: The task's new status message; `None` leaves it alone.
        token: Names the write, with when it was named, epoch milliseconds. Writes of one name are applied once, all of
            them together: one that was decided on again is not applied beside an earlier one that arrives late. `None`
            is a name of its own.
    """

    steps: tuple[StepWrite, ...] = ()
    pause: PauseWrite = None
    variables: Mapping[str, Json] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    result: JsonObject | None = None
    by_client: bool = False
    definition: str | None = None
    claim: Claim | None = None
    release: bool = False
    message: str | None = None
    token: tuple[str, int] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Written:
    """A batch that was written.

    Attributes:
        task: The task after the write, other writers' changes included.
        oversized: Names of variables whose values were not kept: reading one raises `ValueNotKept` (docs/storage.md).
    """

    task: TaskRecord
    oversized: tuple[str, ...] = ()


class TaskStore(Protocol):
    """Durable tasks, each visible to its owner alone (docs/storage.md).

    Every method raises `StoreUnavailable` when the store does not answer or refuses; `StoreBusy`, when it is asked for
    more than it can bear for longer than the method waits; and where it writes `OutcomeUnknown`, when the answers to
    all that it sent were lost.
    """

    @property
    def answers(self) -> AnswerStore:
        """Where questions to clients and their answers meet, beside the tasks."""

    @property
    def jobs(self) -> "JobStore":
        """What is done to the tasks that workers work on."""

    def within(self, left_ms: Callable[[], int | None]) -> Self:
        """The same store for one request, whose time is bounded: nothing is tried again when that would take longer.

        Args:
            left_ms: Milliseconds until the function is stopped; `None` where nothing stops it.
        """

    def now_ms(self) -> int:
        """The time by which claims end, epoch milliseconds: the wall clock, since a function that was frozen must
        notice it."""

    def create(self, task: NewTask) -> TaskRecord:
        """Create a `working` task, durably, in one conditional write.

        Raises:
            OutcomeUnknown: carries the task, which may have been created.
            TooManyTasks: the owner already has as many live tasks as it may have.
            StoreError: the task is too large.
        """

    def get(self, owner: str, task_id: str) -> TaskRecord:
        """Read one task, strongly consistent.

        Raises:
            TaskNotFound: missing, expired or another owner's.
        """

    def read_status(self, owner: str, task_id: str) -> TaskStanding:
        """A task's status and who runs it, by the cheapest read: it may be behind by a moment, but never speaks of a
        task's end, or of a takeover, that has not come.

        Raises:
            TaskNotFound: missing, expired or another owner's.
        """

    def list(self, owner: str, cursor: str | None = None) -> TaskPage:
        """One page of the owner's tasks, newest first, expired ones left out.

        Raises:
            ValueError: the cursor is not one that this store gave out.
        """

    def take(self, owner: str, task_id: str, workflow: str, claim: Claim) -> TaskRecord:
        """Claim a live task that nobody holds, and read it: one conditional write.

        Args:
            owner: Whose it must be.
            task_id: Its id.
            workflow: The workflow that it must be of.
            claim: Who takes it, and until when. The task's own has the next number.

        Raises:
            TaskHeld: another run holds it.
            Conflict: it is not of this workflow.
            TaskFinished: it is terminal.
            TaskNotFound: missing, expired or another owner's.
        """

    def renew(self, task: TaskRecord, claim: Claim) -> TaskRecord:
        """Lease on to a live task until the claim's new end, or give it up (an end of 0): one conditional write, tried
        once.

        Returns:
            The task with its claim. Everything else is as it was read.

        Raises:
            ClaimLost: another run has taken it over.
            TaskFinished: it is terminal.
            TaskNotFound: missing or expired.
        """

    def write(self, task: TaskRecord, batch: Batch) -> Written:
        """Write a batch against a live task: the engine's end of run, a checkpoint, or a continuation.

        Args:
            task: The task as last read, created or reported by a `Conflict`.
            batch: What to write, and what must still be true.

        Raises:
            Conflict: a step or the pause reason is not as expected, or the task has another definition than when it
                was read. Nothing was written.
            ClaimLost: the batch names a claim, and another run has taken the task over. Nothing was written.
            TaskFinished: the task is terminal. Nothing was written.
            TaskNotFound: missing, expired or another owner's.
            StoreError: what the batch holds does not fit, even with its values replaced.
        """

    def cancel(self, owner: str, task_id: str) -> TaskRecord:
        """Move a live task to `cancelled`.

        Raises:
            TaskFinished: it is terminal already.
            TaskNotFound: missing, expired or another owner's.
        """

    def complete(self, owner: str, task_id: str, result: JsonObject, *, by_client: bool = True) -> TaskRecord:
        """Move a live task to `completed` with this result.

        Args:
            owner: Whose it must be.
            task_id: Its id.
            result: The result.
            by_client: Whether a client supplied it. It is kept with the task, and marked wherever it is shown.

        Raises:
            TaskFinished: it is terminal already.
            TaskNotFound: missing, expired or another owner's.
            TooLarge: the result does not fit.
        """


def timings_of(task: TaskRecord) -> dict[str, Timing]:
    """When each step ran last, by its name; nothing of steps that have not run, or of which it was not noted.

    Raises:
        StoreError: the task is damaged.
    """
    stored = task.kept.get("timings", {})
    if not isinstance(stored, Mapping):
        raise StoreError(f"the task {task.task_id} is damaged: its timings are not an object")
    created_ms = round(datetime.fromisoformat(task.created_at).timestamp() * 1000)
    try:
        return {name: _timing(str(text), created_ms) for name, text in stored.items()}
    except ValueError as error:
        raise StoreError(f"the task {task.task_id} is damaged: a timing is not one: {error}") from error


def _timing(text: str, created_ms: int) -> Timing:
    began, _, took = text.partition("+")
    return Timing(created_ms + int(began), int(took))


def random_fraction() -> float:
    """A number from 0 up to 1."""
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
) -> Written:
    """Write what `decide` makes of the task; after a lost race, what it makes of the state that won.

    A lost race means that somebody else got on, and statuses only move forward, so as many attempts as others can
    change the task are enough. Waits with full jitter between them, at most `LONGEST_BACKOFF_S`. All attempts have the
    token of the first: one that was given up, and arrives late, is not applied beside a later one.

    Args:
        store: Where to write.
        task: The task as last read.
        decide: Pure: from the task as it stands to what should be written.
        attempts: How often to try, at least once.
        sleep: Takes seconds.
        rng: Gives a number from 0 up to 1, for the waits; random by default.

    Raises:
        Conflict: every attempt lost its race; nothing was written.
        StoreError: as `TaskStore.write`.
    """
    longest, token = FIRST_BACKOFF_S, None
    for attempt in range(1, attempts + 1):
        batch = decide(task)
        try:
            return store.write(task, batch if token is None else replace(batch, token=token))
        except Conflict as conflict:
            if attempt == attempts:
                raise
            task, token = conflict.current, conflict.token
        sleep((rng or random_fraction)() * longest)
        longest = min(longest * 2, LONGEST_BACKOFF_S)
    raise ValueError("attempts must be at least 1")
