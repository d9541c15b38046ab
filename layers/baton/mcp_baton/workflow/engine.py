"""The engine: runs the steps of a workflow in order and then writes all results at once (docs/workflows.md).

Read it from top to bottom: start or resume, the steps, the write, then repeated calls and resources. Decisions are pure
functions (`decide`, `run_batch`). The effects are here: create or claim the task, fetch, call, announce, write.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct, structs

from mcp_baton.exceptions import ClaimLost, OutcomeUnknown, StoreBusy, StoreError, TaskFinished, TaskNotFound, ValueLost
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.record import RESULT_PREFIX, Claim, StepStatus, TaskRecord
from mcp_baton.tasks.store import Batch, TaskStore, Timing, write_decided
from mcp_baton.tasks.values import read_ahead
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.workflow.batch import run_batch
from mcp_baton.workflow.definition import Step, Workflow, random_fraction
from mcp_baton.workflow.definition_changes import carried, move_to
from mcp_baton.workflow.handoff import RemainingCalls, uris_of
from mcp_baton.workflow.host import (
    Attempt,
    Failed,
    Failure,
    FetchedResource,
    Host,
    Outcome,
    Prepared,
    ResourceUnavailable,
    Skipped,
    Succeeded,
)
from mcp_baton.workflow.keys import Key, own_key, step_key
from mcp_baton.workflow.lease import Began, Lease, Over, Superseded, TaskOver, lease_end
from mcp_baton.workflow.pause import DeadlineExceeded, PauseReason, pause_after
from mcp_baton.workflow.repeats import Repeat, open_repeats, repeat
from mcp_baton.workflow.resolve import Known, Ready
from mcp_baton.workflow.run import (
    Blocked,
    Content,
    EndedRun,
    Run,
    RunInput,
    StepTrace,
    Stop,
    UnreadResource,
    new_task,
)
from mcp_baton.workflow.secrets import hidden_in
from mcp_baton.workflow.stored_calls import shown_call, stored_call

logger = logging.getLogger(__name__)

INTERNAL: Final = "internal error; the server's log has the details"
WRITE_ATTEMPTS: Final = 10
"""How often a run tries to write. Each lost race means that a continuation wrote in between."""


class Engine:
    """Runs workflows for one request.

    Args:
        store: The task store; `None` if the server has none.
        sleep: Waits the given number of seconds before a write is tried again.
    """

    def __init__(
        self,
        host: Host,
        store: TaskStore | None,
        clock: Callable[[], float] = time.monotonic,
        rng: Callable[[], float] = random_fraction,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._host = host
        self._store = store
        self._clock = clock
        self._rng = rng
        self._sleep = sleep

    # Start and resume

    def start(self, workflow: Workflow, run_input: RunInput) -> EndedRun:
        """Run a workflow from its first step. Create a task if the workflow is durable and there is a store.

        Raises:
            StoreBusy: the store is overloaded. Nothing was run.
        """
        lease = self._create(workflow, run_input) if workflow.durable else None
        statuses = {step.name: StepStatus.PENDING for step in workflow.steps}
        variables = TaskVariables(lease.task.variables if lease else {})
        return self._finish(Run(workflow, run_input, lease, variables, statuses))

    def _create(self, workflow: Workflow, run_input: RunInput) -> Lease | None:
        if self._store is None or run_input.owner is None:
            cause = "there is no task store" if self._store is None else "the caller has no identity"
            logger.warning("workflow %s runs without a task: %s", workflow.name, cause)
            return None
        new = new_task(workflow, run_input, run_input.owner, self._claim(self._store))
        try:
            return self._lease(self._store, self._store.create(new))
        except StoreBusy:
            raise
        except StoreError as error:
            if isinstance(error, OutcomeUnknown) and error.current:
                logger.exception("task %s: whether it was created is not known", error.current.task_id)
                return self._lease(self._store, error.current, unsure=True)
            logger.exception("workflow %s runs without a task: it could not be created", workflow.name)
            return None

    def take(self, workflow: Workflow, owner: str, task_id: str) -> TaskRecord:
        """Claim a task of this workflow for a resume, and read it.

        Raises:
            StoreError: as `TaskStore.take`, or there is no store. Nothing was run.
        """
        if self._store is None:
            raise TaskNotFound
        return self._store.take(owner, task_id, workflow.name, self._claim(self._store))

    def give_back(self, task: TaskRecord) -> None:
        """Release a claim under which nothing was run."""
        if self._store is None or task.claim is None:
            return
        try:
            self._store.renew(task, structs.replace(task.claim, until_ms=0))
        except StoreError:
            logger.warning("task %s: its claim could not be released; it will expire", task.task_id, exc_info=True)

    def resume(self, workflow: Workflow, run_input: RunInput, task: TaskRecord) -> EndedRun:
        """Continue from a task's stored state. Settled steps are not run again; later steps use their results.

        The caller has claimed the task and checked that its completed steps are the same in this definition.

        Raises:
            StoreUnavailable: a result that is stored outside the item cannot be read now. Nothing was run.
        """
        lease = self._lease(self._store, task) if self._store else None
        statuses = carried(task, workflow)
        run = Run(workflow, run_input, lease, TaskVariables(task.variables), statuses, move=move_to(workflow, task))
        completed = [step for step in workflow.steps if statuses[step.name] is StepStatus.COMPLETED]
        read_ahead(task.variables, [f"{RESULT_PREFIX}{step.name}" for step in completed])
        for step in completed:
            self._replay(run, step)
        skipped = (step for step in workflow.steps if statuses[step.name] is StepStatus.SKIPPED)
        run.traces += [StepTrace(step, None, (), Skipped(), replayed=True) for step in skipped]
        run.written = len(run.traces)
        return self._finish(run)

    def _replay(self, run: Run, step: Step) -> None:
        """Add the stored result of a completed step to the run."""
        value: Json
        try:
            value = run.variables.get(f"{RESULT_PREFIX}{step.name}")
        except ValueLost as lost:
            value = {"error": str(lost)}
            run.lost[step.name] = str(lost)
        else:
            run.outputs[step.name] = value
        arguments = self._replayed_arguments(run, step) if step.tool else None
        resources = () if step.tool else fetch_all(step.resources, step, run.known, self._host)
        run.traces.append(StepTrace(step, arguments, resources, Succeeded(value), replayed=True))

    def _replayed_arguments(self, run: Run, step: Step) -> JsonObject:
        """The arguments of a completed step's call, which a continuation or an earlier run made."""
        try:
            called = shown_call(run.variables, step.name)
        except ValueLost:
            called = None
        return RemainingCalls(run.known, self._host).arguments(step) if called is None else called

    def _claim(self, store: TaskStore) -> Claim:
        return Claim(new_token(), lease_end(store, self._host.left_ms))

    def _lease(self, store: TaskStore, task: TaskRecord, *, unsure: bool = False) -> Lease:
        lease = Lease(store, task, self._host.left_ms, self._clock, unsure=unsure)
        self._host.pulse = lease.pulse
        return lease

    # The steps, then the last write

    def _finish(self, run: Run) -> EndedRun:
        run.take_answers()
        stop = self._run_steps(run)
        if isinstance(stop, TaskOver | Superseded):
            run.not_written(over=True)
        else:
            over = self._write(run, stop, finished=stop is None, last=True)
            # If the task has expired or was deleted, the pause stands: the client can still make the remaining calls.
            stop = stop if over is None or over == TaskOver(None) else over
        return self._with_repeats(run, run.ended(stop))

    def _run_steps(self, run: Run) -> Stop | None:
        """Run the open steps in order; return why the run stops before the last one, if it does."""
        for number, step in enumerate(run.workflow.steps, 1):
            if run.statuses[step.name].settled:
                continue
            stop = self._run_step(run, number, step)
            if stop is None and step.checkpoint:
                stop = self._write(run, None, finished=False, last=False)
            if stop:
                return stop
        return None

    def _run_step(self, run: Run, number: int, step: Step) -> Stop | None:
        """Run one step. Even an error of Baton itself becomes a pause reason, and earlier results are still written."""
        try:
            return self._begin(run, number, step)
        except Exception as error:
            text = run.secrets.hide_text(self._host.words(step.tool or step.name, error))
            logger.exception("workflow %s: step %s: %s", run.workflow.name, step.name, text)
            return self._failed(run, step, Failed(text, error_id=self._host.error_id(error)), step.tool or "")

    def _begin(self, run: Run, number: int, step: Step) -> Stop | None:
        tool, lease = step.tool or "", run.lease
        run.began = None
        runs = run.known.decide_condition(step)
        if runs is False:
            run.settle(StepTrace(step, None, (), Skipped()))
            return None
        if runs is not True:
            run.blocked = Blocked(step, (), frozenset())
            return runs
        if stop := self._check_start(run, step):
            return stop
        if self._host.announces:
            self._host.announce(number, len(run.workflow.steps), step.name, lease.task.task_id if lease else None)
        fetched = fetch_before(step, run.known, self._host) if step.resources else NOTHING_FETCHED
        if fetched.error is not None:
            return self._failed(run, step, Failed(fetched.error, error_id=fetched.error_id), tool, fetched=fetched)
        decision: Ready | Stop = run.known.decide(step, self._host)
        if step.resources and lease is not None and not lease.is_safe():
            # Reading the resources took so long that the claim may have ended. The tool starts only if it is renewed.
            decision = self._check_start(run, step) or decision
        if isinstance(decision, TaskOver | Superseded):
            return decision
        if not isinstance(decision, Ready):
            run.blocked = Blocked(step, fetched.contents, fetched.read)
            return decision.without_secrets(run.secrets.hide_text)
        return self._perform(run, step, decision.call, fetched)

    def _check_start(self, run: Run, step: Step) -> Stop | None:
        """Why a step cannot start now: too little time is left, or another run has the task or could take it soon."""
        if not self._host.may_start():
            return DeadlineExceeded(step.name, step.tool or "")
        if run.lease is None:
            return None
        began = run.lease.begin()
        if began is None:
            return DeadlineExceeded(step.name, step.tool or "")
        if not isinstance(began, Began):
            return began
        run.began = run.began or began
        return None

    def _perform(self, run: Run, step: Step, call: Prepared | None, fetched: "Fetched") -> Stop | None:
        if call is None:
            run.settle(StepTrace(step, None, fetched.contents, Succeeded(None), timing=self._timing(run)))
            return None
        variables = run.variables if run.lease else None
        tried = attempt(step, self._host, call, self._key(run, step, call), variables, run.lease, self._rng)
        if tried.over and not tried.attempts:
            return tried.over
        if isinstance(tried.outcome, Failed):
            failed = tried.outcome
            pause = self._failed(run, step, failed, call.name, call.arguments, fetched, tried.attempts)
            return tried.over or pause
        kept, timing = _kept(run, step, call.arguments), self._timing(run)
        run.settle(StepTrace(step, call.arguments, fetched.contents, tried.outcome, tried.attempts, kept, timing))
        if step.resources:
            # The tool has run. A resource that cannot be fetched now must not cause a second call.
            later = [it for it in step.resources if step.read_after(it)]
            after = fetch_all(later, step, run.known, self._host)
            run.traces[-1] = structs.replace(run.traces[-1], after=after, timing=self._timing(run))
        return None

    def _failed(
        self,
        run: Run,
        step: Step,
        failed: Failed,
        tool: str,
        arguments: Mapping[str, Json] | None = None,
        fetched: "Fetched | None" = None,
        attempts: int = 0,
    ) -> PauseReason:
        fetched = fetched or NOTHING_FETCHED
        # The error is stored, and it may quote the arguments.
        failed = structs.replace(failed, error=run.secrets.hide_text(failed.error))
        kept, timing, outcome = _kept(run, step, arguments), self._timing(run), Failed(failed.error)
        contents, read, unread = fetched.contents, fetched.read, fetched.uri
        run.settle(StepTrace(step, arguments, contents, outcome, attempts, kept, timing, read=read, unread=unread))
        return pause_after(failed, step, step.name, tool, unread)

    def _timing(self, run: Run) -> Timing | None:
        """The timing of the present step, which has ended; `None` for a run without a task."""
        began = run.began
        return None if began is None else Timing(began.at_ms, round((self._clock() - began.at_s) * 1000))

    def _key(self, run: Run, step: Step, call: Prepared) -> Key | None:
        """The idempotency key of all attempts of a step; `None` for a single call of a run without a task, which gets
        a key of its own."""
        if run.lease is None:
            return own_key() if step.retry else None
        return step_key(run.lease.task.task_id, step.name, partial(self._host.canonical, call.name, call.arguments))

    def _with_repeats(self, run: Run, ended: EndedRun) -> EndedRun:
        """The ended run, with the steps that it may have repeated and those that another run may repeat."""
        lease = run.lease
        if lease is None or not (lease.held.interrupted or run.unrecorded):
            return ended
        known, task_id, host = run.known, lease.task.task_id, self._host

        def calls(traces: Iterable[StepTrace]) -> tuple[Repeat, ...]:
            return tuple(repeat(it.step, it.arguments, known, task_id, host.canonical) for it in traces if it.attempts)

        lost = calls(run.unrecorded)
        if not lease.held.interrupted:
            return structs.replace(ended, lost=lost)
        ran = calls(trace for trace in run.traces if not trace.replayed)
        return structs.replace(ended, lost=lost, twice=ran, before=open_repeats(known, task_id, host.canonical))

    # The write

    def _write(self, run: Run, pause: PauseReason | None, *, finished: bool, last: bool) -> Over | None:
        """Write what has not been written; the last write releases the claim.

        If the write fails, the client still gets the reply (docs/workflows.md, Without a task).

        Returns:
            Why the run cannot write to its task any more; `None` if it can.
        """
        lease = run.lease
        if lease is None or self._store is None:
            return None

        traces: list[StepTrace] = []

        def decided(task: TaskRecord) -> Batch:
            # The last write releases the claim, so it need not renew it.
            claim = lease.held if last else lease.claim()
            traces[:] = run.unwritten(task)
            return run_batch(
                task, traces, pause, run.variables, finished=finished, move=run.move, claim=claim, release=last
            )

        try:
            written = write_decided(
                self._store, lease.task, decided, attempts=WRITE_ATTEMPTS, sleep=self._sleep, rng=self._rng
            )
        except StoreError as error:
            return self._not_written(run, lease, error)
        if last:
            lease.task, lease.released = written.task, True
        else:
            lease.written(written.task)
        run.wrote(written.task, traces)
        run.not_kept(written.task, written.oversized)
        return None

    def _not_written(self, run: Run, lease: Lease, error: StoreError) -> Over | None:
        over = isinstance(error, ClaimLost | TaskFinished)
        run.not_written(unknown=isinstance(error, OutcomeUnknown), over=over)
        match error:
            case TaskFinished():
                lease.task = error.current
                return TaskOver(error.current.status)
            case ClaimLost():
                lease.task = error.current
                return Superseded()
            case TaskNotFound() if lease.unsure:
                logger.error("task %s: it was not created", lease.task.task_id)
                run.lease = None
                return None
            case TaskNotFound():
                return TaskOver(None)
        logger.error("task %s: the run could not be written", lease.task.task_id, exc_info=error)
        return None


