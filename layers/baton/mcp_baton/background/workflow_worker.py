"""Workflows in the background: a worker runs steps, and hands over to the next invocation (docs/background.md,
Workflows in the background)."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import structs

from mcp_baton.background.job import JobExecution
from mcp_baton.background.task_questions import TaskAsker, questions_of
from mcp_baton.background.waiting import Waits, Write, suspend
from mcp_baton.exceptions import (
    ClaimLost,
    NotDispatched,
    StoreBusy,
    StoreUnavailable,
    TaskFinished,
    TaskHeld,
    TaskNotFound,
    ToolError,
    ValueLost,
)
from mcp_baton.present.tool_result import not_run, result_of_run
from mcp_baton.protocol.envelope import RELATED_TASK_KEY
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.record import Job, TaskRecord
from mcp_baton.tasks.store import Batch, TaskStore
from mcp_baton.telemetry import TASKS_HANDED_OVER
from mcp_baton.tools.asking import InputRequired
from mcp_baton.tools.calls import ToolCall
from mcp_baton.tools.content import ResourceContent
from mcp_baton.tools.outcomes import Failed, Failure, Outcome, Prepared, ResourceUnavailable, Succeeded
from mcp_baton.tools.questions import Elicited, elicitation
from mcp_baton.tools.running.tool_threads import CallerGone
from mcp_baton.tools.schema.prompt_arguments import ArgumentRefused
from mcp_baton.workflow.client_questions import unanswered_questions, with_answers
from mcp_baton.workflow.dispatching import dispatch
from mcp_baton.workflow.ended_run import EndedRun
from mcp_baton.workflow.engine_host import ServerHost
from mcp_baton.workflow.lease import Lease, release_claim
from mcp_baton.workflow.pause import ApprovalDenied, Remedy
from mcp_baton.workflow.refusals import NOT_RESUMED, CallFailed, TaskUnreadable
from mcp_baton.workflow.runs import run_workflow
from mcp_baton.workflow.workflow_tool import WorkflowTool

FRESH_SHARE: Final = 0.1
"""The next step starts in the same invocation only if no more than this share of the invocation's time is used. So each
step has nearly all of the time."""

STOPPED: Final = "stopped, as the task that it ran for was cancelled or taken over; it may still have happened"


CONTINUE_BY_THEMSELVES: Final = frozenset({Remedy.SERVER, Remedy.WAIT, Remedy.DECISION})
"""What lets a step continue without the client."""


class WorkerHost(ServerHost):
    """Implements `workflow.host.Host` for a background job. It renews the claims on both tasks: the task of the call,
    and the task of the workflow."""

    def __init__(self, execution: JobExecution) -> None:
        super().__init__(execution)
        self.announces = True
        self._monitor = execution.monitor
        self._initial_ms = execution.exchange.remaining_ms()
        self._failed = False

    def run(self, prepared: Prepared, tool_call: ToolCall) -> Outcome:
        """Run a tool. It is stopped if one of the two tasks has ended or was taken over."""
        try:
            outcome = super().run(prepared, tool_call)
        except CallerGone:
            if tool_call.variables is not None:
                tool_call.variables.close()
            outcome = Failed(STOPPED, kind=Failure.TIMED_OUT)
        self._failed = isinstance(outcome, Failed)
        return outcome

    def read(self, uri: str) -> Sequence[ResourceContent]:
        try:
            return super().read(uri)
        except CallerGone as error:
            raise ResourceUnavailable(STOPPED) from error

    def announce(self, started: int, total: int, step: str, task_id: str | None) -> None:
        super().announce(started, total, step, task_id)
        self._monitor.unwritten = f"Step {started}/{total}: {step}"

    def may_start(self, after_s: float = 0.0) -> bool:
        """Whether a step may start or be retried. A step after another one starts in a new invocation, unless most of
        this invocation's time is left."""
        if self._monitor.gone or not super().may_start(after_s):
            return False
        remaining_ms = self.left_ms()
        if self._failed or not self._started_steps or self._initial_ms is None or remaining_ms is None:
            return True
        return self._initial_ms - remaining_ms <= self._initial_ms * FRESH_SHARE

    def wait(self, seconds: float) -> None:
        """Wait, or return early if the run has to stop."""
        while seconds > 0:
            part = min(seconds, self._renew_claims())
            if self._monitor.gone:
                return
            self._execution.services.sleep(part)
            seconds -= part

    def _with_pulse(self, tool_call: ToolCall) -> ToolCall:
        return structs.replace(super()._with_pulse(tool_call), stay=False, pulse=self._renew_claims)

    def _renew_claims(self) -> float:
        """Renew the claims on both tasks, if due. Returns the seconds until the next renewal."""
        workflow_s = self.pulse()
        if self._is_in_thread:  # the request's thread renews them
            return workflow_s
        if workflow_s == math.inf:  # the workflow's task has ended, or another run has taken it over
            self._monitor.stop()
        job_s = self._monitor.pulse()
        return 0 if self._monitor.gone else min(workflow_s, job_s)


