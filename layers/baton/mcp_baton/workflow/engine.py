"""The engine: runs a workflow's steps in order as far as it can, then writes everything it has learnt at once.

Decisions are pure functions (`decide`, `run_batch`); the effects are here, in `steps` and in `holding`, and few: create
or take the task, fetch, call, announce, write (docs/workflows.md).
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

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
from mcp_baton.workflow.handoff import preview_arguments, preview_uris
from mcp_baton.workflow.host import (
    Attempt,
    Failed,
    Failure,
    FetchedResource,
    Host,
    Outcome,
    Prepared,
    ResourceUnavailable,
    Succeeded,
)
from mcp_baton.workflow.kept_calls import kept_call, shown_call
from mcp_baton.workflow.keys import Key, own_key, step_key
from mcp_baton.workflow.lease import Began, Lease, Over, Superseded, TaskOver, lease_end
from mcp_baton.workflow.pause import DeadlineExceeded, PauseReason, pause_after
from mcp_baton.workflow.repeats import Repeat, open_repeats, repeat
from mcp_baton.workflow.resolve import Known, Ready, decide, resolve_uri
from mcp_baton.workflow.run import (
    Blocked,
    Content,
    EndedRun,
    Invocation,
    Run,
    StepTrace,
    Stop,
    UnreadResource,
    new_task,
)
from mcp_baton.workflow.secrets import hidden_in

INTERNAL = "internal error; the server's log has the details"


class Fetched(Struct, frozen=True):
    """What was fetched before a step's tool.

    Attributes:
        contents: The contents, in order.
        read: Which of the step's `resources` these are, as the step has them.
        error: Why the next one could not be fetched; `None` when all went well.
        uri: The URI of the one that could not be fetched.
        error_id: Finds the error in the server's log, if its text is hidden from clients.
    """

    contents: tuple[FetchedResource, ...]
    read: frozenset[str]
    error: str | None = None
    uri: str | None = None
    error_id: str | None = None


NOTHING_FETCHED = Fetched((), frozenset())


def fetch_before(step: Step, workflow: Workflow, known: Known, host: Host) -> Fetched:
    """Fetch what can be fetched before the tool, up to the first resource that fails.

    One whose URI is not known yet is passed over: `decide` says why.
    """
    if not step.resources:
        return NOTHING_FETCHED
    contents: list[FetchedResource] = []
    read: set[str] = set()
    for resource in step.resources:
        uri = None if step.read_after(resource) else resolve_uri(resource, step, workflow, known)
        if not isinstance(uri, str):
            continue
        found = _read(uri, host)
        if isinstance(found, ResourceUnavailable):
            return Fetched(tuple(contents), frozenset(read), str(found), uri, found.error_id)
        contents.extend(found)
        read.add(resource)
    return Fetched(tuple(contents), frozenset(read))


def fetch_after(step: Step, workflow: Workflow, known: Known, host: Host) -> tuple[Content, ...]:
    """Fetch the resources that need the output of the step's tool, which has been called."""
    return _fetch_all([it for it in step.resources if step.read_after(it)], step, workflow, known, host)


def fetch_again(step: Step, workflow: Workflow, known: Known, host: Host) -> tuple[Content, ...]:
    """Fetch the resources of a step that an earlier call has completed."""
    return _fetch_all(step.resources, step, workflow, known, host)


def _fetch_all(
    resources: Sequence[str], step: Step, workflow: Workflow, known: Known, host: Host
) -> tuple[Content, ...]:
    contents: list[Content] = []
    for resource in resources:
        uri = resolve_uri(resource, step, workflow, known)
        if not isinstance(uri, str):
            shown = preview_uris(step, workflow, known)[resource]
            contents.append(UnreadResource(shown, "a value in its URI is not known"))
            continue
        found = _read(uri, host) if host.may_start() else ResourceUnavailable("too little time is left")
        contents.extend([UnreadResource(uri, str(found))] if isinstance(found, ResourceUnavailable) else found)
    return tuple(contents)


def _read(uri: str, host: Host) -> Sequence[FetchedResource] | ResourceUnavailable:
    """The contents at a URI, or why they cannot be had."""
    try:
        return host.read(uri)
    except ResourceUnavailable as error:
        return error
    except Exception:
        logger.exception("the resource %s broke", uri)
        return ResourceUnavailable(INTERNAL)


class Tried(Struct, frozen=True):
    """How the calls of a step's tool ended.

    Attributes:
        outcome: That of the last call that was begun.
        attempts: How many were begun.
        over: The task came to an end, or was taken over, meanwhile, so that there was no further attempt.
    """

    outcome: Outcome
    attempts: int
    over: Over | None = None


