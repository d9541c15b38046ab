"""A run of a workflow: how it is invoked, what it knows while it runs, and how it ended (docs/workflows.md)."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from msgspec import Struct, field, structs

from mcp_baton.exceptions import StoreError, ValueLost
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.record import (
    EARLY_PREFIX,
    MAX_JOBS_PER_TASK,
    PROGRESS,
    RESULT_PREFIX,
    SALT,
    TRIED_PREFIX,
    WAITING_JOBS,
    Claim,
    NewTask,
    StepStatus,
    TaskRecord,
    is_early,
    statuses_of,
    waiting_jobs,
)
from mcp_baton.tasks.starts import Start
from mcp_baton.tasks.store import Timing
from mcp_baton.tasks.values import list_in
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.outcomes import Failed, Failure, FetchedResource, Outcome, Succeeded
from mcp_baton.tools.secrets import secrets_of, stored_arguments
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.definition_changes import Move
from mcp_baton.workflow.host import Host, Skip, Skipped, status_of, stored_result
from mcp_baton.workflow.items import Items, failed_items
from mcp_baton.workflow.lease import Lease, Over, StartTime, Superseded, TaskOver
from mcp_baton.workflow.pause import (
    AnswersRequired,
    ApprovalDenied,
    ApprovalRequired,
    FailedItem,
    PauseReason,
    StepFailed,
    Waiting,
    pause_after,
    suspends,
)
from mcp_baton.workflow.repeats import Repeat
from mcp_baton.workflow.resolve import Known
from mcp_baton.workflow.steps.list_step import ListStep
from mcp_baton.workflow.steps.question import Question
from mcp_baton.workflow.steps.step import Step


class RunInput(Struct, frozen=True):
    """The input of a run: the arguments, the owner and the answers.

    Attributes:
        owner: The owner of the task; `None` for an unauthenticated caller.
        nulls: The arguments that were null, which a text cannot express.
        start: The stored start of the call, whose task this run creates; `None` if repeated calls are not found.
        ignored: The arguments of a resume that do not replace the stored ones, and empty answers.
    """

    texts: Mapping[str, str]
    arguments: Mapping[str, Json]
    owner: str | None = None
    ttl_ms: int | None = None
    nulls: frozenset[str] = frozenset()
    answers: Mapping[str, JsonObject] = field(default_factory=dict)
    start: Start | None = None
    ignored: tuple[str, ...] = ()

    @property
    def stored_texts(self) -> dict[str, Json]:
        """The arguments as a task stores them, for a resume."""
        return {name: None if name in self.nulls else text for name, text in self.texts.items()}


def new_task(workflow: Workflow, run_input: RunInput, owner: str, claim: Claim | None) -> NewTask:
    """The task to create for a workflow.

    Args:
        claim: The claim of the first run; `None` if a worker will claim the task.
    """
    progress = workflow.progress([StepStatus.PENDING] * len(workflow.steps))
    variables: dict[str, Json] = {PROGRESS: cast("JsonObject", progress)}
    if workflow.secrets:
        variables[SALT] = new_token()
    return NewTask(
        owner=owner,
        variables=variables,
        workflow=workflow.name,
        definition=workflow.fingerprint,
        arguments=stored_arguments(run_input.stored_texts, workflow.secrets),
        ttl_ms=run_input.ttl_ms,
        claim=claim,
        task_id=None if run_input.start is None else run_input.start.task_id,
    )


class UnreadResource(Struct, frozen=True):
    """A resource that could not be read. The run continues without it."""

    uri: str
    error: str


type Content = FetchedResource | UnreadResource


class StepTrace(Struct, frozen=True):
    """The trace of one step.

    Attributes:
        arguments: The resolved arguments of the call; `None` if no call was made.
        resources: The resources that were fetched before the tool.
        outcome: How it ended.
        attempts: How often the tool was called in this run.
        calls: For how many elements of a list; 1 for a step without a list. The other attempts are retries.
        stored_call: The arguments to store with the result, if a person has supplied some of them.
        timing: When the step ran, with its fetches; `None` without a task.
        replayed: An earlier run or a continuation completed the step; this run only shows it.
        read_resources: Which of the step's `resources` were fetched, as the step declares them.
        after: The resources that were fetched after the tool.
        unread: The URI of the resource that could not be fetched; the tool was not called.
        users: The steps that use this answer. None of them may have run with the answer that it replaces.
    """

    step: Step
    arguments: JsonObject | None
    resources: tuple[Content, ...]
    outcome: Outcome | Skipped
    attempts: int = 0
    stored_call: JsonObject | None = None
    timing: Timing | None = None
    replayed: bool = False
    read_resources: frozenset[str] = frozenset()
    after: tuple[Content, ...] = ()
    unread: str | None = None
    users: tuple[str, ...] = ()
    calls: int = 1


class Blocked(Struct, frozen=True):
    """A step that could not run, and the resources that were fetched for it."""

    step: Step
    resources: tuple[Content, ...]
    read_resources: frozenset[str]


type Stop = PauseReason | Over
"""Why a run ended before every step was settled, or could not end its task."""


class StepCall(Struct, frozen=True):
    """A call of a step's tool, or what a step without a tool does instead.

    Attributes:
        start: When it began; `None` without a task.
        index: The element of the step's list; `None` for a step without a list.
        variables: The variables of a call in another thread; `None` for those of the run.
    """

    step: Step
    start: StartTime | None = None
    index: int | None = None
    variables: TaskVariables | None = None


class CallEnded(Struct, frozen=True):
    """How a call ended.

    Attributes:
        trace: The settled step; `None` if its tool was not called.
        stop: Why the step is not settled, or why the run has to end.
        failed: The failure, if there was one.
        retry_s: The wait before the next attempt, if a worker can make it in a later invocation.
    """

    call: StepCall
    trace: StepTrace | None = None
    stop: Stop | None = None
    blocked: Blocked | None = None
    failed: Failed | None = None
    retry_s: float | None = None


class ListRun(Struct):
    """The calls of a step with `each` in this run.

    Attributes:
        waiting: The elements whose calls have not started.
        calls: For how many elements the tool was called, with `attempts` in all.
        unwritten: How many results were not written.
        stop: Why a call was not made, if the calls of other elements can still be made.
        unapproved_count: How many calls were not made because no person has approved them.
        retries: The calls whose next attempts wait, by element: how often the tool was called, and until when the next
            attempt waits, epoch milliseconds.
        waits_ms: Until when attempts wait that this run has not made. Another attempt may be due, but not approved.
    """

    step: ListStep
    call: StepCall
    items: Items
    waiting: list[int]
    retries: dict[int, tuple[int, int]] = field(default_factory=dict)
    waits_ms: list[int] = field(default_factory=list)
    failed: dict[int, Failed] = field(default_factory=dict)
    calls: int = 0
    attempts: int = 0
    unwritten: int = 0
    stop: ApprovalRequired | Waiting | ApprovalDenied | None = None
    unapproved_count: int = 0

    def note_stop(self, stop: ApprovalRequired | Waiting | ApprovalDenied) -> None:
        """Note why the call of an element was not made. The list can continue as long as a decision or a time is
        awaited, so it waits for that, and for the earliest time."""
        if isinstance(stop, Waiting):
            self.waits_ms.append(stop.until_ms)
        else:
            self.unapproved_count += 1
        if self.stop is None or _urgency(stop) < _urgency(self.stop):
            self.stop = stop

    def retry_ms(self, index: int) -> int:
        """Until when the next attempt of an element's call waits, epoch milliseconds; 0 if it does not."""
        return self.retries.get(index, (0, 0))[1]

    def outcome(self) -> Outcome:
        if not self.failed:
            try:
                return Succeeded(self.items.in_order)
            except StoreError as error:  # continuations have supplied some of the results
                return Failed(f"each: stored results cannot be read: {error}")
        return Failed(self._error())

    def _error(self) -> str:
        errors = {index: failure.error for index, failure in self.failed.items()}
        return failed_items(errors, len(errors), len(self.items.elements), self.unapproved_count)

    def pause(self) -> StepFailed | None:
        """The pause after all calls have ended; `None` if all of them have succeeded."""
        if not self.failed:
            return None
        step, failures = self.step, self.failed.values()
        error_ids = [failure.error_id for failure in failures]
        total_failure = Failed(
            self._error(),
            asks_client=any(failure.asks_client for failure in failures),
            cause=next((failure.cause for failure in failures if failure.is_final), None),
            error_id=error_ids[0] if all(error_ids) else None,
            kind=Failure.TIMED_OUT
            if any(failure.kind is Failure.TIMED_OUT for failure in failures)
            else Failure.RAISED,
        )
        pause = pause_after(total_failure, step, step.name, step.tool)
        failed_calls = tuple(FailedItem(index, failure.error) for index, failure in sorted(self.failed.items()))
        return structs.replace(
            pause,
            failed_items=failed_calls,
            failed_count=len(failed_calls),
            unapproved_count=self.unapproved_count,
        )