def _kept(run: Run, step: Step, arguments: Mapping[str, Json] | None) -> JsonObject | None:
    """The arguments to store with the result: none, unless a person has given some of them."""
    if arguments is None or step.name not in run.input.answers:
        return None
    return stored_call(arguments, hidden_in(arguments, step.arguments, run.workflow.secrets))


# Attempts


class Tried(Struct, frozen=True):
    """How the calls of a step's tool ended.

    Attributes:
        over: Why the run cannot write to its task any more, so that there was no further attempt.
    """

    outcome: Outcome
    attempts: int
    over: Over | None = None


def attempt(
    step: Step,
    host: Host,
    call: Prepared,
    key: Key | None,
    variables: TaskVariables | None,
    lease: Lease | None,
    rng: Callable[[], float] = random_fraction,
) -> Tried:
    """Call a step's tool until it succeeds, or must not or cannot be called again.

    Args:
        variables: The task's variables; `None` without a task.
    """
    outcome = host.run(call, variables, Attempt(1, key))
    if _did_not_begin(outcome):
        # The claim is renewed just before a call. The renewal may show that the task is over or has another run.
        return Tried(outcome, 0, lease.over if lease else None)
    tried = Tried(outcome, 1)
    while isinstance(tried.outcome, Failed) and _may_pass(step, tried.outcome, tried.attempts):
        wait_s = step.retry.wait_s(tried.attempts, rng) if step.retry else 0.0
        if not host.may_start(wait_s):
            break
        host.wait(wait_s)
        over = lease.check() if lease else None
        if over or not host.may_start() or (lease and not lease.is_safe()):
            return Tried(tried.outcome, tried.attempts, over)
        again = host.run(call, variables, Attempt(tried.attempts + 1, key))
        if _did_not_begin(again):
            break
        tried = Tried(again, tried.attempts + 1)
    return tried


