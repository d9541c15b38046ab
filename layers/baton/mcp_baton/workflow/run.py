"""A run: it makes the calls of a workflow's steps, and then writes all results at once (docs/workflows.md).

The loop knows only what all kinds of steps have in common (`Step`): each kind says how it starts, what it does and how
it ends. The decisions are pure functions (`Workflow.ready`, `KnownValues`, `run_batch`).
"""

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec import convert, structs, to_builtins

from mcp_baton.exceptions import (
    StoreError,
    StoreUnavailable,
    ValueLost,
)
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import (
    ELEMENTS_PREFIX,
    ITEMS_PREFIX,
    MAX_JOBS_PER_TASK,
    REPEATED,
    RESULT_PREFIX,
    WAITING_JOBS,
    NewTask,
    StepStatus,
    TaskRecord,
    waiting_jobs,
)
from mcp_baton.tasks.store import Start, TaskStore
from mcp_baton.tasks.values import read_ahead
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.outcomes import Failed, Succeeded
from mcp_baton.workflow.definition_changes import move_to, outdated_waits, statuses_under
from mcp_baton.workflow.ended_run import EndedRun
from mcp_baton.workflow.host import Host, Skipped, Threads
from mcp_baton.workflow.lease import Lease, Over, TaskOver, ThreadLease, release_claim
from mcp_baton.workflow.pause import (
    AnswersRequired,
    suspends,
)
from mcp_baton.workflow.remaining import RemainingCalls
from mcp_baton.workflow.repeats import Repeat, open_repeats, repeat
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.run_task import create_lease
from mcp_baton.workflow.state import State
from mcp_baton.workflow.step_run import StepRun
from mcp_baton.workflow.steps.retry import system_random_fraction
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.stored_calls import shown_call
from mcp_baton.workflow.write import RunWriter

MAX_REPEATS_NOTED: Final = 5

logger = logging.getLogger(__name__)


class WorkflowRun(State):
    """A run of a workflow for one request.

    Args:
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
        super().__init__(host, store, known, clock, rng)
        self._writer = RunWriter(self, store, sleep, rng)

    @property
    def is_written(self) -> bool:
        """Whether the last write was made."""
        return self._writer.is_made

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
        self.lease = self.host.lease = lease
        self.task_id = lease.task.task_id
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
        for name in outdated_waits(task, workflow):
            self.variables.forget(name)
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
            self._note_repeats()
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
                    self._end(self._perform(this, self.host))
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
            number = sum(status.settled or name in self.started for name, status in self.statuses.items())
            task_id = self.lease.task.task_id if self.lease else None
            self.host.announce(number, len(self.workflow.steps), step.name, task_id)
        next_call: StepRun | None = step.start(self, this)
        return next_call

    def _perform_in_thread(self, this: StepRun, threads: Threads) -> None:
        self.running[this.step.name] = self.running.get(this.step.name, 0) + 1
        if self.lease is None:
            threads.start(partial(self._perform, this), None)
            return
        this.variables = self.variables.branch()
        threads.start(partial(self._perform, this), ThreadLease(self.lease, threads.ask))

    def _perform(self, this: StepRun, host: Host) -> StepRun:
        """Do a step, perhaps in another thread. Even an internal error of Baton becomes a pause reason, so that earlier
        results are still written."""
        try:
            this.step.perform(self, this, host)
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

    # What the kinds of steps use, besides the methods of `State`

    def write(self) -> Over | None:
        """Write what has not been written; return why the run cannot write to its task any more, if it cannot."""
        return self._writer.write(last=False)

    def write_checkpoint(self, step: Step) -> None:
        if (over := self.write()) is not None:
            self.stop_at(StepRun(step, stop=over))

    def _note_job(self) -> None:
        """Note in the task whether the background job of this run waits, so that it is woken. It also waits while it
        asks its user: another call may answer, or end the task."""
        job_id = self.host.job_id
        asks = any(isinstance(pause, AnswersRequired) and pause.asks_user for pause in self.pauses)
        waits = not self.over and (asks or suspends(self.pauses))
        noted_jobs = waiting_jobs(self.variables)
        jobs = [name for name in noted_jobs if name != job_id]
        if job_id is not None and waits:
            jobs = [*jobs, job_id][-MAX_JOBS_PER_TASK:]
            self._live_until_decisions()
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
        writer = self._writer
        return EndedRun(
            known=self.known,
            traces=self._ordered_traces,
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

    @property
    def _ordered_traces(self) -> tuple[StepRun, ...]:
        """What was run, in the order of the steps. Parallel steps end in another order."""
        places = {step.name: place for place, step in enumerate(self.workflow.steps)}
        return tuple(sorted(self.traces, key=lambda this: places[this.step.name]))

    def _note_repeats(self) -> None:
        """Note for the later runs of a background job which steps may have run twice."""
        if self.host.job_id is not None and (repeats := self._repeated()):
            self.variables.note(REPEATED, {self.host.job_id: to_builtins(repeats[:MAX_REPEATS_NOTED])})

    def _repeated(self) -> tuple[Repeat, ...]:
        """The steps that this run may have repeated, after those of earlier runs of its background job."""
        earlier: tuple[Repeat, ...] = ()
        if self.host.job_id is not None:
            with suppress(StoreError):  # it is only a note
                noted = convert(self.variables.get(REPEATED) or {}, dict[str, tuple[Repeat, ...]])
                earlier = noted.get(self.host.job_id, ())
        if self.lease is None or not self.lease.current_claim.interrupted:
            return earlier
        names = {repeat.step for repeat in earlier}
        traces = (this for this in self._ordered_traces if not this.replayed and this.step.name not in names)
        return *earlier, *self._repeats_of(traces)

    def _repeats_of(self, steps: Iterable[StepRun]) -> tuple[Repeat, ...]:
        task_id, canonical = self.task_id or "", self.host.canonical
        return tuple(repeat(t.step, t.arguments, self.known, task_id, canonical) for t in steps if t.attempts)

    def _with_repeats(self, ended_run: EndedRun) -> EndedRun:
        """The ended run, with the steps that it may have repeated and those that another run may repeat."""
        lease = self.lease
        if lease is None:
            return ended_run
        unrecorded, repeated = self._repeats_of(self._writer.unrecorded), self._repeated()
        is_interrupted = lease.current_claim.interrupted
        may_repeat = open_repeats(self.known, lease.task.task_id, self.host.canonical) if is_interrupted else ()
        return structs.replace(ended_run, unrecorded=unrecorded, repeated=repeated, open_repeats=may_repeat)
