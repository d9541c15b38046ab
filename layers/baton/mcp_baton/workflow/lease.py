"""A run's hold on its task: a claim with a lease, which the thread that answers the request renews.

No helper thread does it: a function that was frozen and goes on must not revive a claim that has run out meanwhile
(docs/storage.md, Claims). Renewing and looking also tell a run that its task is over, or another's.
"""

import logging
import math
from collections.abc import Callable
from dataclasses import replace

from msgspec import Struct

from mcp_baton.exceptions import ClaimLost, StoreError, TaskFinished, TaskNotFound
from mcp_baton.tasks.record import LEASE_MS, RENEW_MS, Claim, TaskRecord, TaskStatus
from mcp_baton.tasks.store import TaskStore

logger = logging.getLogger(__name__)

LOOK_AFTER_S = 2.0
"""A run that has not heard of its task for so long looks at it before the next step or attempt, seconds."""

SURE_MS = 5_000
"""So long before the end of its claim a run begins nothing more, unless the claim has been renewed, milliseconds."""

TRY_AGAIN_MS = 2_000
"""How long a run waits after a renewal that failed, milliseconds."""


class TaskOver(Struct, frozen=True):
    """Why a run stopped: its task came to an end while it was under way, and not by its doing.

    Attributes:
        status: The task's terminal status; `None` for a task that is no longer there.
    """

    status: TaskStatus | None


class Superseded(Struct, frozen=True):
    """Why a run stopped: its claim ran out while it was late, and another run has taken the task over."""


type Over = TaskOver | Superseded
"""Why a run cannot write to its task any more."""

type Left = Callable[[], int | None]
"""Milliseconds until the function is stopped; `None` where nothing stops it."""


def lease_end(store: TaskStore, left_ms: Left) -> int:
    """When a claim that is taken now ends, epoch milliseconds: with the function at the latest."""
    left = left_ms()
    return store.now_ms() + (LEASE_MS if left is None else min(LEASE_MS, max(left, 0)))


class Began(Struct, frozen=True):
    """When a step began: epoch milliseconds, and seconds on the clock that its time is taken with."""

    at_ms: int
    at_s: float