class Steps:
    """Runs a workflow's steps.

    Args:
        host: The server's tools, resources and clock, and its notifications to the client.
        clock: Seconds, from any moment on.
        rng: Gives a number from 0 up to 1, for the waits between attempts.
    """

    def __init__(self, host: Host, clock: Callable[[], float], rng: Callable[[], float]) -> None:
        self._host = host
        self._clock = clock
        self._rng = rng

    def advance(self, run: Run, checkpoint: Callable[[Run], Over | None]) -> Stop | None:
        """Run steps in order as far as they go; why the run stops, if it does before the last one.

        Args:
            run: The run.
            checkpoint: Writes what has not been written; says why the run must stop, if it must.
        """
        for number, step in enumerate(run.workflow.steps, 1):
            status = run.statuses[step.name]
            if status is not StepStatus.PENDING and status.settled:
                continue
            stop = self._begin_safely(run, number, step)
            if stop is None and step.checkpoint:
                stop = checkpoint(run)
            if stop:
                return stop
        return None

    def _begin_safely(self, run: Run, number: int, step: Step) -> Stop | None:
        """No stop is ever silent: even a fault of Baton's own leaves a pause reason, and the batch is still written."""
        try:
            return self._begin(run, number, step)
        except Exception as error:
            words = run.secrets.hide_text(self._host.words(step.tool or step.name, error))
            logger.exception("workflow %s: step %s: %s", run.workflow.name, step.name, words)
            failed = Failed(words, error_id=self._host.error_id(error))
            return self._failed(run, step, None, (), failed, step.tool or "")

    def _begin(self, run: Run, number: int, step: Step) -> Stop | None:
        run.began = None
        if not self._host.may_start():
            return DeadlineExceeded(step.name, step.tool or "")
        lease = run.lease
        if lease is not None:
            began = lease.begin()
            if began is None:
                return DeadlineExceeded(step.name, step.tool or "")
            if not isinstance(began, Began):
                return began
            run.began = began
        if self._host.announces:
            self._host.announce(number, len(run.workflow.steps), step.name, lease.task.task_id if lease else None)
        fetched = fetch_before(step, run.workflow, run.known, self._host) if step.resources else NOTHING_FETCHED
        if fetched.error is not None:
            failed = Failed(fetched.error, error_id=fetched.error_id)
            tool, uri = step.tool or "", fetched.uri
            return self._failed(run, step, None, fetched.contents, failed, tool, read=fetched.read, unread=uri)
        decision = decide(step, run.workflow, run.known, self._host)
        if not isinstance(decision, Ready):
            run.blocked = Blocked(step, fetched.contents, fetched.read)
            return decision.without_secrets(run.secrets.hide_text)
        return self._perform(run, step, decision.call, fetched)

    def _perform(self, run: Run, step: Step, call: Prepared | None, fetched: Fetched) -> Stop | None:
        if call is None:
            run.settle(StepTrace(step, None, fetched.contents, Succeeded(None), timing=self._timing(run)))
            return None
        key, variables = self._key(run, step, call), run.variables if run.lease else None
        tried = attempt(step, self._host, call, key, variables, run.lease, self._rng)
        outcome, attempts = tried.outcome, tried.attempts
        if tried.over and not attempts:
            return tried.over
        if isinstance(outcome, Failed):
            pause = self._failed(
                run, step, call.arguments, fetched.contents, outcome, call.name, read=fetched.read, attempts=attempts
            )
            return tried.over or pause
        kept, timing = _kept(run, step, call.arguments), self._timing(run)
        run.settle(StepTrace(step, call.arguments, fetched.contents, outcome, attempts, kept, timing))
        if step.resources:
            # The tool has done its work: what cannot be fetched now must not make anybody call it again.
            after = fetch_after(step, run.workflow, run.known, self._host)
            run.traces[-1] = structs.replace(run.traces[-1], after=after, timing=self._timing(run))
        return None

    def _timing(self, run: Run) -> Timing | None:
        """Of the present step, which has ended; `None` where no task notes it."""
        began = run.began
        return None if began is None else Timing(began.at_ms, round((self._clock() - began.at_s) * 1000))

    def _key(self, run: Run, step: Step, call: Prepared) -> Key | None:
        """The step's idempotency key; a run without a task is all that its calls belong to. A call that is made once
        gets its own, when it asks for it."""
        if run.lease is None:
            return own_key() if step.retry else None
        task_id, canonical, made = run.lease.task.task_id, self._host.canonical, list[Key]()

        def key() -> str:
            if not made:
                made.append(step_key(task_id, step.name, lambda: canonical(call.name, call.arguments)))
            return made[0]()

        return key

    def _failed(
        self,
        run: Run,
        step: Step,
        arguments: Mapping[str, Json] | None,
        resources: tuple[Content, ...],
        failed: Failed,
        tool: str,
        *,
        read: frozenset[str] = frozenset(),
        attempts: int = 0,
        unread: str | None = None,
    ) -> PauseReason:
        # An error may quote what the tool was called with, and it is stored.
        failed = replace(failed, error=run.secrets.hide_text(failed.error))
        kept, timing, outcome = _kept(run, step, arguments), self._timing(run), Failed(failed.error)
        run.settle(StepTrace(step, arguments, resources, outcome, attempts, kept, timing, read=read, unread=unread))
        return pause_after(failed, step, step.name, tool, unread)