MAX_DISPATCHES: Final = 1_000
"""After this many dispatches, a call is not handed over again: a hundred steps with ten dispatches each."""

CLAIM_RETRY_S: Final = 5.0
"""How long a worker waits before it tries again to claim the workflow's task, seconds."""

logger = logging.getLogger(__name__)


class WorkflowJob:
    def __init__(self, execution: JobExecution, lease: Lease, job: Job, arguments: JsonObject) -> None:
        self._execution = execution
        self._monitor = execution.monitor
        self._lease = lease
        self._job = job
        self._goes_on = job.allowed > job.work.attempts
        # An earlier run of this job has stored them. Those that another call has given since count.
        self._arguments = {} if self._goes_on else arguments
        self._ttl_ms = max(execution.services.settings.default_ttl_ms, 2 * (execution.exchange.remaining_ms() or 0))

    def run(self, write: Write, ask: Callable[[Mapping[str, JsonObject], Waits], str]) -> str:
        """Run the workflow and write the outcome of the call. Returns the outcome, for the log.

        After `TaskHeld`, `NotDispatched` and `StoreError`, Lambda delivers the event again.
        """
        tool, store = self._execution.server.workflow_tool(self._job.work.tool), self._execution.store
        if tool is None or store is None:
            from mcp_baton.workflow.removed import unknown_in_worker

            raise unknown_in_worker(self._execution, self._job.work.tool, self._job.work.workflow_task)
        try:
            self._lease.task = store.jobs.extend(self._lease.task, self._ttl_ms)
        except (ClaimLost, TaskFinished, TaskNotFound) as error:
            return f"stopped: {error}"
        host = WorkerHost(self._execution)
        result = self._run(tool, host)
        while isinstance(result, EndedRun):
            try:
                answers = self._user_answers(result)
            except InputRequired as error:
                return ask(questions_of(error), self._waits(result))
            if not answers:
                break
            self._arguments = with_answers(self._arguments, answers)
            result = self._run(tool, host, result)
        if self._monitor.ended:
            return "stopped: it is over, or another worker's"
        if isinstance(result, EndedRun):
            if self._may_hand_over(result):
                return self._hand_over(store, write)
            if result.suspends and result.stored:
                return suspend(self._execution, self._lease, self._waits(result), write)
            is_denied = any(isinstance(pause, ApprovalDenied) for pause in result.pauses)
            result = {**result_of_run(self._execution, result), "isError": is_denied}
        return self._complete(store, result, write)

    def _waits(self, run: EndedRun) -> Waits:
        lives_until_ms = run.task.created_ms + run.task.ttl_ms if run.task else 0
        return Waits(run.pauses, self._job.work.workflow_task, run.retries_ms, lives_until_ms)

    def _run(self, tool: WorkflowTool, host: WorkerHost, asked: EndedRun | None = None) -> EndedRun | JsonObject:
        """Run the workflow. Returns the run; or, if nothing could be run, the result of the workflow's tool.

        Args:
            asked: The run whose questions the user has answered, which is returned if an answer is wrong.
        """
        try:
            return self._run_when_free(tool, host)
        except CallFailed as failed:
            from mcp_baton.present.task_action import paused_result

            return paused_result(self._execution, tool, failed.task)
        except ArgumentRefused as error:
            wrong = asked and structs.replace(asked, wrong_answer=error.problem)
            return wrong or not_run(self._execution, tool, error)

    def _run_when_free(self, tool: WorkflowTool, host: WorkerHost) -> EndedRun | JsonObject:
        """Run the workflow. Waits if another run holds its task. Raises `ArgumentRefused` and `CallFailed`."""
        workflow, task_id = tool.workflow, self._job.work.workflow_task or ""
        while True:
            self._execution.waits_for.clear()
            try:
                return run_workflow(
                    self._execution,
                    workflow,
                    self._arguments,
                    task_id,
                    host,
                    lives_ms=self._ttl_ms,
                    named=self._job.work.resumes,
                    goes_on=self._goes_on,
                )
            except TaskHeld as error:
                if self._may_wait(host, error):
                    continue
                if not self._is_last_attempt():
                    if self._execution.store is not None:
                        release_claim(self._execution.store, self._lease.task)
                    raise
                return not_run(self._execution, tool, error, task_id)
            except StoreBusy:
                raise
            except TaskUnreadable as error:
                if not isinstance(error.error, ValueLost):
                    raise error.error from error
                return not_run(self._execution, tool, error, task_id)
            except NOT_RESUMED as error:
                return not_run(self._execution, tool, error, task_id)

    def _user_answers(self, run: EndedRun) -> JsonObject:
        """Return the user's answers to the open questions; empty if there are no questions, or the user cannot be
        asked. Questions without an answer become questions of the call's task."""
        missing = unanswered_questions(run) if run.may_ask else None
        if missing is None:
            return {}
        question = elicitation(f"answers-{missing.key}", missing.message, missing.schema)
        try:
            [answer] = TaskAsker(self._job, self._execution.envelope).ask((question,))
            elicited: Elicited = question.read(answer)
        except ToolError as error:
            logger.info("task %s: the user was not asked: %s", self._lease.task.task_id, error)
            return {}
        return missing.answers(elicited.content)

    def _may_wait(self, host: WorkerHost, error: TaskHeld) -> bool:
        """Wait, if there is time, for the other run to release the task or its claim to expire. Returns whether to
        try again."""
        until_s = (error.until_ms - self._execution.now_ms()) / 1000
        wait_s = min(max(until_s, 0) + 0.1, CLAIM_RETRY_S)
        if not host.may_start(wait_s):
            return False
        host.wait(wait_s)
        return not self._monitor.gone

    def _is_last_attempt(self) -> bool:
        claim = self._lease.task.claim
        return self._monitor.gone or (claim is not None and claim.number >= self._job.allowed)

    def _may_hand_over(self, run: EndedRun) -> bool:
        """Whether a call did not start only because the time was over, after the run completed at least one step or
        one call of a list. The others wait for a person, a callback or a time: a step that needs the model ends the
        job. So does a list with a failed call, which the next run would make again."""
        completed_steps = [trace for trace in run.traces if not trace.replayed and isinstance(trace.outcome, Succeeded)]
        remedies = {pause.remedy for pause in run.pauses}
        has_progress = bool(completed_steps or run.list_calls)
        if Remedy.SERVER not in remedies or remedies - CONTINUE_BY_THEMSELVES or not has_progress:
            return False
        if not run.stored:
            raise StoreUnavailable("the run could not be written; it is to be run again")
        if self._execution.services.dispatcher is None or self._job.dispatches >= MAX_DISPATCHES:
            logger.error("task %s: it is not handed over again; set BATON_WORKER", self._lease.task.task_id)
            return False
        return True

    def _hand_over(self, store: TaskStore, write: Write) -> str:
        tasks: list[TaskRecord] = []

        def hand_over() -> None:
            tasks.append(store.jobs.hand_over(self._lease.task, self._lease.claim(), self._ttl_ms))

        outcome = write("handed over", hand_over)
        self._execution.notify()
        for task in tasks:
            self._execution.services.telemetry.add(TASKS_HANDED_OVER)
            if not dispatch(self._execution.services, task):
                raise NotDispatched(f"task {task.task_id}: it was handed over, but the worker could not be invoked")
        return outcome

    def _complete(self, store: TaskStore, result: JsonObject, write: Write) -> str:
        meta = result.get("_meta")
        if isinstance(meta, Mapping):
            # This is the result of the call's task, so it must not refer to the workflow's task.
            result = {**result, "_meta": {name: value for name, value in meta.items() if name != RELATED_TASK_KEY}}
        batch = Batch(result=result, claim=self._lease.claim(), release=True, message=self._monitor.unwritten)
        return write("completed", lambda: store.write(self._lease.task, batch))
