"""One attempt of a worker's at a job: make the call, write what became of it (docs/background.md).

Every write is conditional on the claim, so that an attempt whose claim has run out changes nothing any more.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

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
)
from mcp_baton.protocol import jsonrpc
from mcp_baton.protocol.budget import Budget
from mcp_baton.protocol.envelope import Envelope
from mcp_baton.protocol.http import Exchange
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from mcp_baton.server.asking.asker import InputRequired
from mcp_baton.server.background.dispatching import given_up
from mcp_baton.server.background.questions import TaskAsker, envelope_of, questions_of
from mcp_baton.server.background.watching import Watch
from mcp_baton.server.methods.calling import outcome_of, result_of
from mcp_baton.server.reply import Reply
from mcp_baton.server.request import Request
from mcp_baton.server.running.runner import CallOptions
from mcp_baton.server.running.tool_threads import CallerGone
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.record import Claim, TaskRecord
from mcp_baton.tasks.store import Batch, TaskStore
from mcp_baton.tasks.texts import VALUE_BYTES
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tasks.work import Job, Work
from mcp_baton.telemetry import INTERNAL_ERRORS, TASKS_CLAIMED_AGAIN
from mcp_baton.workflow import host
from mcp_baton.workflow.lease import Lease, lease_end

TOKEN = "task"  # noqa: S105 - a progress token, by which nobody is let in
"""The progress token of a worker's request: what a function reports becomes its task's status message."""


class Make(Protocol):
    """Makes a request of what is told of it."""

    def __call__(
        self,
        message: jsonrpc.Request,
        envelope: Envelope,
        owner: str | None,
        claims: Mapping[str, object],
        exchange: Exchange,
        reply: Reply,
        headers: Mapping[str, str],
        budget: Budget,
    ) -> Request:
        """The request."""


def attempt_of(task: TaskRecord, job: Job) -> int:
    """Which attempt at its call a claimed job is in, from 1 on. They are counted anew when it has settled something: it
    has asked, or was handed over."""
    number = task.claim.number if task.claim else 1
    return number - (job.allowed - job.work.attempts)


class Attempt:
    """One attempt at a job, by the worker that holds its task."""

    def __init__(self, make: Make, store: TaskStore, task: TaskRecord, job: Job, exchange: Exchange) -> None:
        self._store, self._job = store, job
        envelope = envelope_of(job.work, TOKEN)
        claims: dict[str, object] = {"scope": list(job.work.scopes)} if job.work.scopes else {}
        message = message_of({"name": job.work.tool, "arguments": task.arguments})
        self._watch = Watch(exchange)
        self._request = make(message, envelope, task.owner, claims, exchange, self._watch, {}, Budget())
        self._lease = Lease(store, task, exchange.remaining_ms, self._request.clock)
        self._watch.begin(self._lease, store.jobs, self._request.clock)
        self._variables = TaskVariables(task.variables)

    def run(self) -> str:
        """Make the call and write what became of it; what that was, for the log.

        Raises:
            StoreUnavailable: it could not be written; the event is to be delivered again.
        """
        try:
            if self._job.work.workflow_task is not None:
                return self._workflow()
            result = self._called()
        except InputRequired as required:
            return self._asked(questions_of(required))
        except CallerGone:
            return "stopped: it is over, or another worker's"
        except ProtocolError as error:
            return self._failed(error)
        except Exception as error:
            if self._job.work.workflow_task is not None and isinstance(error, StoreError | NotDispatched):
                raise
            logger.exception("task %s: its call failed", self._lease.task.task_id)
            return self._failed(self._internal_error())
        return self._completed(result)

    def _workflow(self) -> str:
        """Go on with a workflow; what became of it, for the log."""
        from mcp_baton.server.background.workflow_worker import WorkflowJob

        return WorkflowJob(self._request, self._watch, self._lease, self._job).run(self._written)

    def _called(self) -> JsonObject:
        """The tool's result."""
        tool = self._request.server.tools.get(self._job.work.tool)
        if tool is None:
            raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {self._job.work.tool}")
        options = CallOptions(
            variables=self._variables,
            attempt=host.Attempt(number=attempt_of(self._lease.task, self._job), key=lambda: self._job.work.key),
            pulse=self._watch.pulse,
        )
        asker = TaskAsker(self._job, self._request.envelope)
        arguments = self._request.object("arguments")
        return result_of(tool, outcome_of(self._request, tool, arguments, options, lambda _ask, _waits: asker))

    def _completed(self, result: JsonObject) -> str:
        size = len(dumps(result).encode())
        if size > VALUE_BYTES:
            result = self._too_large(f"result of {size} bytes", f"a task keeps {VALUE_BYTES} at most")
        try:
            return self._written("completed", lambda: self._end(result))
        except TooLarge as error:
            noted = self._too_large(f"result of {size} bytes", str(error))
            return self._written("completed", lambda: self._end(noted))

    def _asked(self, questions: Mapping[str, JsonObject]) -> str:
        self._watch.write_message()
        jobs = self._store.jobs
        try:
            return self._written("asked", lambda: jobs.ask(self._lease.task, self._lease.claim(), questions))
        except TooLarge as error:
            noted = self._too_large("questions", str(error))
            return self._written("completed", lambda: self._end(noted))

    def _failed(self, error: ProtocolError) -> str:
        made: dict[str, Json] = {"code": error.code, "message": error.message}
        failure = made if error.data is None else {**made, "data": error.data}
        jobs = self._store.jobs
        return self._written("failed", lambda: jobs.fail(self._lease.task, self._lease.claim(), failure))

    def _end(self, result: JsonObject) -> object:
        batch = Batch(
            variables=self._variables.changed,
            removed=self._variables.removed,
            result=result,
            claim=self._lease.claim(),
            release=True,
            message=self._watch.unwritten,
        )
        return self._store.write(self._lease.task, batch)

    def _written(self, outcome: str, write: Callable[[], object]) -> str:
        """What became of the call, once it is written. What comes too late is dropped.

        Raises:
            TooLarge: it does not fit.
            StoreUnavailable: it could not be written; the event is to be delivered again.
        """
        try:
            write()
        except (ClaimLost, TaskFinished, TaskNotFound) as late:
            return f"dropped: {late}"
        except TooLarge:
            raise
        except StoreError as error:
            logger.exception("task %s: what became of it could not be written", self._lease.task.task_id)
            if isinstance(error, StoreUnavailable) or outcome == "failed":
                raise
            return self._failed(self._internal_error())
        return outcome

    def _too_large(self, what: str, why: str) -> JsonObject:
        """What stands in the place of a result that cannot be kept. The function has run, so it is not run again."""
        text = f"{self._job.work.tool} was run, but its {what} cannot be kept: {why}."
        return {"content": [{"type": "text", "text": text}], "isError": True}

    def _internal_error(self) -> ProtocolError:
        self._request.telemetry.add(INTERNAL_ERRORS)
        data: Json = {"correlationId": self._request.exchange.request_id}
        return ProtocolError(INTERNAL_ERROR, "Internal error", data)


