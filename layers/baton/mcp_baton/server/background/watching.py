"""What a worker's thread does while the function runs: renew the claim, look whether the task is still to be worked on,
write down how far it has come (docs/background.md, Cancelling; Status and polling)."""

import logging
import math
import time
from collections.abc import Callable
from typing import Final

from mcp_baton.exceptions import ClaimLost, ProtocolError, StoreError, TaskFinished, TaskNotFound
from mcp_baton.protocol.http import Exchange
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import INVALID_REQUEST
from mcp_baton.server.background.dispatching import looked_after
from mcp_baton.server.background.questions import questions_open
from mcp_baton.server.reply import Reply
from mcp_baton.server.request import Request
from mcp_baton.server.running.tool_threads import KEEP_ALIVE_S, CallerGone
from mcp_baton.server.workflows.task_view import failure_of, poll_interval_ms
from mcp_baton.tasks.jobs import JobStore
from mcp_baton.tasks.record import LEASE_MS, TaskRecord, TaskStanding, TaskStatus
from mcp_baton.tasks.store import TaskStore
from mcp_baton.workflow.lease import LOOK_AFTER_S, TRY_AGAIN_MS, Lease

logger = logging.getLogger(__name__)

MESSAGE_S: Final = 1.0
"""A task's status message is written no more often than this, seconds."""


class Watch(Reply):
    """The reply of a request that nobody waits at: the function's client has gone once its task is over, or another
    worker's."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange, streams=False)
        self._lease: Lease | None = None
        self._jobs: JobStore | None = None
        self._clock: Callable[[], float] = time.monotonic
        self._ended = False
        self._stopped = False
        self._message: str | None = None
        self._next_s = -math.inf

    def begin(self, lease: Lease, jobs: JobStore, clock: Callable[[], float]) -> None:
        """Watch over a task.

        Args:
            hold: The worker's claim on it.
            jobs: Where its status message is written.
            clock: Seconds, from any moment on.
        """
        self._lease, self._jobs, self._clock = lease, jobs, clock

    @property
    def gone(self) -> bool:
        """Whether what runs is to stop."""
        return self._ended or self._stopped

    @property
    def ended(self) -> bool:
        """Whether the task is over, or another worker's."""
        return self._ended

    @property
    def unwritten(self) -> str | None:
        """The status message that is not written yet, since the one before was written just now; `None` for none."""
        return self._message

    def stop(self) -> None:
        """Have what runs stop, although the task goes on: the workflow that it belongs to does not."""
        self._stopped = True

    def pulse(self) -> float:
        """Look after the task; the seconds until that is due again."""
        if self._lease is None:
            return LOOK_AFTER_S
        message_s = self._write_message(self._lease)
        self._ended = self._ended or self._lease.look() is not None or not self._lives_on(self._lease)
        if self._ended:
            return 0
        pulse_s = self._lease.pulse()
        # The claim may have run out before the function begins. The next poll sends for another worker then.
        self._stopped = self._stopped or pulse_s == math.inf
        return min(pulse_s, LOOK_AFTER_S, message_s)

    def write_message(self) -> None:
        """Write the status message down that is not yet, whenever the one before was written."""
        self._next_s = -math.inf
        if self._lease is not None:
            self._write_message(self._lease)

    def notify(self, method: str, params: dict[str, Json]) -> None:
        """Progress becomes the task's status message. Whatever else the function says goes to nobody."""
        if method == "notifications/progress":
            self._message = status_message(params)

    def say(self, message: str) -> None:
        """Make this the task's status message."""
        self._message = message

    def request(self, identifier: str, method: str, params: JsonObject) -> None:
        """Nobody can be asked this way."""

    def keep_alive(self) -> None:
        """Nothing is kept open."""

    def _lives_on(self, lease: Lease) -> bool:
        """Let the task live on while it is worked on, however short its lifetime is; whether it does."""
        if self._jobs is None:
            return True
        try:
            lease.task = self._jobs.extend(lease.task, 2 * LEASE_MS)
        except (ClaimLost, TaskFinished, TaskNotFound):
            return False
        except StoreError:
            logger.warning("task %s: it could not be made to live longer", lease.task.task_id, exc_info=True)
        return True

    def _write_message(self, lease: Lease) -> float:
        """Write the status message if it is time to; the seconds until it will be."""
        message, jobs = self._message, self._jobs
        if message is None or jobs is None:
            return math.inf
        left_s = self._next_s - self._clock()
        if left_s > 0:
            return left_s
        written = lease.renew_by(lambda task, claim: jobs.report(task, claim, message))
        pause_s = MESSAGE_S if written else TRY_AGAIN_MS / 1000
        self._next_s = self._clock() + pause_s
        if written:
            self._message = None
            return math.inf
        return pause_s


def status_message(params: JsonObject) -> str:
    """Progress in words: `3/10: message`, or as much of it as was reported."""
    progress, total, message = params.get("progress"), params.get("total"), params.get("message")
    counted = _number(progress) if total is None else f"{_number(progress)}/{_number(total)}"
    return f"{counted}: {message}" if message else counted


def _number(value: Json) -> str:
    # As people write it: 3 and not 3.0, 0.3 and not 0.30000000000000004.
    return f"{value:.12g}" if isinstance(value, float) else str(value)


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
        return is_used_up or (job.due_ms < now_ms and self._request.dispatcher is not None)


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