def _urgency(stop: ApprovalRequired | Waiting | ApprovalDenied) -> tuple[int, int]:
    order = (ApprovalRequired, Waiting, ApprovalDenied)
    return order.index(type(stop)), stop.until_ms if isinstance(stop, Waiting) else 0


type Persisted = bool | Literal["unknown"]
"""Whether the store has everything that a run did; `unknown` if a response that would show it was lost."""


class EndedRun(Struct, frozen=True):
    """A run that has ended: completed, paused, or stopped because its task was over or had another run.

    Attributes:
        known: Arguments, statuses, outputs and variables at the end of the run.
        traces: The steps that ran, in order. A resumed run also has those that were completed before.
        pauses: Why steps have stopped, in the order of the steps. Without parallel steps, it has at most one.
        task: The stored task; `None` for a run without a task.
        over: Why the run could not end its task: the task was over, or had another run.
        retries_ms: Until when the next attempts of elements wait, epoch milliseconds.
        persisted: Whether the store has everything that happened.
        stored: Whether the last write was made.
        oversized: The task variables whose values were too large to store.
        refused: The answers that were not stored, because another call had used the earlier answers.
        blocked: The stopped steps that could not run.
        repeated: The steps of this run that an interrupted earlier run may have run, too.
        open_repeats: The open steps that an interrupted earlier run may have run.
        unrecorded: The steps of this run that are not recorded, or may not be recorded.
        ignored: As in `RunInput`.
    """

    known: Known
    traces: tuple[StepTrace, ...]
    pauses: tuple[PauseReason, ...]
    task: TaskRecord | None
    over: Over | None = None
    persisted: Persisted = True
    stored: bool = True
    oversized: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    repeated: tuple[Repeat, ...] = ()
    open_repeats: tuple[Repeat, ...] = ()
    unrecorded: tuple[Repeat, ...] = ()
    ignored: tuple[str, ...] = ()
    retries_ms: tuple[int, ...] = ()

    @property
    def workflow(self) -> Workflow:
        return self.known.workflow

    @property
    def read_resources(self) -> dict[str, frozenset[str]]:
        """Which resources of the stopped steps were fetched, as the steps declare them."""
        steps = {pause.step for pause in self.pauses}
        read = {trace.step.name: trace.read_resources for trace in self.traces if trace.step.name in steps}
        return read | {blocked.step.name: blocked.read_resources for blocked in self.blocked}

    @property
    def changed_arguments(self) -> dict[str, Json]:
        """The arguments of this invocation that differ from the stored ones. A resume without them uses the stored
        ones. Raises `StoreError`."""
        arguments = self.task.arguments if self.task else None
        if not isinstance(arguments, Mapping):
            return {}
        names = self.known.texts.keys() - self.workflow.secrets
        return {
            name: self.known.arguments[name] for name in sorted(names) if self.known.texts[name] != arguments.get(name)
        }

    @property
    def pause(self) -> PauseReason | None:
        """Why the first of the stopped steps has stopped; `None` if no step has."""
        return self.pauses[0] if self.pauses else None

    @property
    def suspends(self) -> bool:
        """Whether its stopped steps only wait: for a person, a callback or a time."""
        return suspends(self.pauses)

    @property
    def statuses(self) -> Mapping[str, StepStatus]:
        """Each step's status, by name, in order."""
        return self.known.statuses