def _kept(run: Run, step: Step, arguments: Mapping[str, Json] | None) -> JsonObject | None:
    """What is kept of a call's arguments: nothing, unless a person has given some of them."""
    if arguments is None or step.name not in run.invocation.answers:
        return None
    return kept_call(arguments, hidden_in(arguments, step.arguments, run.workflow.secrets))


def attempt(
    step: Step,
    host: Host,
    call: Prepared,
    key: Key | None,
    variables: TaskVariables | None,
    lease: Lease | None,
    rng: Callable[[], float] = random_fraction,
) -> Tried:
    """Call a step's tool until it succeeds, or must not or cannot be called again. What tells the calls apart is the
    `Attempt`.

    Args:
        step: The step.
        host: Has the tool; its clock says whether there is time for a wait and for a call after it.
        call: What it is called with.
        key: The idempotency key of all calls.
        variables: The task's variables; `None` without a task.
        lease: The run's hold on its task; `None` for a run without one.
        rng: Gives a number from 0 up to 1, for the jitter.
    """
    outcome = host.run(call, variables, Attempt(1, key))
    if _was_not_begun(outcome):
        # The claim is renewed just before a call, which may tell that the task is over, or another run's.
        return Tried(outcome, 0, lease.over if lease else None)
    tried = Tried(outcome, 1)
    while isinstance(tried.outcome, Failed) and _may_pass(step, tried.outcome, tried.attempts):
        wait_s = step.retry.wait_s(tried.attempts, rng) if step.retry else 0.0
        if not host.may_start(wait_s):
            break
        host.wait(wait_s)
        over = lease.look() if lease else None
        if over or not host.may_start() or (lease and not lease.is_sure()):
            return Tried(tried.outcome, tried.attempts, over)
        again = host.run(call, variables, Attempt(tried.attempts + 1, key))
        if _was_not_begun(again):
            break
        tried = Tried(again, tried.attempts + 1)
    return tried


def _was_not_begun(outcome: Outcome) -> bool:
    return isinstance(outcome, Failed) and outcome.kind is Failure.NOT_BEGUN


def _may_pass(step: Step, failed: Failed, attempts: int) -> bool:
    """Whether the call may be made again. One that timed out may have happened, so the step must say that it may."""
    if step.retry is None or attempts >= step.retry.attempts or failed.asks_client:
        return False
    match failed.kind:
        case Failure.RAISED:
            return isinstance(failed.cause, step.retry.on) and not failed.final
        case Failure.TIMED_OUT:
            return step.retryable
        case _:
            return False


logger = logging.getLogger(__name__)

WRITE_ATTEMPTS = 10
"""How often a run tries to write: each lost race means that a continuation got in between."""


