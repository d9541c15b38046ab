"""A run of a workflow: how it is invoked, what it knows while it runs, and how it ended (docs/workflows.md)."""

from collections.abc import Mapping, Sequence
from typing import Literal, cast

from msgspec import Struct, field

from mcp_baton.exceptions import StoreError, ValueLost
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import (
    PROGRESS,
    RESULT_PREFIX,
    Claim,
    NewTask,
    StepStatus,
    TaskRecord,
    statuses_of,
)
from mcp_baton.tasks.store import Timing
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.definition_changes import Move
from mcp_baton.workflow.host import Failed, FetchedResource, Outcome, Succeeded, stored_result
from mcp_baton.workflow.lease import Began, Lease, Over, Superseded, TaskOver
from mcp_baton.workflow.pause import PauseReason
from mcp_baton.workflow.repeats import Repeat
from mcp_baton.workflow.resolve import Known
from mcp_baton.workflow.secrets import NO_SECRETS, Secrets, secrets_of, stored_arguments


class Invocation(Struct, frozen=True):
    """How a workflow is invoked.

    Attributes:
        texts: The prompt arguments as the client sent them; for a resume, those of the first call with the new ones.
        arguments: The same, converted to their types, as JSON.
        owner: Whose task it is to be; `None` for a caller who can have none.
        ttl_ms: The lifetime the client asked for.
        nulls: The arguments that were given as null, which no text can say.
        answers: Arguments that a person has given for a step that lacked them, by the step's name.
    """

    texts: Mapping[str, str]
    arguments: Mapping[str, Json]
    owner: str | None = None
    ttl_ms: int | None = None
    nulls: frozenset[str] = frozenset()
    answers: Mapping[str, JsonObject] = field(default_factory=dict)

    @property
    def kept(self) -> dict[str, Json]:
        """The arguments as a task keeps them, for a resume."""
        return {name: None if name in self.nulls else text for name, text in self.texts.items()}


def new_task(workflow: Workflow, invocation: Invocation, owner: str, claim: Claim | None) -> NewTask:
    """The task of a workflow that begins.

    Args:
        workflow: The workflow.
        invocation: How it is invoked.
        owner: Whose task it is.
        claim: Of the run that begins it; `None` where a worker will take it.
    """
    progress = workflow.progress([StepStatus.PENDING] * len(workflow.steps))
    return NewTask(
        owner=owner,
        variables={PROGRESS: cast("JsonObject", progress)},
        workflow=workflow.name,
        definition=workflow.fingerprint,
        arguments=stored_arguments(invocation.kept, workflow.secrets) if workflow.secrets else invocation.kept,
        ttl_ms=invocation.ttl_ms,
        claim=claim,
    )


class UnreadResource(Struct, frozen=True):
    """A resource that could not be read, in a run that goes on without it."""

    uri: str
    error: str


type Content = FetchedResource | UnreadResource


class StepTrace(Struct, frozen=True):
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
    timing: Timing | None = None
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


NOTHING_KNOWN = Known({}, {}, {}, {}, {})


