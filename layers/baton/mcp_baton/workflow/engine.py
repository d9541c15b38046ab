"""The engine: runs a workflow's steps in order as far as it can, then writes everything it has learnt at once.

Decisions are pure functions (`decide`, `run_batch`); the effects are here and few: create the task, fetch, call,
announce, write (docs/workflows.md).
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import cast

from mcp_baton.exceptions import StoreError, TaskFinished, TaskNotFound, ValueLost
from mcp_baton.light_dataclasses import dataclass, field, replace
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import (
    PROGRESS,
    RESULT_PREFIX,
    NewTask,
    StepStatus,
    TaskRecord,
    is_oversized,
)
from mcp_baton.tasks.recording import record_decided
from mcp_baton.tasks.store import Recorded, TaskStore
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.workflow.attempts import Tried, attempt
from mcp_baton.workflow.batch import run_batch, status_of
from mcp_baton.workflow.decide import Ready, decide
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.drift import Move, carried, move_to
from mcp_baton.workflow.fetching import Fetched, fetch_after, fetch_again, fetch_before
from mcp_baton.workflow.handoff import preview_arguments
from mcp_baton.workflow.host import Failed, Host, Outcome, Prepared, Succeeded
from mcp_baton.workflow.pause import DeadlineExceeded, PauseReason, ToolFailed
from mcp_baton.workflow.resolve import Known
from mcp_baton.workflow.retry import draw
from mcp_baton.workflow.run import Blocked, Content, RunRecord, StepTrace, Stop, TaskOver

logger = logging.getLogger(__name__)

WRITE_ATTEMPTS = 10
"""How often a run tries to write: each lost race means that a continuation got in between."""

LOOK_AFTER_S = 2.0
"""A run that has not heard of its task for so long looks at it before the next step or attempt, seconds."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """How a workflow is invoked.

    Attributes:
        texts: The prompt arguments as the client sent them; for a resume, those of the first call with the new ones.
        arguments: The same, converted to their types, as JSON.
        owner: Whose task it is to be; `None` for a caller who can have none.
        ttl_ms: The lifetime the client asked for.
    """

    texts: Mapping[str, str]
    arguments: Mapping[str, Json]
    owner: str | None = None
    ttl_ms: int | None = None


@dataclass(slots=True)
class _Run:
    """A run under way: what is known, and what has not been written yet.

    Attributes:
        live_s: When the task was last known to be live, on the engine's clock.
    """

    workflow: Workflow
    invocation: Invocation
    task: TaskRecord | None
    variables: TaskVariables
    statuses: dict[str, StepStatus]
    live_s: float
    outputs: dict[str, Json] = field(default_factory=dict)
    traces: list[StepTrace] = field(default_factory=list)
    blocked: Blocked | None = None
    move: Move | None = None
    written: int = 0
    oversized: set[str] = field(default_factory=set)
    persisted: bool = True

    @property
    def known(self) -> Known:
        return Known(self.invocation.texts, self.invocation.arguments, self.statuses, self.outputs, self.variables)


class Engine:
    """Runs workflows for one request.

    Args:
        host: The server's tools, resources, clock and the client's ear.
        store: Where tasks are kept; `None` where there is no store.
        clock: Seconds, from any moment on.
        drawn: Gives a number from 0 up to 1, for the waits between attempts.
    """

    def __init__(
        self,
        host: Host,
        store: TaskStore | None,
        clock: Callable[[], float] = time.monotonic,
        drawn: Callable[[], float] = draw,
    ) -> None:
        self._host = host
        self._store = store
        self._clock = clock
        self._drawn = drawn

    def start(self, workflow: Workflow, invocation: Invocation) -> RunRecord:
        """Run a workflow from its first step, as a new task if it is durable and the store takes one."""
        task = self._create(workflow, invocation) if workflow.durable else None
        statuses = {step.name: StepStatus.PENDING for step in workflow.steps}
        variables = TaskVariables(task.variables if task else {})
        return self._finish(_Run(workflow, invocation, task, variables, statuses, self._clock()))

    def resume(self, workflow: Workflow, invocation: Invocation, task: TaskRecord) -> RunRecord:
        """Go on from a task's stored state: settled steps are not run again, their results bind.

        The caller has made sure that the task is live, and that what it has completed is as in this definition.

        Raises:
            StoreUnavailable: a result that outgrew the item cannot be read now. Nothing was run.
        """
        statuses = carried(task, workflow)
        variables, move = TaskVariables(task.variables), move_to(workflow, task)
        run = _Run(workflow, invocation, task, variables, statuses, self._clock(), move=move)
        for step in workflow.steps:
            if statuses[step.name] is StepStatus.COMPLETED:
                self._replay(run, step)
        run.written = len(run.traces)
        return self._finish(run)

    def _create(self, workflow: Workflow, invocation: Invocation) -> TaskRecord | None:
        if self._store is None or invocation.owner is None:
            cause = "there is no task store" if self._store is None else "the caller has no identity"
            logger.warning("workflow %s runs without a task: %s", workflow.name, cause)
            return None
        progress = workflow.progress([StepStatus.PENDING] * len(workflow.steps))
        new = NewTask(
            owner=invocation.owner,
            variables={PROGRESS: cast("JsonObject", progress)},
            workflow=workflow.name,
            definition=workflow.fingerprint,
            arguments=dict(invocation.texts),
            ttl_ms=invocation.ttl_ms,
        )
        try:
            return self._store.create(new)
        except StoreError:
            logger.exception("workflow %s runs without a task: it could not be created", workflow.name)
            return None

    def _replay(self, run: _Run, step: Step) -> None:
        value: Json
        try:
            value = run.variables.get(f"{RESULT_PREFIX}{step.name}")
        except ValueLost as lost:
            value = {"error": str(lost)}
        else:
            if not is_oversized(value):
                run.outputs[step.name] = value
        arguments = preview_arguments(step, run.workflow, run.known, self._host) if step.tool else None
        resources = () if step.tool else fetch_again(step, run.workflow, run.known, self._host)
        run.traces.append(StepTrace(step, arguments, resources, Succeeded(value), replayed=True))

    def _finish(self, run: _Run) -> RunRecord:
        stop = self._advance(run)
        if isinstance(stop, TaskOver):
            # Nothing can be written to it any more.
            run.persisted = run.persisted and run.written == len(run.traces)
        else:
            over = self._write(run, stop, finished=stop is None)
            # Where there is no task any more, nobody has decided against the calls that are left.
            stop = over if over and over.status else stop
        places = {step.name: place for place, step in enumerate(run.workflow.steps)}
        return RunRecord(
            workflow=run.workflow,
            known=Known(run.invocation.texts, run.invocation.arguments, run.statuses, run.outputs, run.variables),
            traces=tuple(sorted(run.traces, key=lambda trace: places[trace.step.name])),
            stop=stop,
            task=run.task,
            persisted=run.persisted,
            oversized=tuple(sorted(run.oversized)),
            blocked=run.blocked,
        )

    def _advance(self, run: _Run) -> Stop | None:
        for number, step in enumerate(run.workflow.steps, 1):
            if run.statuses[step.name].settled:
                continue
            stop = self._begin_safely(run, number, step)
            if stop is None and step.checkpoint:
                stop = self._write(run, None, finished=False)
            if stop:
                return stop
        return None

    def _begin_safely(self, run: _Run, number: int, step: Step) -> Stop | None:
        """No stop is ever silent: even a fault of Baton's own leaves a pause reason, and the batch is still written."""
        try:
            return self._begin(run, number, step)
        except Exception as error:
            words = self._host.words(step.tool or step.name, error)
            logger.exception("workflow %s: step %s: %s", run.workflow.name, step.name, words)
            return self._failed(run, step, None, (), words, step.tool or "")

    def _begin(self, run: _Run, number: int, step: Step) -> Stop | None:
        if not self._host.may_start():
            return DeadlineExceeded(step.name, step.tool or "")
        over = self._look(run)
        if over:
            return over
        task_id = run.task.task_id if run.task else None
        self._host.announce(number, len(run.workflow.steps), step.name, task_id)
        fetched = fetch_before(step, run.workflow, run.known, self._host)
        if fetched.error is not None:
            return self._failed(run, step, None, fetched.contents, fetched.error, step.tool or "", read=fetched.read)
        decision = decide(step, run.workflow, run.known, self._host)
        if not isinstance(decision, Ready):
            run.blocked = Blocked(step, fetched.contents, fetched.read)
            return decision
        return self._perform(run, step, decision.call, fetched)

    def _look(self, run: _Run) -> TaskOver | None:
        """What has become of the task, when that has not been known for a while: one light read.

        A store that does not answer holds no run up: its last write says what has become of the task.
        """
        if run.task is None or self._store is None or self._clock() - run.live_s < LOOK_AFTER_S:
            return None
        try:
            status = self._store.status(run.task.owner, run.task.task_id)
        except TaskNotFound:
            return TaskOver(None)
        except StoreError:
            logger.warning("task %s: its status cannot be read; the run goes on", run.task.task_id, exc_info=True)
            return None
        finally:
            run.live_s = self._clock()
        if not status.terminal:
            return None
        run.task = replace(run.task, status=status)
        return TaskOver(status)

    def _perform(self, run: _Run, step: Step, call: Prepared | None, fetched: Fetched) -> Stop | None:
        if call is None:
            self._settle(run, StepTrace(step, None, fetched.contents, Succeeded(None)))
            return None
        tried = self._attempt(run, step, call)
        if isinstance(tried.outcome, Failed):
            error, read = tried.outcome.error, fetched.read
            pause = self._failed(run, step, call.arguments, fetched.contents, error, call.name, read=read)
            run.traces[-1] = replace(run.traces[-1], attempts=tried.attempts)
            retryable = pause.retryable and not tried.outcome.final
            return tried.over or replace(pause, by_itself=tried.outcome.by_itself, retryable=retryable)
        self._settle(run, StepTrace(step, call.arguments, fetched.contents, tried.outcome, attempts=tried.attempts))
        # The tool has done its work: a resource that cannot be fetched now must not make anybody call it again.
        after = fetch_after(step, run.workflow, run.known, self._host)
        run.traces[-1] = replace(run.traces[-1], after=after)
        return None

    def _attempt(self, run: _Run, step: Step, call: Prepared) -> Tried:
        """Call the step's tool, again if its `Retry` says so. What tells the calls apart is the `Attempt`."""
        variables = run.variables if run.task else None
        return attempt(
            step,
            self._host,
            lambda number: self._host.run(call, variables, number),
            lambda: self._look(run),
            self._drawn,
        )

    def _failed(
        self,
        run: _Run,
        step: Step,
        arguments: Mapping[str, Json] | None,
        resources: tuple[Content, ...],
        error: str,
        tool: str,
        *,
        read: frozenset[str] = frozenset(),
    ) -> ToolFailed:
        self._settle(run, StepTrace(step, arguments, resources, Failed(error), read=read))
        return ToolFailed(step.name, error, step.retryable, tool)

    def _settle(self, run: _Run, trace: StepTrace) -> None:
        outcome: Outcome = trace.outcome
        run.statuses[trace.step.name] = status_of(outcome)
        if isinstance(outcome, Succeeded):
            run.outputs[trace.step.name] = outcome.value
        run.traces.append(trace)

    def _write(self, run: _Run, pause: PauseReason | None, *, finished: bool) -> TaskOver | None:
        """Write what has not been written. A failure costs durability, never the reply (docs/workflows.md, Without a
        task). A task that is over takes nothing."""
        if run.task is None or self._store is None:
            return None
        unwritten = run.traces[run.written :]
        try:
            recorded = record_decided(
                self._store,
                run.task,
                lambda task: run_batch(task, unwritten, pause, run.variables, finished=finished, move=run.move),
                attempts=WRITE_ATTEMPTS,
            )
        except TaskFinished as error:
            run.task, run.persisted = error.current, False
            return TaskOver(error.current.status)
        except TaskNotFound:
            run.persisted = False
            return TaskOver(None)
        except StoreError:
            logger.exception("task %s: the run could not be written", run.task.task_id)
            run.persisted = False
        else:
            self._written(run, recorded)
        return None

    def _written(self, run: _Run, recorded: Recorded) -> None:
        run.task = recorded.task
        # What has been written once is not written again: somebody else may have changed it by then.
        run.variables = TaskVariables(recorded.task.variables)
        run.written = len(run.traces)
        run.persisted = True
        run.live_s = self._clock()
        run.oversized.update(recorded.oversized)