class Engine:
    """Runs workflows for one request.

    Args:
        host: The server's tools, resources and clock, and its notifications to the client.
        store: Where tasks are kept; `None` where there is no store.
        clock: Seconds, from any moment on.
        rng: Gives a number from 0 up to 1, for the waits between attempts.
        sleep: Lets so many seconds pass, between two decisions about a write that lost its race.
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
        self._steps = Steps(host, clock, rng)

    def start(self, workflow: Workflow, invocation: Invocation) -> EndedRun:
        """Run a workflow from its first step, as a new task if it is durable and the store takes one.

        Raises:
            StoreBusy: the store is asked for more than it can bear. Nothing was run.
        """
        lease = self._create(workflow, invocation) if workflow.durable else None
        statuses = {step.name: StepStatus.PENDING for step in workflow.steps}
        variables = TaskVariables(lease.task.variables if lease else {})
        return self._finish(Run(workflow, invocation, lease, variables, statuses))

    def take(self, workflow: Workflow, owner: str, task_id: str) -> TaskRecord:
        """Claim a task of this workflow, for a resume, and read it.

        Raises:
            StoreError: as `TaskStore.take`; nothing was run. There is no store.
        """
        if self._store is None:
            raise TaskNotFound
        return self._store.take(owner, task_id, workflow.name, self._claim(self._store))

    def give_back(self, task: TaskRecord) -> None:
        """Give up a claim under which nothing was run."""
        if self._store is None or task.claim is None:
            return
        try:
            self._store.renew(task, replace(task.claim, until_ms=0))
        except StoreError:
            logger.warning("task %s: its claim could not be given back; it will run out", task.task_id, exc_info=True)

    def resume(self, workflow: Workflow, invocation: Invocation, task: TaskRecord) -> EndedRun:
        """Go on from a task's stored state: settled steps are not run again, their results bind.

        The caller has taken the task, and made sure that what it has completed is as in this definition.

        Raises:
            StoreUnavailable: a result that outgrew the item cannot be read now. Nothing was run.
        """
        lease = self._lease(self._store, task) if self._store else None
        statuses = carried(task, workflow)
        run = Run(workflow, invocation, lease, TaskVariables(task.variables), statuses, move=move_to(workflow, task))
        done = [name for name, status in statuses.items() if status is StepStatus.COMPLETED]
        read_ahead(task.variables, [f"{RESULT_PREFIX}{name}" for name in done])
        for step in workflow.steps:
            if statuses[step.name] is StepStatus.COMPLETED and step.name not in invocation.answers:
                self._replay(run, step)
        run.written = len(run.traces)
        return self._finish(run)

    def _create(self, workflow: Workflow, invocation: Invocation) -> Lease | None:
        if self._store is None or invocation.owner is None:
            cause = "there is no task store" if self._store is None else "the caller has no identity"
            logger.warning("workflow %s runs without a task: %s", workflow.name, cause)
            return None
        new = new_task(workflow, invocation, invocation.owner, self._claim(self._store))
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

    def _claim(self, store: TaskStore) -> Claim:
        return Claim(new_token(), lease_end(store, self._host.left_ms))

    def _lease(self, store: TaskStore, task: TaskRecord, *, unsure: bool = False) -> Lease:
        lease = Lease(store, task, self._host.left_ms, self._clock, unsure=unsure)
        self._host.pulse = lease.pulse
        return lease

    def _replay(self, run: Run, step: Step) -> None:
        value: Json
        try:
            value = run.variables.get(f"{RESULT_PREFIX}{step.name}")
        except ValueLost as lost:
            value = {"error": str(lost)}
            run.lost[step.name] = str(lost)
        else:
            run.outputs[step.name] = value
        arguments = self._arguments(run, step) if step.tool else None
        resources = () if step.tool else fetch_again(step, run.workflow, run.known, self._host)
        run.traces.append(StepTrace(step, arguments, resources, Succeeded(value), replayed=True))

    def _arguments(self, run: Run, step: Step) -> JsonObject:
        """What a completed step was called with: by a continuation, else by a run."""
        try:
            called = shown_call(run.variables, step.name)
        except ValueLost:
            called = None
        return preview_arguments(step, run.workflow, run.known, self._host) if called is None else called

    def _finish(self, run: Run) -> EndedRun:
        run.take_answers()
        stop = self._steps.advance(run, self._checkpoint)
        if isinstance(stop, TaskOver | Superseded):
            run.not_written(over=True)
        else:
            over = self._write(run, stop, finished=stop is None, last=True)
            # Where there is no task any more, nobody has decided against the calls that are left.
            stop = stop if over is None or over == TaskOver(None) else over
        return self._with_repeats(run, run.ended(stop))

    def _with_repeats(self, run: Run, ended: EndedRun) -> EndedRun:
        """The run, with the steps that it may have repeated, or that another run may repeat."""
        lease = run.lease
        if lease is None or not (lease.held.interrupted or run.unrecorded):
            return ended
        known, task_id, host = run.known, lease.task.task_id, self._host

        def calls(traces: Iterable[StepTrace]) -> tuple[Repeat, ...]:
            return tuple(repeat(it.step, it.arguments, known, task_id, host) for it in traces if it.attempts)

        lost = calls(run.unrecorded)
        if not lease.held.interrupted:
            return structs.replace(ended, lost=lost)
        ran = calls(trace for trace in run.traces if not trace.replayed)
        return structs.replace(ended, lost=lost, twice=ran, before=open_repeats(run.workflow, known, task_id, host))

    def _checkpoint(self, run: Run) -> Over | None:
        return self._write(run, None, finished=False, last=False)

    def _write(self, run: Run, pause: PauseReason | None, *, finished: bool, last: bool) -> Over | None:
        """Write what has not been written; the last write gives the claim up. A failure costs durability, never the
        reply (docs/workflows.md, Without a task). A task that is over, or another run's, takes nothing."""
        lease = run.lease
        if lease is None or self._store is None:
            return None

        traces: list[StepTrace] = []

        def decided(task: TaskRecord) -> Batch:
            # Of a claim that is given up it does not matter when it would end.
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