def _did_not_begin(outcome: Outcome) -> bool:
    return isinstance(outcome, Failed) and outcome.kind is Failure.NOT_BEGUN


def _may_pass(step: Step, failed: Failed, attempts: int) -> bool:
    """Whether the call may be made again. A call that timed out may have happened: only a retryable step repeats it."""
    if step.retry is None or attempts >= step.retry.attempts or failed.asks_client:
        return False
    match failed.kind:
        case Failure.RAISED:
            return isinstance(failed.cause, step.retry.on) and not failed.final
        case Failure.TIMED_OUT:
            return step.retryable
        case _:
            return False


# Resources


class Fetched(Struct, frozen=True):
    """The resources that were fetched before a step's tool.

    Attributes:
        error: Why the next one could not be fetched; `None` if all were fetched.
        uri: The URI of the resource that could not be fetched.
        error_id: Identifies the error in the server's log, if its text is hidden from clients.
    """

    contents: tuple[FetchedResource, ...] = ()
    read: frozenset[str] = frozenset()
    error: str | None = None
    uri: str | None = None
    error_id: str | None = None


NOTHING_FETCHED: Final = Fetched()


def fetch_before(step: Step, known: Known, host: Host) -> Fetched:
    """Fetch the resources that do not need the tool's output, up to the first one that fails.

    A resource whose URI is not known yet is left out; `decide` says why.
    """
    contents: list[FetchedResource] = []
    read: set[str] = set()
    for resource in step.resources:
        uri = None if step.read_after(resource) else known.uri_of(resource, step)
        if not isinstance(uri, str):
            continue
        found = _read(uri, host)
        if isinstance(found, ResourceUnavailable):
            return Fetched(tuple(contents), frozenset(read), str(found), uri, found.error_id)
        contents.extend(found)
        read.add(resource)
    return Fetched(tuple(contents), frozenset(read))


def fetch_all(resources: Sequence[str], step: Step, known: Known, host: Host) -> tuple[Content, ...]:
    """Fetch these resources of a step whose tool has run. A resource that cannot be read is replaced by the reason."""
    contents: list[Content] = []
    for resource in resources:
        uri = known.uri_of(resource, step)
        if not isinstance(uri, str):
            shown = uris_of(step, known)[resource]
            contents.append(UnreadResource(shown, "a value in its URI is not known"))
            continue
        found = _read(uri, host) if host.may_start() else ResourceUnavailable("too little time is left")
        contents.extend([UnreadResource(uri, str(found))] if isinstance(found, ResourceUnavailable) else found)
    return tuple(contents)


def _read(uri: str, host: Host) -> Sequence[FetchedResource] | ResourceUnavailable:
    try:
        return host.read(uri)
    except ResourceUnavailable as error:
        return error
    except Exception:
        logger.exception("reading the resource %s failed", uri)
        return ResourceUnavailable(INTERNAL)
