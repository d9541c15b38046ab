"""`notifications/tasks`: a stream that tells how tasks change (docs/background.md, Status and polling).

The extension `io.modelcontextprotocol/tasks`, Task Status Notifications.
"""

import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from msgspec import Struct

from mcp_baton.exceptions import ProtocolError, StoreError, TaskNotFound
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import INVALID_PARAMS
from mcp_baton.server.background.watching import Followed
from mcp_baton.server.methods.tasks import check_extension, from_store
from mcp_baton.server.request import Request
from mcp_baton.server.workflows.task_view import options_of, poll_interval_ms, task_summary, task_view
from mcp_baton.tasks.record import TaskRecord, TaskStatus
from mcp_baton.tasks.store import TaskStore

logger = logging.getLogger(__name__)

MOST_TASKS: Final = 32
"""How many tasks one stream tells of."""

EXPIRED: Final = "The task has expired."

SOONEST_S: Final = 1.0
"""No task is looked at more often than this, seconds."""


class _Told(Struct):
    """A task, and what was told of it.

    Attributes:
        state: What was told last; `None` before anything was.
        next_s: When it is to be looked at again, on the request's clock.
    """

    followed: Followed
    state: object = None
    next_s: float = -math.inf


class Listened:
    """The tasks that a stream tells of.

    Args:
        request: The request that has opened it.
        ids: The ids that the client has named.
        meta: The `_meta` of every message on the stream.

    Raises:
        ProtocolError: the tasks cannot be read.
    """

    def __init__(self, request: Request, ids: list[str], meta: JsonObject) -> None:
        self._request = request
        self._meta = meta
        self._options = options_of(request)
        self._tasks = _found(request, ids)
        self.accepted = list(self._tasks)

    @property
    def over(self) -> bool:
        """Whether everything was told: there were tasks, and each of them has ended or expired."""
        return bool(self.accepted) and not self._tasks

    def tell(self) -> float:
        """Tell of each task that is due to be looked at and has changed, at first of all of them.

        Returns:
            The seconds until the next one is due.
        """
        now_s = self._request.services.clock()
        for task_id, told in list(self._tasks.items()):
            if told.next_s <= now_s and self._is_over(told, now_s):
                del self._tasks[task_id]
        return max(min((told.next_s for told in self._tasks.values()), default=math.inf) - now_s, 0)

    def _is_over(self, told: _Told, now_s: float) -> bool:
        """Look at a task, and notify the client if it has changed. Returns whether it will not change any more."""
        task_id = told.followed.task.task_id
        try:
            if told.state is not None:
                told.followed.look()
            task = told.followed.task
            told.next_s = now_s + max(SOONEST_S, poll_interval_ms(task, self._options) / 1000)
            state = _state(task)
            if state != told.state:
                self._request.reply.notify("notifications/tasks", self._params(task))
                told.state = state
        except TaskNotFound:
            self._request.reply.notify("notifications/tasks", self._expired(told.followed.task))
            return True
        except StoreError:
            logger.warning("task %s: it cannot be read now", task_id, exc_info=True)
            told.next_s = now_s + SOONEST_S
            return False
        return task.status.terminal

    def _params(self, task: TaskRecord) -> dict[str, Json]:
        """What `tasks/get` answers, with the stream's `_meta`."""
        made = task_view(task, self._options)
        own = made.get("_meta")
        return {**made, "_meta": {**own, **self._meta} if isinstance(own, Mapping) else self._meta}

    def _expired(self, task: TaskRecord) -> dict[str, Json]:
        """A task that has expired, as one that has failed: `tasks/get` does not find it any more."""
        failed = replace(task, status=TaskStatus.FAILED, status_message=EXPIRED)
        error: dict[str, Json] = {"code": INVALID_PARAMS, "message": EXPIRED}
        return {**task_summary(failed, self._options), "error": error, "_meta": self._meta}


def _state(task: TaskRecord) -> object:
    """What clients are told of when it changes."""
    return task.status, task.status_message, frozenset(task.job.open) if task.job else None


def listened(request: Request, notifications: JsonObject, meta: JsonObject) -> Listened | None:
    """The tasks that a subscription is about; `None` where it names none.

    Raises:
        ProtocolError: `taskIds` is no list of strings, or the client has not declared the extension.
    """
    if "taskIds" not in notifications:
        return None
    check_extension(request)
    ids = notifications["taskIds"]
    if not isinstance(ids, list) or not all(isinstance(task_id, str) for task_id in ids):
        raise ProtocolError(INVALID_PARAMS, "Invalid params: `notifications.taskIds` must be a list of strings")
    return Listened(request, [str(task_id) for task_id in ids], meta)


def _found(request: Request, ids: list[str]) -> dict[str, _Told]:
    """Those of these tasks that are the caller's, as many as one stream tells of."""
    if request.store is None or request.owner is None:
        return {}
    found: dict[str, _Told] = {}
    for task_id in list(dict.fromkeys(ids))[:MOST_TASKS]:
        followed = from_store(request, partial(_followed, request, task_id))
        if followed is not None:
            found[task_id] = _Told(followed)
    return found


def _followed(request: Request, task_id: str, store: TaskStore, owner: str) -> Followed | None:
    """A task of the caller's; `None` if there is none with this id, or it expires while it is looked at."""
    try:
        return Followed(request, store, store.get(owner, task_id))
    except TaskNotFound:
        return None
