"""The worker: it claims a task, calls the task's tool, and writes the outcome (docs/background.md).

Every write has the claim as its condition. So an attempt whose claim has expired changes nothing.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress

from mcp_baton.background.job import JobExecution, JobMonitor
from mcp_baton.background.task_questions import TaskAsker, envelope_of, questions_of
from mcp_baton.background.waiting import Waits, ask_and_wait, suspend
from mcp_baton.exceptions import (
    BatonError,
    ClaimLost,
    Conflict,
    EventError,
    NoAttemptLeft,
    NotDispatched,
    ProtocolError,
    StoreError,
    StoreUnavailable,
    TaskFinished,
    TaskHeld,
    TaskNotFound,
    TooLarge,
    ValueLost,
)
from mcp_baton.protocol.json import Json, JsonObject, json_size
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.record import Claim, Job, TaskRecord
from mcp_baton.tasks.store import Batch, TaskStore
from mcp_baton.tasks.texts import MAX_VALUE_BYTES
from mcp_baton.tasks.values import read_ahead
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.telemetry import INTERNAL_ERRORS, TASKS_CLAIMED_AGAIN
from mcp_baton.tools.asking import InputRequired
from mcp_baton.tools.calls import ToolCall
from mcp_baton.tools.content import error_result
from mcp_baton.tools.outcomes import Failed, Outcome
from mcp_baton.tools.running.tool_threads import CallerGone
from mcp_baton.tools.tool import Tool
from mcp_baton.transport.exchange import Exchange
from mcp_baton.workflow.direct_calls import outcome_of, result_of
from mcp_baton.workflow.dispatching import give_up
from mcp_baton.workflow.lease import Lease, lease_end
from mcp_baton.workflow.pause import ApprovalRequired, approval_pause
from mcp_baton.workflow.services import Services

logger = logging.getLogger(__name__)

PROGRESS_TOKEN = "task"  # noqa: S105 - a progress token, not a secret
"""The progress token of a job: what its function reports becomes the status message of the task."""


class StillHeld(BatonError):
    """Another delivery of the same event is running, or its worker has died. Lambda delivers the event again later."""


def work(services: Services, event: JsonObject, exchange: Exchange) -> JsonObject:
    """Run the background job that an event's `batonTask` names. Returns the outcome, for the log.

    Raises:
        EventError: the event was not created by Baton.
        StillHeld: another delivery of the same event is running.
        StoreError: the store does not answer. Lambda delivers the event again.
    """
    owner, task_id, dispatch = event.get("owner"), event.get("taskId"), event.get("dispatch")
    if not isinstance(owner, str) or not isinstance(task_id, str) or type(dispatch) is not int:
        raise EventError("the event's `batonTask` needs `owner` and `taskId`, strings, and `dispatch`, a number")
    attempt = _claim(services, owner, task_id, dispatch, exchange)
    outcome = attempt if isinstance(attempt, str) else attempt.run()
    logger.info("task %s: %s", task_id, outcome)
    return {"taskId": task_id, "outcome": outcome}


def _claim(services: Services, owner: str, task_id: str, dispatch: int, exchange: Exchange) -> "JobAttempt | str":
    """Claim the task. Returns the attempt; or, if the task cannot be claimed, the outcome."""
    if services.store is None:
        raise EventError("a task was sent to a function without a task store: set BATON_TABLE")
    store = services.store.within(exchange.remaining_ms)
    claim = Claim(new_token(), lease_end(store, exchange.remaining_ms), dispatch=dispatch)
    try:
        task = store.jobs.claim(owner, task_id, claim, dispatch)
    except TaskNotFound:
        return "not found"
    except TaskFinished as error:
        return f"over: {error.current.status.value}"
    except TaskHeld as error:
        if error.current.claim is not None and error.current.claim.dispatch == dispatch:
            raise StillHeld(f"task {task_id}: another delivery of this event holds it") from error
        return "held by another worker"
    except NoAttemptLeft as error:
        return f"given up: {give_up(services, store, error.current).status.value}"
    except Conflict as error:
        return f"nothing to do: {error.current.status.value}"
    if task.job is None:
        raise EventError(f"task {task_id} has no call for a worker")
    services.telemetry.correlate(task.job.work.request_id)
    number = attempt_number(task, task.job)
    logger.info("task %s, created by request %s: attempt %d", task_id, task.job.work.request_id, number)
    if number > 1:
        services.telemetry.add(TASKS_CLAIMED_AGAIN)
    return JobAttempt(services, task, task.job, exchange)


def attempt_number(task: TaskRecord, job: Job) -> int:
    """Return the number of a claimed job's attempt. It starts again at 1 after progress: after a question, or after a
    hand-over to another invocation."""
    number = task.claim.number if task.claim else 1
    return number - (job.allowed - job.work.attempts)


class JobAttempt:
    """One attempt at a job, by the worker that has claimed its task."""

    def __init__(self, services: Services, task: TaskRecord, job: Job, exchange: Exchange) -> None:
        claims: dict[str, object] = {"scope": list(job.work.scopes)} if job.work.scopes else {}
        server, store = services.for_caller(claims, exchange)
        if store is None:
            raise EventError("a task was sent to a function without a task store: set BATON_TABLE")
        self._store: TaskStore = store
        self._job = job
        self._arguments: JsonObject = task.arguments if isinstance(task.arguments, Mapping) else {}
        self._lease = Lease(store, task, exchange.remaining_ms, services.clock)
        self._monitor = JobMonitor(self._lease, store.jobs, services.clock)
        self._variables = TaskVariables(task.variables)
        self._execution = JobExecution(
            services=services,
            server=server,
            store=store,
            owner=task.owner,
            claims=claims,
            envelope=envelope_of(job.work, PROGRESS_TOKEN),
            exchange=exchange,
            monitor=self._monitor,
            reports_to=self._monitor,
            base_url=job.work.base_url,
        )

    def run(self) -> str:
        """Make the call and write its outcome. Returns the outcome, for the log. If it raises `StoreUnavailable`,
        Lambda delivers the event again."""
        self._read_answers()
        try:
            if self._job.work.workflow_task is not None:
                from mcp_baton.background.workflow_worker import WorkflowJob

                workflow_job = WorkflowJob(self._execution, self._lease, self._job, self._arguments)
                return workflow_job.run(self._write, self._store_questions)
            outcome = self._call()
            not_approved = outcome.not_approved if isinstance(outcome, Failed) else None
            pause = None if not_approved is None else approval_pause(self._job.work.tool, not_approved)
            if isinstance(pause, ApprovalRequired):
                return suspend(self._execution, self._lease, Waits((pause,)), self._write)
            result = result_of(self._tool, outcome)
        except InputRequired as error:
            return self._store_questions(questions_of(error), Waits(()))
        except CallerGone:
            return "stopped: it is over, or another worker's"
        except ProtocolError as error:
            return self._store_error(error)
        except Exception as error:
            if self._job.work.workflow_task is not None and isinstance(error, StoreError | NotDispatched):
                raise
            logger.exception("task %s: its call failed", self._lease.task.task_id)
            return self._store_error(self._internal_error())
        return self._store_result(result)

    def _read_answers(self) -> None:
        """Read the questions and answers, which may be stored outside the head, before the call starts. A tool that
        could not read its answer would end the job with an error."""
        for texts in (self._job.asked, self._job.answers):
            read_ahead(texts, texts)
            for key in texts:
                # An answer that is lost is an error of the call that needs it.
                with suppress(ValueLost):
                    texts[key]

    @property
    def _tool(self) -> Tool:
        tool = self._execution.server.tools.get(self._job.work.tool)
        if tool is None:
            from mcp_baton.workflow.removed import unknown_in_worker

            raise unknown_in_worker(self._execution, self._job.work.tool)
        return tool

    def _call(self) -> Outcome:
        asker = TaskAsker(self._job, self._execution.envelope)
        return outcome_of(self._execution, self._tool, self._arguments, lambda _ask, _waits: asker, self._tool_call)

    @property
    def _tool_call(self) -> ToolCall:
        """The attempt continues the one before, which has asked the client, unless that one's worker died."""
        task, attempt = self._lease.task, attempt_number(self._lease.task, self._job)
        number = task.claim.number if task.claim else 1
        return ToolCall(
            task=task,
            by=f"job:{number}",
            before=f"job:{number - attempt}",
            number=attempt,
            key=lambda: self._job.work.key,
            variables=self._variables,
            pulse=self._monitor.pulse,
        )

    def _store_result(self, result: JsonObject) -> str:
        size = json_size(result)
        if size > MAX_VALUE_BYTES:
            result = self._too_large(f"result of {size} bytes", f"a task keeps {MAX_VALUE_BYTES} at most")
        try:
            return self._write("completed", lambda: self._write_result(result))
        except TooLarge as error:
            replacement = self._too_large(f"result of {size} bytes", str(error))
            return self._write("completed", lambda: self._write_result(replacement))

    def _store_questions(self, questions: Mapping[str, JsonObject], waits: Waits) -> str:
        self._monitor.write_message()
        try:
            return ask_and_wait(self._execution, self._lease, questions, waits, self._write)
        except TooLarge as error:
            replacement = self._too_large("questions", str(error))
            return self._write("completed", lambda: self._write_result(replacement))

    def _store_error(self, error: ProtocolError) -> str:
        members: dict[str, Json] = {"code": error.code, "message": error.message}
        failure = members if error.data is None else {**members, "data": error.data}
        jobs = self._store.jobs
        return self._write("failed", lambda: jobs.fail(self._lease.task, self._lease.claim(), failure))

    def _write_result(self, result: JsonObject) -> object:
        batch = Batch(
            variables=self._variables.changed,
            removed=self._variables.removed,
            result=result,
            claim=self._lease.claim(),
            release=True,
            message=self._monitor.unwritten,
        )
        return self._store.write(self._lease.task, batch)

    def _write(self, outcome: str, write: Callable[[], object]) -> str:
        """Write the outcome. Returns it, or why it was dropped. If this raises `StoreUnavailable`, Lambda delivers the
        event again."""
        try:
            write()
        except (ClaimLost, TaskFinished, TaskNotFound) as error:
            return f"dropped: {error}"
        except TooLarge:
            raise
        except StoreError as error:
            logger.exception("task %s: its outcome could not be written", self._lease.task.task_id)
            if isinstance(error, StoreUnavailable) or outcome == "failed":
                raise
            return self._store_error(self._internal_error())
        return outcome

    def _too_large(self, subject: str, reason: str) -> JsonObject:
        """Return the result that replaces one that cannot be stored. The function has run, so it is not run again."""
        return error_result(f"{self._job.work.tool} was run, but its {subject} cannot be stored: {reason}.")

    def _internal_error(self) -> ProtocolError:
        self._execution.services.telemetry.add(INTERNAL_ERRORS)
        return self._execution.internal_error("Internal error")
