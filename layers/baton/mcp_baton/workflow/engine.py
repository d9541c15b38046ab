"""The engine: runs a workflow's steps in order as far as it can, then writes everything it has learnt at once.

Decisions are pure functions (`decide`, `run_batch`); the effects are here, in `steps` and in `holding`, and few: create
or take the task, fetch, call, announce, write (docs/workflows.md).
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from msgspec import structs

from mcp_baton.exceptions import (
    ClaimLost,
    OutcomeUnknown,
    StoreBusy,
    StoreError,
    TaskFinished,
    TaskNotFound,
    ValueLost,
)
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.record import RESULT_PREFIX, Claim, StepStatus, TaskRecord
from mcp_baton.tasks.store import Batch, TaskStore
from mcp_baton.tasks.values import read_ahead
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tasks.writing import write_decided
from mcp_baton.workflow.batch import run_batch
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.drift import carried, move_to
from mcp_baton.workflow.fetching import fetch_again
from mcp_baton.workflow.handoff import preview_arguments
from mcp_baton.workflow.holding import Hold, lease_end
from mcp_baton.workflow.host import Host, Succeeded
from mcp_baton.workflow.invocation import Invocation, Run, new_task
from mcp_baton.workflow.kept_calls import shown_call
from mcp_baton.workflow.pause import PauseReason
from mcp_baton.workflow.repeats import Repeat, open_repeats, repeat
from mcp_baton.workflow.retry import draw
from mcp_baton.workflow.run import EndedRun, Over, StepTrace, Superseded, TaskOver
from mcp_baton.workflow.steps import Steps

logger = logging.getLogger(__name__)

WRITE_ATTEMPTS = 10
"""How often a run tries to write: each lost race means that a continuation got in between."""


class Engine:
    """Runs workflows for one request.

    Args:
        host: The server's tools, resources and clock, and its notifications to the client.
        store: Where tasks are kept; `None` where there is no store.
        clock: Seconds, from any moment on.
        drawn: Gives a number from 0 up to 1, for the waits between attempts.
        sleep: Lets so many seconds pass, between two decisions about a write that lost its race.
    """

    def __init__(
        self,
        host: Host,
        store: TaskStore | None,
        clock: Callable[[], float] = time.monotonic,
        drawn: Callable[[], float] = draw,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._host = host
        self._store = store
        self._clock = clock
        self._drawn = drawn
        self._sleep = sleep
        self._steps = Steps(host, clock, drawn)

    def start(self, workflow: Workflow, invocation: Invocation) -> EndedRun:
        """Run a workflow from its first step, as a new task if it is durable and the store takes one.

        Raises:
            StoreBusy: the store is asked for more than it can bear. Nothing was run.
        """
        hold = self._create(workflow, invocation) if workflow.durable else None
        statuses = {step.name: StepStatus.PENDING for step in workflow.steps}
        variables = TaskVariables(hold.task.variables if hold else {})
        return self._finish(Run(workflow, invocation, hold, variables, statuses))

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
        hold = self._hold(self._store, task) if self._store else None
        statuses = carried(task, workflow)
        run = Run(workflow, invocation, hold, TaskVariables(task.variables), statuses, move=move_to(workflow, task))
        done = [name for name, status in statuses.items() if status is StepStatus.COMPLETED]
        read_ahead(task.variables, [f"{RESULT_PREFIX}{name}" for name in done])
        for step in workflow.steps:
            if statuses[step.name] is StepStatus.COMPLETED:
                self._replay(run, step)
        run.written = len(run.traces)
        return self._finish(run)

    def _create(self, workflow: Workflow, invocation: Invocation) -> Hold | None:
        if self._store is None or invocation.owner is None:
            cause = "there is no task store" if self._store is None else "the caller has no identity"
            logger.warning("workflow %s runs without a task: %s", workflow.name, cause)
            return None
        new = new_task(workflow, invocation, invocation.owner, self._claim(self._store))
        try:
            return self._hold(self._store, self._store.create(new))
        except StoreBusy:
            raise
        except StoreError as error:
            if isinstance(error, OutcomeUnknown) and error.current:
                logger.exception("task %s: whether it was created is not known", error.current.task_id)
                return self._hold(self._store, error.current, unsure=True)
            logger.exception("workflow %s runs without a task: it could not be created", workflow.name)
            return None

    def _claim(self, store: TaskStore) -> Claim:
        return Claim(new_token(), lease_end(store, self._host.left_ms))

    def _hold(self, store: TaskStore, task: TaskRecord, *, unsure: bool = False) -> Hold:
        hold = Hold(store, task, self._host.left_ms, self._clock, unsure=unsure)
        self._host.pulse = hold.pulse
        return hold

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
        hold = run.hold
        if hold is None or not (hold.held.interrupted or run.unrecorded):
            return ended
        known, task_id, host = run.known, hold.task.task_id, self._host

        def calls(traces: Iterable[StepTrace]) -> tuple[Repeat, ...]:
            return tuple(repeat(it.step, it.arguments, known, task_id, host) for it in traces if it.attempts)

        lost = calls(run.unrecorded)
        if not hold.held.interrupted:
            return structs.replace(ended, lost=lost)
        ran = calls(trace for trace in run.traces if not trace.replayed)
        return structs.replace(ended, lost=lost, twice=ran, before=open_repeats(run.workflow, known, task_id, host))

    def _checkpoint(self, run: Run) -> Over | None:
        return self._write(run, None, finished=False, last=False)

    def _write(self, run: Run, pause: PauseReason | None, *, finished: bool, last: bool) -> Over | None:
        """Write what has not been written; the last write gives the claim up. A failure costs durability, never the
        reply (docs/workflows.md, Without a task). A task that is over, or another run's, takes nothing."""
        hold = run.hold
        if hold is None or self._store is None:
            return None

        traces: list[StepTrace] = []

        def decided(task: TaskRecord) -> Batch:
            # Of a claim that is given up it does not matter when it would end.
            claim = hold.held if last else hold.claim()
            traces[:] = run.unwritten(task)
            return run_batch(
                task, traces, pause, run.variables, finished=finished, move=run.move, claim=claim, release=last
            )

        try:
            written = write_decided(
                self._store, hold.task, decided, attempts=WRITE_ATTEMPTS, sleep=self._sleep, drawn=self._drawn
            )
        except StoreError as error:
            return self._not_written(run, hold, error)
        if last:
            hold.task, hold.released = written.task, True
        else:
            hold.written(written.task)
        run.wrote(written.task, traces)
        run.not_kept(written.task, written.oversized)
        return None

    def _not_written(self, run: Run, hold: Hold, error: StoreError) -> Over | None:
        over = isinstance(error, ClaimLost | TaskFinished)
        run.not_written(unknown=isinstance(error, OutcomeUnknown), over=over)
        match error:
            case TaskFinished():
                hold.task = error.current
                return TaskOver(error.current.status)
            case ClaimLost():
                hold.task = error.current
                return Superseded()
            case TaskNotFound() if hold.unsure:
                logger.error("task %s: it was not created", hold.task.task_id)
                run.hold = None
                return None
            case TaskNotFound():
                return TaskOver(None)
        logger.error("task %s: the run could not be written", hold.task.task_id, exc_info=error)
        return None