class Lease:
    """A task that a run holds.

    Args:
        store: Where it is kept.
        task: The task, with the run's claim.
        left_ms: The function's time.
        clock: Seconds, from any moment on.
        unsure: Whether it is not known that the task was created.

    Attributes:
        task: The task as it was last read or written.
        unsure: As above, until something shows that it was.
        held: The claim as it was last confirmed.
        released: Whether a write has given it up, so that there is nothing left to renew.
    """

    def __init__(
        self, store: TaskStore, task: TaskRecord, left_ms: Left, clock: Callable[[], float], *, unsure: bool = False
    ) -> None:
        self.task = task
        self.unsure = unsure
        self.held = task.claim or Claim("", 0, 0)
        self.released = False
        self._store = store
        self._left_ms = left_ms
        self._clock = clock
        self._over: Over | None = None
        self._is_alone = False
        self._begins = True
        self._looked_at_ms: int | None = None
        self._heard_s = clock()
        self._renew_at_ms = store.now_ms() + RENEW_MS

    @property
    def over(self) -> Over | None:
        """What has become of the task, as far as the run has heard."""
        return self._over

    def claim(self) -> Claim:
        """The claim as a write renews it now."""
        return replace(self.held, until_ms=lease_end(self._store, self._left_ms))

    def begin(self) -> Began | Over | None:
        """A step is about to begin: when it does, or what has become of the task (`look`); `None` where somebody else
        could take the task within the next seconds."""
        now_ms = self._looked_ms()
        if self._over is not None:
            return self._over
        self._looked_at_ms, self._begins = now_ms, True
        return Began(now_ms, self._clock()) if self._is_sure_at(now_ms) else None

    def written(self, task: TaskRecord) -> None:
        """The run has written to the task, and its claim was renewed with that.

        Where the write's answer came late, the task is shown as others have left it since.
        """
        self.task, self.unsure = task, False
        if task.status.terminal:
            self._over = TaskOver(task.status)
        elif task.claim is not None and task.claim.id != self.held.id:
            self._over = Superseded()
        else:
            self._confirmed(task.claim or self.held)

    def look(self) -> Over | None:
        """What has become of the task, where that has not been known for a while: a renewal that is due tells it, or
        one light read. A store that does not answer holds no run up: its last write says what has become of the task.
        """
        self._looked_ms()
        return self._over

    def _looked_ms(self) -> int:
        """Look, where that is due; the time after it."""
        now_ms = self._store.now_ms()
        if self._over is not None:
            return now_ms
        if self._renewal_is_due(now_ms) or not self._is_sure_at(now_ms):
            self._renew()
        elif self._clock() - self._heard_s >= LOOK_AFTER_S:
            self._read_status()
        else:
            return now_ms
        return self._store.now_ms()

    def is_sure(self) -> bool:
        """Whether nobody else can take the task within the next seconds. Asked before a call is made again."""
        self._begins = True
        return self._is_sure_at(self._store.now_ms())

    def _is_sure_at(self, now_ms: int) -> bool:
        lasts_ms = self.held.until_ms - now_ms
        if self._is_alone or lasts_ms >= SURE_MS:
            return True
        left = self._left_ms()
        return left is not None and lasts_ms >= 0 and left - lasts_ms < SURE_MS  # it ends with the function

    def pulse(self) -> float:
        """Renew the claim if it is time to; the seconds until it will be. Called again and again by the thread that
        answers, while a tool runs or a pause lasts, and just before a tool begins: then infinity says that it must not,
        since the claim could not be renewed, or the answer came so late that somebody else could have taken the task.
        """
        begins, self._begins = self._begins, False
        if self._over is not None:
            return math.inf
        if self.released:
            return RENEW_MS / 1000
        if self._looked_at_ms is not None:
            # The step has just begun, and whether it is time to was looked at then.
            now_ms, self._looked_at_ms = self._looked_at_ms, None
        else:
            now_ms = self._store.now_ms()
        if self._renewal_is_due(now_ms):
            self._renew()
            if self.over is not None:
                return math.inf
            now_ms = self._store.now_ms()
        if begins and not self._is_sure_at(now_ms):
            return math.inf
        return max(self._renew_at_ms - now_ms, 1) / 1000

    def _renewal_is_due(self, now_ms: int) -> bool:
        if now_ms < self._renew_at_ms:
            return False
        # A claim that ends with the function cannot be had for longer.
        gains = self.claim().until_ms - self.held.until_ms >= SURE_MS
        if not gains:
            self._renew_at_ms = now_ms + RENEW_MS
        return gains

    def renew_by(self, write: Callable[[TaskRecord, Claim], TaskRecord]) -> bool:
        """Renew the claim by a write that does more than that.

        Args:
            write: Is given the task and the claim to renew it with.

        Returns:
            Whether it was written. Where it was not, the run goes on as after any renewal that failed.
        """
        # Put off first, so that a store that is down is not asked for each notification of a tool.
        self._renew_at_ms = self._store.now_ms() + TRY_AGAIN_MS
        try:
            renewed = write(self.task, self.claim())
        except ClaimLost as lost:
            self.task, self._over = lost.current, Superseded()
        except TaskFinished as finished:
            self.task, self._over = finished.current, TaskOver(finished.current.status)
        except TaskNotFound:
            self._gone()
        except StoreError:
            logger.warning("task %s: its claim could not be renewed", self.task.task_id, exc_info=True)
        else:
            self.written(renewed)
            return True
        return False

    def _renew(self) -> None:
        self.renew_by(self._store.renew)

    def _read_status(self) -> None:
        self._heard_s = self._clock()
        try:
            standing = self._store.read_status(self.task.owner, self.task.task_id)
        except TaskNotFound:
            self._gone()
            return
        except StoreError:
            logger.warning("task %s: its status cannot be read; the run goes on", self.task.task_id, exc_info=True)
            return
        self.unsure = False
        if standing.status.terminal:
            self.task, self._over = self._ended(standing.status), TaskOver(standing.status)
        elif standing.claim is not None and standing.claim.number > self.held.number:
            # What is read may be older than this run's own claim, which has then a higher number.
            self._over = Superseded()

    def _ended(self, status: TaskStatus) -> TaskRecord:
        """The task as somebody else has ended it, so that its steps and its status are told as of one moment."""
        try:
            return self._store.get(self.task.owner, self.task.task_id)
        except StoreError:
            logger.warning("task %s: it is over, and cannot be read", self.task.task_id, exc_info=True)
            return replace(self.task, status=status)

    def _gone(self) -> None:
        if self.unsure:
            # It was not created, so nobody else can run it.
            self._is_alone = True
        else:
            self._over = TaskOver(None)

    def _confirmed(self, claim: Claim) -> None:
        self.held, self._is_alone = claim, False
        self._heard_s = self._clock()
        self._renew_at_ms = self._store.now_ms() + RENEW_MS