class Run(Struct):
    """A run under way: what is known, and what has not been written yet.

    Attributes:
        lease: The task, and the run's claim on it; `None` for a run without a task.
        written: How many of the traces have been written.
        oversized: Names of task variables whose values the store has not kept.
        lost: Why the stored result of a completed step cannot be had, by step.
        persisted: Whether the store holds all that has happened; `unknown` where that cannot be told.
        stored: Whether the last write was made.
        secrets: The secret arguments.
        unsure: Steps of which it is not known whether a write of this run has written them.
        known: What arguments are resolved from.
        began: When the present step began; `None` where no task notes it.
    """

    workflow: Workflow
    invocation: Invocation
    lease: Lease | None
    variables: TaskVariables
    statuses: dict[str, StepStatus]
    outputs: dict[str, Json] = field(default_factory=dict)
    traces: list[StepTrace] = field(default_factory=list)
    blocked: Blocked | None = None
    move: Move | None = None
    written: int = 0
    oversized: set[str] = field(default_factory=set)
    lost: dict[str, str] = field(default_factory=dict)
    persisted: Persisted = True
    stored: bool = True
    unsure: set[str] = field(default_factory=set)
    secrets: Secrets = NO_SECRETS
    known: Known = NOTHING_KNOWN
    began: Began | None = None

    def __post_init__(self) -> None:
        if self.workflow.secrets:
            self.secrets = secrets_of(self.workflow.secrets, self.invocation.texts, self.invocation.arguments)
        self.draw_on(self.variables)

    def draw_on(self, variables: TaskVariables) -> None:
        """Go on with these variables."""
        given, self.variables = self.invocation, variables
        self.known = Known(
            given.texts,
            given.arguments,
            self.statuses,
            self.outputs,
            variables,
            self.secrets,
            given.answers,
            self.lost,
        )

    @property
    def task(self) -> TaskRecord | None:
        """The task as it was last read or written."""
        return self.lease.task if self.lease else None

    def unwritten(self, task: TaskRecord) -> list[StepTrace]:
        """What has still to be written to the task as it stands.

        Where a write's outcome is not known, a step that it may have completed and that is completed is left as it is:
        what stands there is this run's result, or a later call's that must not give way to it.
        """
        if not self.unsure:
            return self.traces[self.written :]
        completed = {name for name, status in statuses_of(task).items() if status is StepStatus.COMPLETED}
        written = self.unsure & completed
        return [trace for trace in self.traces[self.written :] if trace.step.name not in written]

    def wrote(self, task: TaskRecord, traces: Sequence[StepTrace]) -> None:
        """These traces were written, and the task stands like this.

        Of the steps that were left as they are those stay unsure whose result there is not this run's: it may be a
        later call's, or an earlier one's that this run's never took the place of.
        """
        # What has been written once is not written again: somebody else may have changed it by then.
        self.draw_on(TaskVariables(task.variables))
        if self.unsure:
            sure = {trace.step.name for trace in traces}
            left = [trace for trace in self.traces[self.written :] if trace.step.name not in sure]
            self.unsure -= sure.union(trace.step.name for trace in left if _stands(trace, task))
        self.written = len(self.traces)
        self.stored, self.persisted = True, "unknown" if self.unsure else True

    def not_kept(self, task: TaskRecord, names: Sequence[str]) -> None:
        """The store has not kept the values of these variables."""
        self.oversized.update(names)
        for name in names:
            if name.startswith(RESULT_PREFIX):
                try:
                    task.variables.get(name)
                except ValueLost as lost:
                    self.lost[name.removeprefix(RESULT_PREFIX)] = str(lost)

    def not_written(self, *, unknown: bool = False, over: bool = False) -> None:
        """A write failed, or nothing can be written any more.

        Args:
            unknown: Whether it may have been made.
            over: Whether the task is over, or another run's, so that it misses nothing but steps.
        """
        left = {trace.step.name for trace in self.traces[self.written :]}
        if unknown:
            self.unsure |= left
        if left or not over:
            self.stored = False
            self.persisted = "unknown" if unknown or (left and left <= self.unsure) else False

    @property
    def unrecorded(self) -> list[StepTrace]:
        """What has happened and is not in the store, or of which that is not known."""
        if self.persisted is True:
            return []
        places = enumerate(self.traces)
        return [it for at, it in places if not it.replayed and (at >= self.written or it.step.name in self.unsure)]

    def settle(self, trace: StepTrace) -> None:
        """Take down how a step ended."""
        if isinstance(trace.outcome, Succeeded):
            self.statuses[trace.step.name] = StepStatus.COMPLETED
            self.outputs[trace.step.name] = trace.outcome.value
        else:
            self.statuses[trace.step.name] = StepStatus.FAILED
        self.traces.append(trace)

    def take_answers(self) -> None:
        """Settle the questions that this invocation answers. An answer counts as the step's result."""
        for step in self.workflow.steps:
            given = self.invocation.answers.get(step.name)
            if step.ask is not None and given is not None:
                self.settle(StepTrace(step, None, (), Succeeded(given[step.name])))

    def ended(self, stop: Stop | None) -> EndedRun:
        """The run, which has ended for this reason."""
        places = {step.name: place for place, step in enumerate(self.workflow.steps)}
        return EndedRun(
            workflow=self.workflow,
            known=self.known,
            traces=tuple(sorted(self.traces, key=lambda trace: places[trace.step.name])),
            stop=stop,
            task=self.task,
            persisted=self.persisted,
            stored=self.stored,
            oversized=tuple(sorted(self.oversized)),
            blocked=self.blocked,
        )


def _stands(trace: StepTrace, task: TaskRecord) -> bool:
    """Whether a step's result in a task is this run's. A failure gives way to whatever is there."""
    if not isinstance(trace.outcome, Succeeded):
        return True
    try:
        return bool(task.variables.get(f"{RESULT_PREFIX}{trace.step.name}") == stored_result(trace.outcome))
    except StoreError:
        return False
