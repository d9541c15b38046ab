"""A worker's invocation: claim the task that the event names, make its call, write the result (docs/background.md).

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
    ProtocolError,
    StoreError,
    TaskFinished,
    TaskHeld,
    TaskNotFound,
)
from mcp_baton.protocol import jsonrpc
from mcp_baton.protocol.budget import Budget
from mcp_baton.protocol.codes import INVALID_PARAMS
from mcp_baton.protocol.envelope import STATELESS_REVISIONS, Envelope, Era
from mcp_baton.protocol.http import Exchange
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.asking.asker import InputRequired
from mcp_baton.server.methods.jobs.asker import TaskAsker, questions_of
from mcp_baton.server.methods.jobs.dispatching import given_up
from mcp_baton.server.methods.jobs.watching import Watch
from mcp_baton.server.methods.tools import outcome_of, result_of
from mcp_baton.server.published.tool import Tool
from mcp_baton.server.reply import Reply
from mcp_baton.server.request import Request
from mcp_baton.server.running.runner import Surroundings
from mcp_baton.server.running.worker import CallerGone
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.record import Claim, TaskRecord
from mcp_baton.tasks.store import Batch, TaskStore
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tasks.work import Job
from mcp_baton.telemetry import TASKS_CLAIMED_AGAIN
from mcp_baton.workflow.holding import Hold, lease_end
from mcp_baton.workflow.host import Attempt

logger = logging.getLogger(__name__)

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
    idle = make(_message({}), _envelope("", {}), owner, {}, exchange, Reply(exchange, streams=False), {}, Budget())
    outcome = _claimed(make, idle, owner, task_id, dispatch, exchange)
    logger.info("task %s: %s", task_id, outcome)
    return {"taskId": task_id, "outcome": outcome}


def _read(named: JsonObject) -> tuple[str, str, int]:
    owner, task_id, dispatch = named.get("owner"), named.get("taskId"), named.get("dispatch")
    if not isinstance(owner, str) or not isinstance(task_id, str) or not isinstance(dispatch, int):
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
    if task.claim is not None and task.claim.number > 1:
        idle.telemetry.add(TASKS_CLAIMED_AGAIN)
    return _Attempt(make, store, task, task.job, exchange).run()


class _Attempt:
    """One attempt at a job, by the worker that holds its task."""

    def __init__(self, make: Make, store: TaskStore, task: TaskRecord, job: Job, exchange: Exchange) -> None:
        self._store, self._job = store, job
        envelope = _envelope(job.work.revision, job.work.capabilities)
        claims: dict[str, object] = {"scope": " ".join(job.work.scopes)} if job.work.scopes else {}
        message = _message({"name": job.work.tool, "arguments": task.arguments})
        self._watch = Watch(exchange)
        self._request = make(message, envelope, task.owner, claims, exchange, self._watch, {}, Budget())
        self._hold = Hold(store, task, exchange.remaining_ms, self._request.clock)
        self._watch.hold = self._hold

    def run(self) -> str:
        """Make the call and write what became of it; what that was, for the log."""
        task = self._hold.task
        tool = self._request.server.tools.get(self._job.work.tool)
        try:
            if self._job.work.workflow_task is not None:
                from mcp_baton.server.methods.jobs.hops import WorkflowJob

                return WorkflowJob(self._request, self._watch, self._hold, self._job).run(self._written)
            if tool is None:
                raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {self._job.work.tool}")
            return self._completed(tool, task)
        except ProtocolError as error:
            made: dict[str, Json] = {"code": error.code, "message": error.message}
            failure = made if error.data is None else {**made, "data": error.data}
            return self._written("failed", lambda: self._store.jobs.fail(task, self._hold.claim(), failure))
        except InputRequired as required:
            questions = questions_of(required)
            return self._written("asked", lambda: self._store.jobs.ask(task, self._hold.claim(), questions))
        except CallerGone:
            return "stopped: it is over, or another worker's"

    def _completed(self, tool: Tool, task: TaskRecord) -> str:
        variables = TaskVariables(task.variables)
        number = task.claim.number if task.claim else 1
        surroundings = Surroundings(
            variables=variables,
            attempt=Attempt(number=number, key=lambda: self._job.work.key),
            pulse=self._watch.pulse,
        )
        arguments = self._request.object("arguments")
        asker = TaskAsker(self._job, self._request.envelope)
        outcome = outcome_of(self._request, tool, arguments, surroundings, lambda _ask, _waited_for: asker)
        batch = Batch(
            variables=variables.changed,
            removed=variables.removed,
            result=result_of(tool, outcome),
            claim=self._hold.claim(),
            release=True,
        )
        return self._written("completed", lambda: self._store.write(task, batch))

    def _written(self, outcome: str, write: Callable[[], object]) -> str:
        """What became of the call, once it is written. A result that comes too late is dropped.

        Raises:
            StoreError: it could not be written; the event is to be delivered again.
        """
        try:
            write()
        except (ClaimLost, TaskFinished, TaskNotFound) as late:
            return f"dropped: {late}"
        except StoreError:
            logger.exception("task %s: what became of it could not be written", self._hold.task.task_id)
            raise
        return outcome


def _message(params: JsonObject) -> jsonrpc.Request:
    return jsonrpc.Request(TOKEN, "tools/call", params)


def _envelope(revision: str, capabilities: JsonObject) -> Envelope:
    era = Era.STATELESS if revision in STATELESS_REVISIONS else Era.HANDSHAKE
    return Envelope(era, revision, {}, capabilities, TOKEN, None)
