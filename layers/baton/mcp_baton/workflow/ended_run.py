"""A run that has ended: what happened, as data. The prompt's messages are one rendering of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.record import StepStatus, TaskRecord, TaskStatus
from mcp_baton.tasks.store import Timing
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.host import Failed, FetchedResource, Outcome
from mcp_baton.workflow.pause import PauseReason
from mcp_baton.workflow.repeats import Repeat
from mcp_baton.workflow.resolve import Known


class UnreadResource(Struct, frozen=True):
    """A resource that could not be read, in a run that goes on without it."""

    uri: str
    error: str


type Content = FetchedResource | UnreadResource


@dataclass(frozen=True, slots=True)
class StepTrace:
    """What happened to one step.

    Attributes:
        arguments: The resolved arguments of the call that was made; `None` where none was made.
        resources: What was fetched for it.
        outcome: How it ended.
        attempts: How often its tool was called in this run.
        kept: The arguments that are kept with its result, since a person has given some of them.
        timing: When it ran, with all that was fetched for it; `None` where no task notes it.
        replayed: It was completed by an earlier call; this run only shows it.
        read: Which of the step's `resources` were fetched, as the step has them.
        after: What was fetched after its tool.
        unread: The URI of the resource that could not be fetched; the tool was not called.
    """

    step: Step
    arguments: JsonObject | None
    resources: tuple[Content, ...]
    outcome: Outcome
    attempts: int = 0
    kept: JsonObject | None = None
    timing: Timing | None = field(default=None, compare=False)
    replayed: bool = False
    read: frozenset[str] = frozenset()
    after: tuple[Content, ...] = ()
    unread: str | None = None


class Blocked(Struct, frozen=True):
    """A step that could not run, and what was fetched for it all the same.

    Attributes:
        resources: What was fetched.
        read: Which of the step's `resources` that were, as the step has them.
    """

    step: Step
    resources: tuple[Content, ...]
    read: frozenset[str]


class TaskOver(Struct, frozen=True):
    """Why a run stopped: its task came to an end while it was under way, and not by its doing.

    Attributes:
        status: The task's terminal status; `None` for a task that is no longer there.
    """

    status: TaskStatus | None


class Superseded(Struct, frozen=True):
    """Why a run stopped: its claim ran out while it was late, and another run has taken the task over."""


type Over = TaskOver | Superseded
"""Why a run cannot write to its task any more."""

type Stop = PauseReason | Over
"""Why a run ended before every step was settled, or could not end its task."""

type Persisted = bool | Literal["unknown"]
"""Whether the store holds all that a run has done; `unknown` where an answer of its was lost that would tell."""


class EndedRun(Struct, frozen=True):
    """A run that has ended: completed, paused for a reason, or stopped since its task was over or another run's.

    Attributes:
        known: Arguments, statuses, outputs and variables at its end.
        traces: The steps that ran, in order; of a resumed run also those that had been completed before.
        stop: Why it stopped; `None` when it completed.
        task: The task as the store holds it; `None` for a run without one.
        persisted: Whether the store holds all that happened.
        stored: Whether the last write was made: the task stands as the run has left it, but for what others do since.
        oversized: Names of task variables whose values did not fit into the store.
        blocked: The step at which it stopped, where that could not run.
        twice: The steps that it has run and that an earlier run, which was interrupted, may have run before.
        before: The steps that are open at its end and that such a run may have run.
        lost: The steps that it has run and that are not recorded, or of which that is not known.
    """

    workflow: Workflow
    known: Known
    traces: tuple[StepTrace, ...]
    stop: Stop | None
    task: TaskRecord | None
    persisted: Persisted = True
    stored: bool = True
    oversized: tuple[str, ...] = ()
    blocked: Blocked | None = None
    twice: tuple[Repeat, ...] = ()
    before: tuple[Repeat, ...] = ()
    lost: tuple[Repeat, ...] = ()

    @property
    def read(self) -> frozenset[str]:
        """Which resources of the step at which it stopped were fetched, as the step has them."""
        if self.blocked:
            return self.blocked.read
        return next((trace.read for trace in self.traces if isinstance(trace.outcome, Failed)), frozenset())

    @property
    def pause(self) -> PauseReason | None:
        """Why it paused; `None` when it completed, and when its task was over or another run's."""
        return None if isinstance(self.stop, TaskOver | Superseded) else self.stop

    @property
    def statuses(self) -> Mapping[str, StepStatus]:
        """Each step's status, by name, in order."""
        return self.known.statuses
