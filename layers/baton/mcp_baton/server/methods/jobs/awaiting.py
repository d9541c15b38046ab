"""`tasks/result` of a task that a worker works on: the request waits, for so long (docs/background.md, Status and
polling).

2025-11-25, basic/utilities/tasks, Result Retrieval. Waiting for ever, as the revision has it, would cost more than the
work: a function that waits is paid by the second.
"""

from typing import Final

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.codes import INVALID_REQUEST
from mcp_baton.protocol.json import Json
from mcp_baton.server.methods.jobs.following import Followed
from mcp_baton.server.methods.jobs.questions import questions_open
from mcp_baton.server.methods.shown_tasks import failure_of, poll_interval_ms
from mcp_baton.server.request import Request
from mcp_baton.server.running.worker import KEEP_ALIVE_S, CallerGone
from mcp_baton.tasks.record import TaskRecord, TaskStatus
from mcp_baton.tasks.store import TaskStore

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
    followed, quiet_s, since_s = Followed(request, store, task), 0.0, request.begun_s
    while not followed.task.status.terminal:
        left_s = _left_s(request, since_s)
        if left_s <= 0:
            break
        if followed.task.status is TaskStatus.INPUT_REQUIRED:
            answered = questions_open(request, followed.task)
            if answered is None:
                break
            # A person takes their time: what follows is waited for anew.
            followed.task, since_s = answered, request.clock()
            continue
        wait_s = min(LOOK_S, left_s)
        request.sleep(wait_s)
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
    if not request.may_wait:
        return 0.0
    limit_s = request.server.result_wait_s
    if not request.exchange.can_stream:
        limit_s = min(limit_s, WHOLE_S)
    left_s, function_s = limit_s - (request.clock() - since_s), request.left_s()
    return left_s if function_s is None else min(left_s, function_s)


def _check_completed(request: Request, task: TaskRecord) -> None:
    """Refuse what has no result.

    Raises:
        ProtocolError: what is said in its place.
    """
    if task.error is not None:
        raise failure_of(task.error)
    if task.status is TaskStatus.COMPLETED:
        return
    data: dict[str, Json] = {"status": task.status.value}
    if task.status.terminal:
        raise ProtocolError(INVALID_REQUEST, f"The task is {task.status.value}: it has no result", data)
    data["pollInterval"] = poll_interval_ms(request, task)
    if task.status is TaskStatus.INPUT_REQUIRED:
        raise ProtocolError(INVALID_REQUEST, "The task has no result yet: it waits for the client's answers", data)
    raise ProtocolError(INVALID_REQUEST, "The task has no result yet: poll `tasks/get` until it is over", data)
