"""A run: it makes the calls of a workflow's steps, and then writes all results at once (docs/workflows.md).

The loop knows only what all kinds of steps have in common (`Step`): each kind says how it starts, what it does and how
it ends. The decisions are pure functions (`Workflow.ready`, `KnownValues`, `run_batch`).
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from msgspec import structs

from mcp_baton.exceptions import (
    StoreError,
    StoreUnavailable,
    ToolError,
    ValueLost,
)
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.keys import Key, own_key, step_key
from mcp_baton.tasks.record import (
    ELEMENTS_PREFIX,
    ITEMS_PREFIX,
    MAX_JOBS_PER_TASK,
    RESULT_PREFIX,
    WAITING_JOBS,
    NewTask,
    StepStatus,
    TaskRecord,
    timestamp,
    waiting_jobs,
)
from mcp_baton.tasks.starts import Start
from mcp_baton.tasks.store import TaskStore, Timing
from mcp_baton.tasks.values import read_ahead
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.approval import AFTER_WAITS_MS, denied_call
from mcp_baton.tools.calls import ToolCall
from mcp_baton.tools.outcomes import Failed, Failure, Prepared, Succeeded
from mcp_baton.workflow import resources
from mcp_baton.workflow.definition_changes import move_to, statuses_under
from mcp_baton.workflow.ended_run import EndedRun
from mcp_baton.workflow.host import Host, Skipped, Threads
from mcp_baton.workflow.lease import Lease, Over, Superseded, TaskOver, ThreadLease, release_claim
from mcp_baton.workflow.list_elements import item_name
from mcp_baton.workflow.pause import (
    AnswersRequired,
    DeadlineExceeded,
    Remedy,
    approval_pause,
    pause_after,
    suspends,
)
from mcp_baton.workflow.remaining import RemainingCalls
from mcp_baton.workflow.repeats import Repeat, open_repeats, repeat
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.run_task import create_lease
from mcp_baton.workflow.secrets import hidden_in
from mcp_baton.workflow.state import State
from mcp_baton.workflow.step_run import StepRun, Stop
from mcp_baton.workflow.steps.retry import system_random_fraction
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.stored_calls import shown_call, stored_call
from mcp_baton.workflow.write import RunWriter

logger = logging.getLogger(__name__)


class WorkflowRun(State):
    """A run of a workflow for one request.

    Args:
        store: The task store; `None` if the server has none.
        known: What is known before the run.
        sleep: Waits the given number of seconds before a write is tried again.
    """

    def __init__(
        self,
        host: Host,
        store: TaskStore | None,
        known: KnownValues,
        *,
        clock: Callable[[], float] = time.monotonic,
        rng: Callable[[], float] = system_random_fraction,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(known)
        self.host = host
        self.rng = rng
        self._store = store
        self._clock = clock
        self._writer = RunWriter(self, store, sleep, rng)

    @property
    def is_written(self) -> bool:
        """Whether the last write was made."""
        return self._writer.is_made

    def now_ms(self) -> int:
        return self._store.now_ms() if self._store else time.time_ns() // 1_000_000

    # Start and resume

    def start(self, task: NewTask, start: Start | None = None) -> EndedRun:
        """Run the workflow from its first step. Create the task if the workflow is durable and there is a store.

        Args:
            start: The stored start of the call; `None` if repeated calls are not found.

        Raises:
            StoreBusy: the store is overloaded. Nothing was run.
        """
        is_durable = self.workflow.durable
        lease = create_lease(self.host, self._store, task, start, self._clock) if is_durable else None
        if lease is not None:
            self._use_lease(lease)
        return self._finish()

    def _use_lease(self, lease: Lease) -> None:
        self.lease, self.task_id, self.host.pulse = lease, lease.task.task_id, lease.pulse
        self.use_variables(TaskVariables(lease.task.variables))

    def resume(self, task: TaskRecord) -> EndedRun:
        """Continue from a task's stored state. Settled steps are not run again; later steps use their results.

        The caller has claimed the task and checked that its completed steps are the same in this definition.

        Raises:
            StoreUnavailable: a result that is stored outside the item cannot be read now. Nothing was run.
        """
        if self._store is not None:
            self._use_lease(Lease(self._store, task, self.host.left_ms, self._clock))
        workflow, statuses = self.workflow, statuses_under(task, self.workflow)
        self.statuses.update(statuses)
        self.move = move_to(workflow, task)
        completed = [step for step in workflow.steps if statuses[step.name] is StepStatus.COMPLETED]
        steps = [step for step in workflow.steps if not statuses[step.name].settled]
        lists = [f"{prefix}{step.name}" for step in steps for prefix in (ELEMENTS_PREFIX, ITEMS_PREFIX)]
        lists = [name for name in lists if name in task.variables]
        read_ahead(task.variables, [*(f"{RESULT_PREFIX}{step.name}" for step in completed), *lists])
        for name in lists:
            with suppress(ValueLost):  # `decide_items` reports it
                task.variables[name]
        for step in completed:
            self._replay(step)
        for step in workflow.steps:
            if statuses[step.name] is StepStatus.SKIPPED:
                skipped = Skipped(step.why_skipped(task))
                self.traces.append(StepRun(step, outcome=skipped, replayed=True, written=True))
        self._hold_early()
        return self._finish()

    def _replay(self, step: Step) -> None:
        value: Json
        try:
            value = self.variables.get(f"{RESULT_PREFIX}{step.name}")
        except ValueLost as lost:
            value = {"error": str(lost)}
            self.lost_results[step.name] = str(lost)
        else:
            self.outputs[step.name] = value
        this = StepRun(step, outcome=Succeeded(value), replayed=True, written=True)
        step.replay(self, this)
        self.traces.append(this)

    def replayed_arguments(self, step: Step) -> JsonObject:
        """The arguments of a completed step's call, which a continuation or an earlier run made."""
        try:
            arguments = shown_call(self.variables, step.name)
        except ValueLost:
            arguments = None
        return RemainingCalls(self.known, self.host).arguments(step) if arguments is None else arguments

    # The steps, then the last write

    def _finish(self) -> EndedRun:
        self._take_answers()
        while True:
            self._run_steps()
            self._note_job()
            over = self.over
            if over is not None:
                self._writer.note_failed(over=True)
                break
            over = self._writer.write(last=True)
            if over is None and self._take_all_settled():
                continue
            # If the task has expired or was deleted, the pauses are kept: the client can still make the other calls.
            is_gone = isinstance(over, TaskOver) and over.status is None
            over = None if is_gone else over
            break
        return self._with_repeats(self._ended(over))

    def _run_steps(self) -> None:
        """Make all calls that can be made. Steps that could not be settled are in `stops`."""
        threads = self.host.threads() if self.workflow.is_parallel else None
        try:
            while True:
                this = self._next()
                if this is not None and threads is not None and this.step.in_thread:
                    self._perform_in_thread(this, threads)
                elif this is not None:
                    self._end(self._perform(this, self.host, self.lease))
                elif threads is not None and self.running:
                    self._end(threads.next())
                else:
                    self._update_questions(self.host)
                    return
        finally:
            if threads is not None:
                threads.close()

    def _next(self) -> StepRun | None:
        """What runs next, a step or an element of a list; `None` if nothing can start now."""
        while not self.is_over:
            of_list = self._list_with_room() if self.lists else None
            step: Step | None = of_list
            if of_list is None and self._running_steps < self.workflow.parallel:
                step = next(self.workflow.ready(self.statuses, self.started), None)
            if step is None:
                return None
            try:
                this: StepRun | None = self._start(step) if of_list is None else of_list.next_call(self)
            except Exception as error:  # noqa: BLE001 - `_fail_internally` logs it
                self._end(self._fail_internally(StepRun(step), error))
                continue
            if this is not None:
                return this
        return None

    def _start(self, step: Step) -> StepRun | None:
        """Start a step; `None` if the step is skipped, cannot start, or does nothing more."""
        self.started.add(step.name)
        this = StepRun(step)
        decision = self.known.decide_condition(step)
        if decision is False:
            self._skip(step)
            return None
        if decision is True:
            if self._use_early(step):
                return None
            this.stop = step.may_start(self, this)
        else:
            this.stop = decision
        if this.stop is not None:
            self.stop_at(this)
            return None
        if self.host.announces:
            number = sum(status.settled for status in self.statuses.values()) + self._running_steps + 1
            task_id = self.lease.task.task_id if self.lease else None
            self.host.announce(number, len(self.workflow.steps), step.name, task_id)
        next_call: StepRun | None = step.start(self, this)
        return next_call

    def _perform_in_thread(self, this: StepRun, threads: Threads) -> None:
        self.running[this.step.name] = self.running.get(this.step.name, 0) + 1
        if self.lease is None:
            threads.start(lambda host: self._perform(this, host, None), None)
            return
        this.variables = self.variables.branch()
        lease = ThreadLease(self.lease, threads.ask)
        threads.start(lambda host: self._perform(this, host, lease), lease.pulse)

    def _perform(self, this: StepRun, host: Host, lease: Lease | ThreadLease | None) -> StepRun:
        """Do a step, perhaps in another thread. Even an internal error of Baton becomes a pause reason, so that earlier
        results are still written."""
        try:
            this.step.perform(self, this, host, lease)
        except Exception as error:  # noqa: BLE001 - `_fail_internally` logs it
            return self._fail_internally(
                StepRun(
                    this.step,
                    index=this.index,
                    variables=this.variables,
                    begun_ms=this.begun_ms,
                    begun_s=this.begun_s,
                ),
                error,
            )
        return this

    def _fail_internally(self, this: StepRun, error: Exception) -> StepRun:
        step = this.step
        text = self.secrets.hide_text(self.host.words(step.tool or step.name, error))
        logger.error("workflow %s: step %s: %s", self.workflow.name, step.name, text, exc_info=error)
        self.fail(this, Failed(text, error_id=self.host.error_id(error)))
        return this

    def _end(self, this: StepRun) -> None:
        name = this.step.name
        if name in self.running:
            self.running[name] -= 1
            if not self.running[name]:
                del self.running[name]
        if this.variables is not None:
            self.variables.merge(this.variables)
        this.step.end(self, this)

    # What the kinds of steps use

    def begin(self, this: StepRun, host: Host, lease: Lease | ThreadLease | None) -> Stop | None:
        """Note when a call begins. If it cannot begin now, return why: too little time is left, or another run has the
        task or could take it soon."""
        if not host.may_start():
            return DeadlineExceeded(this.step.name, this.step.tool or "")
        if lease is None:
            return None
        begun_ms = lease.begin()
        if isinstance(begun_ms, int):
            this.begun_ms, this.begun_s = begun_ms, self._clock()
            return None
        return begun_ms or DeadlineExceeded(this.step.name, this.step.tool or "")

    def check_claim(self, step: Step, host: Host, lease: Lease | ThreadLease | None) -> Stop | None:
        """Why a step that has waited for something must not go on; `None` if it can."""
        return None if lease is None or lease.is_safe() else self.begin(StepRun(step), host, lease)

    def fetch_before(self, this: StepRun, host: Host) -> Failed | None:
        return resources.fetch_before(this, self.known_to(this), host)

    def fetch_again(self, this: StepRun) -> None:
        this.resources = resources.fetch_all(this.step.resources, this.step, self.known, self.host)

    def fetch_after(self, this: StepRun, uris: Sequence[str], known: KnownValues, host: Host) -> None:
        this.after = resources.fetch_all(uris, this.step, known, host)
        this.timing = self.timing(this)

    def stop_before(self, this: StepRun, stop: Stop) -> None:
        """Note why a tool is not called."""
        if isinstance(stop, TaskOver | Superseded):
            this.stop = stop
            return
        reason = stop.without_secrets(self.secrets.hide_text)
        if this.index is not None:
            # The same call would lack the value again, also if the step is retryable.
            this.failed = Failed(reason.as_error(), cause=ToolError(reason.as_error(), retryable=False))
            return
        # If the model has made the call and a person has denied it, the model is not asked for the values again.
        denied = denied_call(self.variables, this.step.name) if stop.remedy is Remedy.VALUES else None
        this.stop = reason if denied is None else approval_pause(this.step.name, denied)

    def tool_call(self, this: StepRun, prepared: Prepared, earlier_attempts: int) -> ToolCall:
        """Which call this is, at its first attempt in this run."""
        step, lease, index = this.step, self.lease, this.index
        name = step.name if index is None else item_name(step.name, index)
        task, attempt_name = (None, "") if lease is None else (lease.task, f"run:{lease.current_claim.number}")
        return ToolCall(
            self.workflow,
            step,
            name,
            task,
            is_turn=True,
            is_item=index is not None,
            by=attempt_name,
            secrets=self.secrets,
            number=1 + earlier_attempts,
            key=self._key(step, name, prepared),
            variables=None if lease is None else self.variables if this.variables is None else this.variables,
        )

    def _key(self, step: Step, name: str, prepared: Prepared) -> Key | None:
        """The idempotency key of all attempts of a call; `None` for a single call of a run without a task, which gets
        a key of its own."""
        if self.task_id is None:
            return own_key() if step.retry else None
        return step_key(self.task_id, name, partial(self.host.canonical, prepared.name, prepared.arguments))

    def next_attempt_ms(self, this: StepRun) -> int | None:
        """When a worker makes the next attempt of a failed call, epoch milliseconds; `None` if none can be made."""
        if this.retry_s is None or self.lease is None:
            return None
        now_ms = self.now_ms()
        until_ms = self.end_of_wait(now_ms + round(this.retry_s * 1000), now_ms)
        return until_ms if isinstance(until_ms, int) else None

    def succeed(self, this: StepRun, value: Json, arguments: JsonObject | None = None) -> None:
        """Note the result of a step."""
        if self.secrets.hide(value) != value:
            text = "workflow %s, step %s: the result of %s has a secret argument in it and is stored; leave it out"
            logger.warning(text, self.workflow.name, this.step.name, this.step.tool)
        this.arguments, this.outcome = arguments, Succeeded(value)
        this.stored_call, this.timing = self._call_to_store(this), self.timing(this)

    def fail(self, this: StepRun, failed: Failed, arguments: Mapping[str, Json] | None = None) -> None:
        """Note the failure of a step. The error is stored, and it may quote the arguments. A step whose call has not
        started when the time was over stays open."""
        if failed.kind is Failure.OUT_OF_TIME:
            this.stop = DeadlineExceeded(this.step.name, this.step.tool or "")
            return
        this.failed = failed = structs.replace(failed, error=self.secrets.hide_text(failed.error))
        this.arguments, this.outcome = arguments, Failed(failed.error)
        this.stored_call, this.timing = self._call_to_store(this), self.timing(this)
        if this.index is None and this.stop is None:
            step = this.step
            this.stop = pause_after(failed, step, step.name, step.tool or "", this.unread, self._shown_key(this))

    def _shown_key(self, this: StepRun) -> str | None:
        """The idempotency key of a step's call, for texts."""
        if self.task_id is None or this.arguments is None:
            return None
        return repeat(this.step, this.arguments, self.known, self.task_id, self.host.canonical).key

    def _call_to_store(self, this: StepRun) -> JsonObject | None:
        """The arguments to store with the result: none, unless a person has given some of them."""
        if this.arguments is None or this.step.name not in self.known.answers:
            return None
        return stored_call(this.arguments, hidden_in(this.arguments, this.step.arguments, self.workflow.secrets))

    def timing(self, this: StepRun) -> Timing | None:
        """The timing of a step that has ended; `None` for a run without a task."""
        if this.begun_ms is None:
            return None
        return Timing(this.begun_ms, round((self._clock() - this.begun_s) * 1000))

    def end_of_wait(self, until_ms: int, now_ms: int) -> int | str:
        """The end of a wait if the task lives longer, extended if necessary; otherwise the error of the step."""
        if self._store is None or self.lease is None:
            return until_ms
        with suppress(StoreError):  # the run's write finds out if the task is over
            ttl_ms = until_ms - now_ms + AFTER_WAITS_MS
            least_ms = ttl_ms - AFTER_WAITS_MS // 2  # most tasks were created with a sufficient lifetime
            self.lease.task = self._store.jobs.extend(self.lease.task, ttl_ms, least_ms)
        task = self.lease.task
        ends_ms = task.created_ms + task.ttl_ms
        if until_ms < ends_ms:
            return until_ms
        return f"it waits until {timestamp(until_ms)}, and its task ends at {timestamp(ends_ms)}; give it a longer ttl"

    def write(self) -> Over | None:
        """Write what has not been written; return why the run cannot write to its task any more, if it cannot."""
        return self._writer.write(last=False)

    def write_checkpoint(self, step: Step) -> None:
        if (over := self.write()) is not None:
            self.stop_at(StepRun(step, stop=over))

    def _note_job(self) -> None:
        """Note in the task whether the background job of this run waits, so that it is woken."""
        job_id = self.host.job_id
        # While the client is asked, the other steps wait.
        pauses = [pause for pause in self.pauses if not isinstance(pause, AnswersRequired)]
        waits = not self.over and suspends(pauses)
        noted_jobs = waiting_jobs(self.variables)
        jobs = [name for name in noted_jobs if name != job_id]
        if job_id is not None and waits:
            jobs = [*jobs, job_id][-MAX_JOBS_PER_TASK:]
        if job_id is not None and tuple(jobs) != noted_jobs:
            self.variables.note(WAITING_JOBS, jobs[0] if len(jobs) == 1 else jobs)

    # Steps that other requests complete meanwhile

    def _take_all_settled(self) -> bool:
        """Take the results of stopped steps that callbacks and continuations have completed until the last write, which
        has kept the claim for them. Returns whether the run goes on."""
        lease = self.lease
        if lease is None or self._store is None or lease.released or not self.is_written:
            return False
        try:
            for step in self.settled_meanwhile(lease.task):
                self.variables.get(f"{RESULT_PREFIX}{step.name}")  # raises before anything has changed
                self._discard(step)
                self.lists.pop(step.name, None)
                self.items.pop(step.name, None)
                self._note_early(step, is_early=False)
                self.take_settled(step)
        except StoreUnavailable:
            logger.warning("task %s: a new result cannot be read now", lease.task.task_id, exc_info=True)
            release_claim(self._store, lease.task)
            lease.released = True
            return False
        return True

    def take_settled(self, step: Step) -> None:
        """Take the result of a stopped step that another request has completed."""
        self._replay(step)
        self.stops.pop(step.name, None)
        self.statuses[step.name] = StepStatus.COMPLETED

    def reopen(self, step: Step) -> None:
        """Reopen the last step: the store has another outcome for it, or the outcome is unknown."""
        self._discard(step)
        self._writer.forget(step.name)
        self.stops.pop(step.name, None)
        self.statuses[step.name] = StepStatus.PENDING

    # The end

    def _ended(self, over: Over | None) -> EndedRun:
        stopped = [self.stops[step.name] for step in self.workflow.steps if step.name in self.stops and not over]
        places, writer = {step.name: place for place, step in enumerate(self.workflow.steps)}, self._writer
        return EndedRun(
            known=self.known,
            traces=tuple(sorted(self.traces, key=lambda this: places[this.step.name])),
            pauses=() if over else tuple(self.pauses),
            task=self.task,
            over=over,
            stored=writer.is_made,
            persisted=writer.persisted,
            oversized=writer.oversized,
            refused=writer.refused,
            blocked=tuple(this for this in stopped if this.outcome is None),
            retries_ms=tuple(until_ms for of_list in self.lists.values() for until_ms in of_list.waits_ms),
            list_calls=sum(of_list.calls for of_list in self.lists.values() if not of_list.failed),
        )

    def _with_repeats(self, ended_run: EndedRun) -> EndedRun:
        """The ended run, with the steps that it may have repeated and those that another run may repeat."""
        lease, unrecorded_steps = self.lease, self._writer.unrecorded
        if lease is None or not (lease.current_claim.interrupted or unrecorded_steps):
            return ended_run
        known, task_id, canonical = self.known, lease.task.task_id, self.host.canonical

        def repeats_of(steps: Iterable[StepRun]) -> tuple[Repeat, ...]:
            calls = (this for this in steps if this.attempts)
            return tuple(repeat(this.step, this.arguments, known, task_id, canonical) for this in calls)

        unrecorded = repeats_of(unrecorded_steps)
        if not lease.current_claim.interrupted:
            return structs.replace(ended_run, unrecorded=unrecorded)
        repeated = repeats_of(this for this in self.traces if not this.replayed)
        may_repeat = open_repeats(known, task_id, canonical)
        return structs.replace(ended_run, unrecorded=unrecorded, repeated=repeated, open_repeats=may_repeat)
