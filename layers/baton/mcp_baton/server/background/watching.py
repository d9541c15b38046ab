"""What a worker's thread does while the function runs: renew the claim, look whether the task is still to be worked on,
write down how far it has come (docs/background.md, Cancelling; Status and polling)."""

import logging
from typing import Final

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.json import Json
from mcp_baton.protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST
from mcp_baton.server.background.dispatching import looked_after
from mcp_baton.server.background.questions import questions_open
from mcp_baton.server.request import Request
from mcp_baton.server.running.tool_threads import KEEP_ALIVE_S, CallerGone
from mcp_baton.server.workflows.task_view import options_of, poll_interval_ms
from mcp_baton.tasks.record import TaskRecord, TaskStanding, TaskStatus
from mcp_baton.tasks.store import TaskStore

logger = logging.getLogger(__name__)


class Followed:
    """A task, looked at again and again by the cheapest read. Where that says that it has changed, or that nobody works
    on it, it is read in full; then another worker is sent for, as by any poll.

    Args:
        request: On whose behalf.
        store: Where it is kept.
        task: The task as it was read.

    Attributes:
        task: The task as it was read in full last.
    """

    def __init__(self, request: Request, store: TaskStore, task: TaskRecord) -> None:
        self._request = request
        self._store = store
        self.task = looked_after(request, task)

    def look(self) -> None:
        """Look at the task.

        Raises:
            TaskNotFound: it has expired.
            StoreError: it cannot be read.
        """
        if self.task.status.terminal:
            return
        standing = self._store.read_status(self.task.owner, self.task.task_id)
        if standing.version > self.task.version or self._is_deserted(standing):
            self.task = looked_after(self._request, self._store.get(self.task.owner, self.task.task_id))

    def _is_deserted(self, standing: TaskStanding) -> bool:
        """Whether a worker is to be sent for, or the task to be given up, as far as a light look tells."""
        job, claim, now_ms = self.task.job, standing.claim, self._request.now_ms()
        if job is None or standing.status is not TaskStatus.WORKING:
            return False
        if claim is not None and claim.holds_at(now_ms):
            return False
        is_used_up = claim is not None and claim.number >= job.allowed
        return is_used_up or (job.due_ms < now_ms and self._request.services.dispatcher is not None)


LOOK_S: Final = 1.0
"""A request that waits looks at its task so often, seconds: a read costs a hundredth of the second."""

WHOLE_S: Final = 25.0
"""The longest wait where the answer cannot be streamed, seconds: API Gateway gives up after 29 s
(https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-execution-service-limits-table.html)."""


def awaited(request: Request, store: TaskStore, task: TaskRecord) -> TaskRecord:
    """A task, once it is completed.

    Args:
        request: The request that waits.
        store: Where the task is kept.
        task: The task as it was read.

    Raises:
        ProtocolError: it has failed, which is what the call is answered with; it was cancelled; or it is not over yet.
        CallerGone: the client went away.
        StoreError: it cannot be read any more.
    """
    followed, quiet_s, since_s = Followed(request, store, task), 0.0, request.began_s
    while not followed.task.status.terminal:
        left_s = _left_s(request, since_s)
        if left_s <= 0:
            break
        if followed.task.status is TaskStatus.INPUT_REQUIRED:
            answered = questions_open(request, followed.task)
            if answered is None:
                break
            # A person takes their time: what follows is waited for anew.
            followed.task, since_s = answered, request.services.clock()
            continue
        wait_s = min(LOOK_S, left_s)
        request.services.sleep(wait_s)
        quiet_s += wait_s
        if quiet_s >= KEEP_ALIVE_S:
            quiet_s = 0.0
            request.reply.keep_open()
        if request.reply.gone:
            raise CallerGone
        followed.look()
    _check_completed(request, followed.task)
    return followed.task


def _left_s(request: Request, since_s: float) -> float:
    """Seconds that the request may still wait, where it has waited since then."""
    limit_s = request.server.options.result_wait_s
    if not request.reply.can_stream:
        limit_s = min(limit_s, WHOLE_S)
    left_s, function_s = limit_s - (request.services.clock() - since_s), request.left_s()
    return left_s if function_s is None else min(left_s, function_s)


def _check_completed(request: Request, task: TaskRecord) -> None:
    """Refuse what has no result.

    Raises:
        ProtocolError: what is said in its place.
    """
    if task.error is not None:
        code, message = task.error.get("code"), str(task.error.get("message") or "Internal error")
        raise ProtocolError(code if isinstance(code, int) else INTERNAL_ERROR, message, task.error.get("data"))
    if task.status is TaskStatus.COMPLETED:
        return
    data: dict[str, Json] = {"status": task.status.value}
    if task.status.terminal:
        raise ProtocolError(INVALID_REQUEST, f"The task is {task.status.value}: it has no result", data)
    data["pollInterval"] = poll_interval_ms(task, options_of(request))
    if task.status is TaskStatus.INPUT_REQUIRED:
        raise ProtocolError(INVALID_REQUEST, "The task has no result yet: it waits for the client's answers", data)
    raise ProtocolError(INVALID_REQUEST, "The task has no result yet: poll `tasks/get` until it is over", data)
