"""`subscriptions/listen`: notifications about tasks (docs/background.md, Status and polling).

Lists change only with a deployment, and nothing informs the server of other changes. So the server only supports
notifications about tasks, which it polls. It keeps the stream alive, and ends it before the function times out. MCP
2026-07-28, basic/patterns/subscriptions; the extension `io.modelcontextprotocol/tasks`, Task Status Notifications.
"""

import logging
import math
from contextlib import suppress
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mcp_baton.exceptions import ProtocolError, StoreError, TaskNotFound
from mcp_baton.present.mcp_task import poll_interval_ms, task_summary, task_view
from mcp_baton.present.stored_task import view_of, with_decisions
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, InvalidParams, checked_object
from mcp_baton.server.methods.tasks import check_extension, from_store
from mcp_baton.tasks.record import TaskRecord, TaskStatus
from mcp_baton.tasks.step_ids import bare_task_id
from mcp_baton.tasks.store import TaskStore
from mcp_baton.tools.content import with_meta
from mcp_baton.transport.exchange import KEEP_ALIVE_S
from mcp_baton.workflow.dispatching import WatchedTask
from mcp_baton.workflow.request import Request

logger = logging.getLogger(__name__)

SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"

MAX_TASKS_PER_STREAM: Final = 32
"""The most tasks that one stream reports."""

EXPIRED: Final = "The task has expired."

MIN_READ_S: Final = 1.0
"""A task is read no more often than this, seconds."""


def listen(request: Request) -> JsonObject:
    """Acknowledge a subscription and keep its stream open. A stream about tasks ends when all of them have ended."""
    notifications = checked_object(request.params.get("notifications"), "notifications")
    meta: dict[str, Json] = {SUBSCRIPTION_KEY: request.message.id}
    if not request.exchange.takes_stream:
        cause = "the answer is a stream; send `Accept: application/json, text/event-stream`"
        raise ProtocolError(INVALID_REQUEST, f"Invalid request: {cause}")
    subscription = _Subscription(request, _task_ids(request, notifications), meta)
    filters: dict[str, Json] = {"taskIds": subscription.accepted_ids} if subscription.accepted_ids else {}
    request.exchange.notify("notifications/subscriptions/acknowledged", {"_meta": meta, "notifications": filters})
    while True:
        next_s = subscription.report()
        if request.exchange.gone or not request.exchange.can_stream or subscription.is_over:
            break
        remaining_s = _remaining_s(request)
        if remaining_s <= 0:
            break
        request.pause(min(KEEP_ALIVE_S, next_s, remaining_s))
    return {"_meta": meta}


def _remaining_s(request: Request) -> float:
    """Return the seconds until the stream ends: before the function's time is over, or at the limit for streams."""
    remaining_s = request.left_s()
    limit_s = request.services.settings.listen_ms / 1000 - request.elapsed_s()
    return limit_s if remaining_s is None else min(limit_s, remaining_s)


def _task_ids(request: Request, notifications: JsonObject) -> list[str]:
    if notifications.get("taskIds") is None:
        return []
    check_extension(request)
    ids = notifications["taskIds"]
    if not isinstance(ids, list) or not all(isinstance(task_id, str) for task_id in ids):
        raise InvalidParams("`notifications.taskIds` must be a list of strings")
    return [bare_task_id(str(task_id)) for task_id in ids]


class _ReportedTask(Struct):
    """A task, and its state when it was last reported.

    Attributes:
        next_s: When to read the task again, on `Services.clock`.
    """

    watched: WatchedTask
    state: object = None
    next_s: float = -math.inf


class _Subscription:
    def __init__(self, request: Request, ids: list[str], meta: JsonObject) -> None:
        self._request = request
        self._meta = meta
        self._tasks = _find(request, ids)
        self.accepted_ids = list(self._tasks)

    @property
    def is_over(self) -> bool:
        """Whether the subscription had tasks, and all of them have ended or expired."""
        return bool(self.accepted_ids) and not self._tasks

    def report(self) -> float:
        """Read each task that is due and report it if it has changed. The first call reports all of them. Returns the
        seconds until the next one is due."""
        now_s = self._request.services.clock()
        for task_id, task in list(self._tasks.items()):
            if task.next_s <= now_s and self._has_ended(task, now_s):
                del self._tasks[task_id]
        return max(min((task.next_s for task in self._tasks.values()), default=math.inf) - now_s, 0)

    def _has_ended(self, reported_task: _ReportedTask, now_s: float) -> bool:
        """Read a task and report it if it has changed. Returns whether it will not change again."""
        try:
            if reported_task.state is not None:
                reported_task.watched.refresh()
            task = with_decisions(reported_task.watched.task, self._request.store)
            shown = view_of(task, self._request.now_ms())
            reported_task.next_s = now_s + max(MIN_READ_S, poll_interval_ms(task, shown, self._request) / 1000)
            state = _notified_state(task)
            if state != reported_task.state:
                params = with_meta(task_view(task, self._request, shown), self._meta)
                self._request.exchange.notify("notifications/tasks", params)
                reported_task.state = state
        except TaskNotFound:
            # An expired task is reported as failed: `tasks/get` does not find it any more.
            task = replace(reported_task.watched.task, status=TaskStatus.FAILED, status_message=EXPIRED)
            error: dict[str, Json] = {"code": INVALID_PARAMS, "message": EXPIRED}
            self._request.exchange.notify(
                "notifications/tasks", {**task_summary(task, self._request), "error": error, "_meta": self._meta}
            )
            return True
        except StoreError:
            logger.warning("task %s: it cannot be read now", reported_task.watched.task.task_id, exc_info=True)
            reported_task.next_s = now_s + MIN_READ_S
            return False
        return task.status.terminal


def _notified_state(task: TaskRecord) -> object:
    """Return the part of a task whose changes are reported."""
    decided = [pause.get("type") for pause in task.shown_pauses or ()]
    of_job = (task.job.waits, frozenset(task.job.open)) if task.job else None
    return task.status, task.status_message, decided, of_job


def _find(request: Request, ids: list[str]) -> dict[str, _ReportedTask]:
    if not ids or request.store is None or request.owner is None:
        return {}

    def find(store: TaskStore, _owner: str) -> dict[str, _ReportedTask]:
        reported_tasks: dict[str, _ReportedTask] = {}
        for task_id in list(dict.fromkeys(ids))[:MAX_TASKS_PER_STREAM]:
            with suppress(TaskNotFound):
                reported_tasks[task_id] = _ReportedTask(WatchedTask(request, store, request.own_task(task_id)))
        return reported_tasks

    return from_store(request, find)