def message_of(params: JsonObject) -> jsonrpc.Request:
    """A call as a worker's request."""
    return jsonrpc.Request(TOKEN, "tools/call", params)


logger = logging.getLogger(__name__)


class StillHeld(BatonError):
    """The event came once more while its first delivery is being worked on, or its worker has died: Lambda is to
    deliver it again later."""


def work(make: Make, named: JsonObject, exchange: Exchange) -> JsonObject:
    """Work on the task that an event names.

    Args:
        make: Makes a request.
        named: What the event says: `owner`, `taskId`, `dispatch`.
        exchange: The invocation.

    Returns:
        What became of it, for the log: `{"taskId", "outcome"}`.

    Raises:
        EventError: the event is not one that Baton has made.
        StillHeld: another delivery of the same event is being worked on.
        StoreError: the store did not answer; the event is to be delivered again.
    """
    owner, task_id, dispatch = _read(named)
    nothing, silent = envelope_of(Work("", ""), TOKEN), Reply(exchange, streams=False)
    idle = make(message_of({}), nothing, owner, {}, exchange, silent, {}, Budget())
    outcome = _claimed(make, idle, owner, task_id, dispatch, exchange)
    logger.info("task %s: %s", task_id, outcome)
    return {"taskId": task_id, "outcome": outcome}


def _read(named: JsonObject) -> tuple[str, str, int]:
    owner, task_id, dispatch = named.get("owner"), named.get("taskId"), named.get("dispatch")
    if not isinstance(owner, str) or not isinstance(task_id, str) or type(dispatch) is not int:
        raise EventError("the event's `batonTask` needs `owner` and `taskId`, strings, and `dispatch`, a number")
    return owner, task_id, dispatch


def _claimed(make: Make, idle: Request, owner: str, task_id: str, dispatch: int, exchange: Exchange) -> str:
    store = idle.store
    if store is None:
        raise EventError("a task was sent to a function without a task store: set BATON_TABLE")
    claim = Claim(new_token(), lease_end(store, exchange.remaining_ms), dispatch=dispatch)
    try:
        task = store.jobs.claim(owner, task_id, claim, dispatch)
    except TaskNotFound:
        return "not found"
    except TaskFinished as finished:
        return f"over: {finished.current.status.value}"
    except TaskHeld as held:
        if held.current.claim is not None and held.current.claim.dispatch == dispatch:
            raise StillHeld(f"task {task_id}: another delivery of this event holds it") from held
        return "held by another worker"
    except NoAttemptLeft as used_up:
        return f"given up: {given_up(idle, used_up.current).status.value}"
    except Conflict as conflict:
        return f"nothing to do: {conflict.current.status.value}"
    if task.job is None:
        raise EventError(f"task {task_id} has no call for a worker")
    idle.telemetry.correlate(task.job.work.request_id)
    attempt = attempt_of(task, task.job)
    logger.info("task %s, made by request %s: attempt %d", task_id, task.job.work.request_id, attempt)
    if attempt > 1:
        idle.telemetry.add(TASKS_CLAIMED_AGAIN)
    return Attempt(make, store, task, task.job, exchange).run()
