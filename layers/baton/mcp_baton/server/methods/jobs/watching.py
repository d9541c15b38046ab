"""What a worker's thread does while the function runs: renew the claim, look whether the task is still to be worked on,
write down how far it has come (docs/background.md, Cancelling; Status and polling)."""

import logging
import math
import time
from collections.abc import Callable
from typing import Final

from mcp_baton.exceptions import ClaimLost, StoreError, TaskFinished, TaskNotFound
from mcp_baton.protocol.http import Exchange
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.reply import Reply
from mcp_baton.tasks.jobs import JobStore
from mcp_baton.tasks.record import LEASE_MS
from mcp_baton.workflow.holding import LOOK_AFTER_S, TRY_AGAIN_MS, Hold

logger = logging.getLogger(__name__)

MESSAGE_S: Final = 1.0
"""A task's status message is written no more often than this, seconds."""


class Watch(Reply):
    """The reply of a request that nobody waits at: the function's client has gone once its task is over, or another
    worker's."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange, streams=False)
        self._hold: Hold | None = None
        self._jobs: JobStore | None = None
        self._clock: Callable[[], float] = time.monotonic
        self._ended = False
        self._stopped = False
        self._message: str | None = None
        self._next_s = -math.inf

    def begin(self, hold: Hold, jobs: JobStore, clock: Callable[[], float]) -> None:
        """Watch over a task.

        Args:
            hold: The worker's claim on it.
            jobs: Where its status message is written.
            clock: Seconds, from any moment on.
        """
        self._hold, self._jobs, self._clock = hold, jobs, clock

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
        if self._hold is None:
            return LOOK_AFTER_S
        message_s = self._write_message(self._hold)
        self._ended = self._ended or self._hold.look() is not None or not self._lives_on(self._hold)
        if self._ended:
            return 0
        pulse_s = self._hold.pulse()
        # The claim may have run out before the function begins. The next poll sends for another worker then.
        self._stopped = self._stopped or pulse_s == math.inf
        return min(pulse_s, LOOK_AFTER_S, message_s)

    def write_message(self) -> None:
        """Write the status message down that is not yet, whenever the one before was written."""
        self._next_s = -math.inf
        if self._hold is not None:
            self._write_message(self._hold)

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

    def _lives_on(self, hold: Hold) -> bool:
        """Let the task live on while it is worked on, however short its lifetime is; whether it does."""
        if self._jobs is None:
            return True
        try:
            hold.task = self._jobs.extend(hold.task, 2 * LEASE_MS)
        except (ClaimLost, TaskFinished, TaskNotFound):
            return False
        except StoreError:
            logger.warning("task %s: it could not be made to live longer", hold.task.task_id, exc_info=True)
        return True

    def _write_message(self, hold: Hold) -> float:
        """Write the status message if it is time to; the seconds until it will be."""
        message, jobs = self._message, self._jobs
        if message is None or jobs is None:
            return math.inf
        left_s = self._next_s - self._clock()
        if left_s > 0:
            return left_s
        written = hold.renew_by(lambda task, claim: jobs.report(task, claim, message))
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