class OpenRun:
    """A run in progress: what it knows, and what it has not written yet.

    Attributes:
        lease: The run's claim on its task; `None` for a run without a task.
        task_id: The id of the task, for idempotency keys. It stays when the run continues without its task, because a
            late request may still create that task.
        written: How many of the traces have been written.
        oversized: The task variables whose values were too large to store.
        lost_results: Why the stored result of a completed step is not available, by step.
        persisted: Whether the store has everything that happened; `unknown` if that is not known.
        stored: Whether the last write was made.
        unsure: The steps that a write of this run may or may not have written.
        started: The steps that this run has started.
        running: How many calls of a step run in other threads, by step.
        stops: Why steps could not be settled, by step, and what was read for them.
        is_over: Whether the run cannot write to its task any more.
        lists: The calls of steps with `each`, by step.
        early: The answers and callbacks that came before their steps were reached, by step.
    """

    def __init__(
        self,
        workflow: Workflow,
        run_input: RunInput,
        lease: Lease | None,
        variables: TaskVariables,
        statuses: dict[str, StepStatus],
        move: Move | None = None,
    ) -> None:
        self.workflow = workflow
        self.input = run_input
        self.lease = lease
        self.task_id = None if lease is None else lease.task.task_id
        self.statuses = statuses
        self.move = move
        self.outputs: dict[str, Json] = {}
        self.lost_results: dict[str, str] = {}
        self.secrets = secrets_of(workflow.secrets, run_input.texts, run_input.arguments)
        self.traces: list[StepTrace] = []
        self.started: set[str] = set()
        self.running: dict[str, int] = {}
        self.stops: dict[str, tuple[Stop, Blocked | None]] = {}
        self.is_over = False
        self._first_open = 0
        self.lists: dict[str, ListRun] = {}
        self.early: dict[str, Json] = {}
        self.items: dict[str, Items] = {}
        self.written = 0
        self.oversized: set[str] = set()
        self.refused: set[str] = set()
        self.persisted: Persisted = True
        self.stored = True
        self.unsure: set[str] = set()
        self.use_variables(variables)

    def use_variables(self, variables: TaskVariables) -> None:
        run_input, self.variables = self.input, variables
        self.known = Known(
            self.workflow,
            run_input.texts,
            run_input.arguments,
            self.statuses,
            self.outputs,
            variables,
            self.secrets,
            run_input.answers,
            self.lost_results,
            items=self.items,
        )

    # Which calls run

    def stop_at(self, step: Step, stop: Stop, blocked: Blocked | None = None) -> None:
        """Note why a step could not be settled."""
        self.stops[step.name] = stop, blocked
        self.is_over = self.is_over or isinstance(stop, TaskOver | Superseded)

    @property
    def over(self) -> Over | None:
        """Why the run cannot write to its task any more."""
        return next((stop for stop, _ in self.stops.values() if isinstance(stop, TaskOver | Superseded)), None)

    @property
    def pauses(self) -> list[PauseReason]:
        """Why steps have stopped, in the order of the steps."""
        stops = (self.stops[step.name][0] for step in self.workflow.steps if step.name in self.stops)
        return [stop for stop in stops if not isinstance(stop, TaskOver | Superseded)]

    def update_questions(self, host: Host) -> None:
        """Let the first stopped question ask all questions whose values are known now, and the others only themselves.
        Steps that ran at the same time may have ended after the run has stopped at the first question."""
        is_first = True
        for step in self.workflow.steps:
            stop, blocked = self.stops.get(step.name, (None, None))
            if not isinstance(stop, AnswersRequired):
                continue
            pause = self.known.answers_pause(step, host)
            if isinstance(pause, AnswersRequired) and not is_first:
                own_questions = tuple(question for question in pause.questions if question.name == step.name)
                pause = structs.replace(pause, questions=own_questions)
            self.stops[step.name] = pause, blocked
            is_first = False

    def note_job(self, job_id: str | None) -> None:
        """Note in the task whether the background job of this run waits, so that it is woken."""
        # While the client is asked, the other steps wait.
        pauses = [pause for pause in self.pauses if not isinstance(pause, AnswersRequired)]
        waits = not self.over and suspends(pauses)
        noted_jobs = waiting_jobs(self.variables)
        jobs = [name for name in noted_jobs if name != job_id]
        if job_id is not None and waits:
            jobs = [*jobs, job_id][-MAX_JOBS_PER_TASK:]
        if job_id is not None and tuple(jobs) != noted_jobs:
            self.variables.note(WAITING_JOBS, jobs[0] if len(jobs) == 1 else jobs)

    def first_open(self) -> int:
        """The place of the first step that is not settled."""
        steps, index = self.workflow.steps, self._first_open
        while index < len(steps) and self.statuses[steps[index].name].settled:
            index += 1
        self._first_open = index
        return index

    @property
    def running_steps(self) -> int:
        """How many steps have started and not ended."""
        if not self.lists:
            return len(self.running)
        waiting = {name for name, list_run in self.lists.items() if list_run.waiting}
        return len(self.running.keys() | waiting - self.stops.keys())

    def list_with_room(self) -> ListStep | None:
        """The first step with a list of which another call can begin now."""
        for name, list_run in self.lists.items():
            if list_run.waiting and name not in self.stops and self.running.get(name, 0) < list_run.step.parallel:
                return list_run.step
        return None

    def begin_list(self, step: ListStep, call: StepCall, items: Items) -> None:
        # Elements are stored even without results: a later run uses the same ones.
        items.is_changed = items.stored is None
        items.version = self.task.version if self.task else 0
        self.items[step.name] = items
        stored = self.variables.get(f"{TRIED_PREFIX}{step.name}")
        is_known = step.retry is not None and not items.replaced and isinstance(stored, Mapping)
        retries = stored.items() if is_known and isinstance(stored, Mapping) else ()
        times = {int(index): (int(number), int(until_ms)) for index, (number, until_ms) in cast("Any", retries)}
        self.lists[step.name] = ListRun(step, call, items, items.open, times)

    def note_retry(self, step: Step, index: int, attempts: int, until_ms: int) -> None:
        """Note that the next attempt of an element's call waits; or, without attempts, that it does not."""
        list_run = self.lists[step.name]
        if attempts:
            list_run.retries[index] = attempts, until_ms
        elif list_run.retries.pop(index, None) is None:
            return
        stored = {str(element): list(times) for element, times in list_run.retries.items()}
        self.variables.note(f"{TRIED_PREFIX}{step.name}", stored)

    def end_item(self, result: CallEnded) -> None:
        """Note how the call of an element ended."""
        list_run, index = self.lists[result.call.step.name], result.call.index
        if index is not None and (result.failed is not None or result.trace is not None):
            self.note_retry(result.call.step, index, 0, 0)
        if index is not None and result.failed is not None:
            list_run.failed[index] = result.failed
        elif index is not None and result.trace is not None and isinstance(result.trace.outcome, Succeeded):
            list_run.items.known[index] = result.trace.outcome.value
            list_run.items.is_changed = True
            list_run.unwritten += 1
        if result.trace is not None and result.trace.attempts:
            list_run.calls += 1
            list_run.attempts += result.trace.attempts
        if result.stop is None:
            return
        if isinstance(result.stop, ApprovalRequired | ApprovalDenied):
            list_run.note_stop(result.stop)
        else:
            self.stop_at(result.call.step, result.stop)

    def known_at(self, call: StepCall) -> Known:
        """What is known to a call: for that of an element, also the element."""
        return self.known if call.index is None else self.known.at(self.items[call.step.name].elements[call.index])

    # What is written

    def unwritten_items(self) -> dict[str, Items]:
        """The lists with results that were not written, and those whose steps were settled since the last write."""
        settled = {trace.step.name for trace in self.traces[self.written :]}
        return {name: step_items for name, step_items in self.items.items() if step_items.is_changed or name in settled}

    @property
    def task(self) -> TaskRecord | None:
        """The task as it was last read or written."""
        return self.lease.task if self.lease else None

    def unwritten(self, task: TaskRecord) -> list[StepTrace]:
        """The traces that must still be written to the task in its present state.

        After a write with an unknown outcome, the stored result of a step may be this run's or that of a later call,
        which must not be overwritten. So a step of that write is left out if it is stored as completed, or if it has
        failed in this run and its stored result has changed.
        """
        statuses = statuses_of(task)
        return [trace for trace in self.traces[self.written :] if not self._may_be_stored(trace, task, statuses)]

    def _may_be_stored(self, trace: StepTrace, task: TaskRecord, statuses: Mapping[str, StepStatus]) -> bool:
        """Whether a write with an unknown outcome included the step, and the step is completed or has another result
        than when this run last read or wrote the task."""
        name, last_task = f"{RESULT_PREFIX}{trace.step.name}", self.task
        if trace.step.name not in self.unsure:
            return False
        if statuses.get(trace.step.name) is StepStatus.COMPLETED or not isinstance(trace.outcome, Failed):
            return statuses.get(trace.step.name) is StepStatus.COMPLETED
        try:
            return last_task is not None and last_task.variables.get(name) != task.variables.get(name)
        except StoreError:
            return True

    def note_written(self, task: TaskRecord, traces: Sequence[StepTrace], items: Mapping[str, Items]) -> None:
        """Note that these traces and lists were written.

        A step that was left out stays unsure if the task has another result for it than this run: a later call may have
        written it, or an earlier one whose result this run never replaced.
        """
        # Write each value once only: another request may have changed it since.
        self.use_variables(TaskVariables(task.variables))
        for name, step_items in items.items():
            list_run = self.lists[name]
            list_run.items.stored = list_in(task.variables, name) or step_items.stored
            list_run.items.replaced, list_run.items.dropped = False, frozenset()
            list_run.items.version, list_run.items.is_changed, list_run.unwritten = task.version, False, 0
        if self.unsure:
            written_names = {trace.step.name for trace in traces}
            omitted_traces = [trace for trace in self.traces[self.written :] if trace.step.name not in written_names]
            self.unsure -= written_names.union(trace.step.name for trace in omitted_traces if _is_stored(trace, task))
        self.written = len(self.traces)
        self.refused |= {trace.step.name for trace in traces if trace.users and not _is_stored(trace, task)}
        self.stored, self.persisted = True, "unknown" if self.unsure else not self.refused

    def note_oversized(self, task: TaskRecord) -> None:
        """Note the variables whose values were not stored."""
        self.oversized.update(task.oversized)
        for name in task.oversized:
            if name.startswith(RESULT_PREFIX):
                try:
                    task.variables.get(name)
                except ValueLost as lost:
                    self.lost_results[name.removeprefix(RESULT_PREFIX)] = str(lost)

    def note_write_failed(self, *, unknown: bool = False, over: bool = False) -> None:
        """Note that a write failed, or that nothing can be written any more.

        Args:
            over: Whether the task is over or has another run, so that only steps can be missing.
        """
        unwritten_names = {trace.step.name for trace in self.traces[self.written :]} | self.unwritten_items().keys()
        if unknown:
            self.unsure |= unwritten_names
        if unwritten_names or not over:
            self.stored = False
            self.persisted = "unknown" if unknown or (unwritten_names and unwritten_names <= self.unsure) else False

    @property
    def unrecorded(self) -> list[StepTrace]:
        """The traces that are not in the store, or may not be."""
        if self.persisted is True:
            return []
        return [
            trace
            for index, trace in enumerate(self.traces)
            if not trace.replayed and (index >= self.written or trace.step.name in self.unsure)
        ]

    def settle(self, trace: StepTrace) -> None:
        """Note how a step ended."""
        self.statuses[trace.step.name] = status_of(trace.outcome)
        if isinstance(trace.outcome, Succeeded):
            self.outputs[trace.step.name] = trace.outcome.value
        self.traces.append(trace)

    def reopen(self, step: Step) -> None:
        """Reopen the last step: the store has another outcome for it, or the outcome is unknown."""
        self.traces.pop()
        self.written = min(self.written, len(self.traces))
        self.unsure.discard(step.name)
        self.stops.pop(step.name, None)
        self.statuses[step.name] = StepStatus.PENDING

    def settled_meanwhile(self, task: TaskRecord) -> list[Step]:
        """The stopped steps that callbacks or continuations have completed, in a task of this definition."""
        if self.is_over or not self.stops or (self.move and self.move.concerns(task)):
            return []
        statuses = statuses_of(task)
        steps = (step for step in self.workflow.steps if step.name in self.stops)
        steps = (step for step in steps if statuses.get(step.name) is StepStatus.COMPLETED)
        # A value that came early stays unused as long as the condition of its step has no result.
        return [step for step in steps if not is_early(task.variables, step.name) or self.known.may_settle(step)]

    def forget_stop(self, step: Step) -> None:
        """Forget how this run has ended a step that another request has completed."""
        self.discard(step)
        self.stops.pop(step.name, None)
        self.lists.pop(step.name, None)
        self.items.pop(step.name, None)
        self._note_early(step, is_early=False)

    def note_replayed(self, step: Step) -> None:
        """Note that the last trace is of a step that another request has completed meanwhile."""
        self.written = len(self.traces)
        self.stops.pop(step.name, None)
        self.statuses[step.name] = StepStatus.COMPLETED

    def take_answers(self) -> None:
        """Settle the questions that this invocation answers. An answer counts as the step's result.

        An answer to a question that is skipped is ignored. One whose question is not reached is stored, and waits.
        """
        for name, arguments in self.input.answers.items():
            step = self.workflow.step(name)
            if not isinstance(step, Question) or self.known.decide_condition(step) is False:
                continue
            is_reached = self.known.may_settle(step)
            users = tuple(user.name for user in self.workflow.steps if user.uses(step.binding))
            self.discard(step)
            self.settle(StepTrace(step, None, (), Succeeded(arguments[name]), users=users))
            self._note_early(step, is_early=not is_reached)
        self.hold_early()

    def hold_early(self) -> None:
        """Reopen the steps whose values came before their conditions were decided, or before the steps that they need
        were settled. No step uses such a value earlier."""
        for step in self.workflow.steps:
            if not is_early(self.variables, step.name) or step.name not in self.outputs:
                continue
            if self.known.may_settle(step):
                self._note_early(step, is_early=False)
                continue
            self.early[step.name] = self.outputs.pop(step.name)
            self.statuses[step.name] = StepStatus.PENDING

    def skip(self, step: Step) -> None:
        """Skip a step whose condition is false. A value that came before is dropped."""
        self.early.pop(step.name, None)
        self._note_early(step, is_early=False)
        self.discard(step)
        self.settle(StepTrace(step, None, (), Skipped(Skip.CONDITION)))

    def use_early(self, step: Step) -> bool:
        """Settle a step whose condition holds by the value that came before. Returns whether there is one."""
        if step.name not in self.early:
            return False
        self.outputs[step.name] = self.early.pop(step.name)
        self.statuses[step.name] = StepStatus.COMPLETED
        self._note_early(step, is_early=False)
        return True

    def _note_early(self, step: Step, *, is_early: bool) -> None:
        name = f"{EARLY_PREFIX}{step.name}"
        if is_early or name in self.variables:
            self.variables.note(name, is_early)

    def discard(self, step: Step) -> None:
        """Remove the trace of a step, which gets another one."""
        for index, trace in enumerate(self.traces):
            if trace.step.name == step.name:
                del self.traces[index]
                self.written -= index < self.written
                return

    def ended(self, over: Over | None) -> EndedRun:
        blocked = [self.stops[step.name][1] for step in self.workflow.steps if step.name in self.stops and not over]
        indexes = {step.name: index for index, step in enumerate(self.workflow.steps)}
        return EndedRun(
            known=self.known,
            traces=tuple(sorted(self.traces, key=lambda trace: indexes[trace.step.name])),
            pauses=() if over else tuple(self.pauses),
            task=self.task,
            over=over,
            persisted=self.persisted,
            stored=self.stored,
            oversized=tuple(sorted(self.oversized)),
            refused=tuple(sorted(self.refused)),
            blocked=tuple(step for step in blocked if step is not None),
            retries_ms=tuple(until_ms for run in self.lists.values() for until_ms in run.waits_ms),
        )


def _is_stored(trace: StepTrace, task: TaskRecord) -> bool:
    """Whether the task has this run's result of the step. Any stored result may replace a failure."""
    if not isinstance(trace.outcome, Succeeded):
        return True
    try:
        return bool(task.variables.get(f"{RESULT_PREFIX}{trace.step.name}") == stored_result(trace.outcome))
    except StoreError:
        return False
