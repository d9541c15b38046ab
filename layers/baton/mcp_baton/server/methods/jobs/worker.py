"""A worker's invocation: claim the task that the event names, and begin an attempt at its call (docs/background.md)."""

import logging

from mcp_baton.exceptions import (
    BatonError,
    Conflict,
    EventError,
    NoAttemptLeft,
    TaskFinished,
    TaskHeld,
    TaskNotFound,
)
from mcp_baton.protocol.budget import Budget
from mcp_baton.protocol.http import Exchange
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.methods.jobs.attempt import TOKEN, Attempt, Make, attempt_of, message_of
from mcp_baton.server.methods.jobs.client import envelope_of
from mcp_baton.server.methods.jobs.dispatching import given_up
from mcp_baton.server.reply import Reply
from mcp_baton.server.request import Request
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.record import Claim
from mcp_baton.tasks.work import Work
from mcp_baton.telemetry import TASKS_CLAIMED_AGAIN
from mcp_baton.workflow.holding import lease_end

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
