"""A run's lease: the claim on its task, which the thread that answers the request renews.

No other thread renews it: after Lambda has frozen and thawed a function, it must not renew a claim that has expired
meanwhile (docs/storage.md, Claims). A renewal or a status read also shows that the task is over or has another run.
"""

import logging
import math
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mcp_baton.exceptions import ClaimLost, StoreError, TaskFinished, TaskNotFound
from mcp_baton.tasks.record import LEASE_MS, RENEW_MS, Claim, TaskRecord, TaskStatus
from mcp_baton.tasks.store import TaskStore

logger = logging.getLogger(__name__)

CHECK_AFTER_S = 2.0
"""If a run has not read its task for this long, it checks it before the next step or attempt, seconds."""

LEASE_SAFETY_MS = 5_000
"""A run starts nothing in this time before its claim ends, unless the claim is renewed, milliseconds."""

RENEWAL_RETRY_MS = 2_000
"""How long a run waits after a renewal that failed, milliseconds."""


class TaskOver(Struct, frozen=True):
    """Why a run stopped: another request ended its task.

    Attributes:
        status: The task's terminal status; `None` if the task has expired or was deleted.
    """

    status: TaskStatus | None


class Superseded(Struct, frozen=True):
    """Why a run stopped: its claim expired, and another run has taken over the task."""


type Over = TaskOver | Superseded
"""Why a run cannot write to its task any more."""

type TimeLeft = Callable[[], int | None]
"""Milliseconds until the function is stopped; `None` if it has no time limit."""


def lease_end(store: TaskStore, left_ms: TimeLeft) -> int:
    """When a claim that is taken now ends, epoch milliseconds. It ends with the function at the latest."""
    remaining_ms = left_ms()
    return store.now_ms() + (LEASE_MS if remaining_ms is None else min(LEASE_MS, max(remaining_ms, 0)))


def lasts(until_ms: int, now_ms: int, left_ms: TimeLeft) -> bool:
    """Whether a claim that ends then lasts for the next seconds, or until the function is stopped."""
    lasts_ms = until_ms - now_ms
    if lasts_ms >= LEASE_SAFETY_MS:
        return True
    remaining_ms = left_ms()
    # The claim may end together with the function.
    return remaining_ms is not None and lasts_ms >= 0 and remaining_ms - lasts_ms < LEASE_SAFETY_MS


def release_claim(store: TaskStore, task: TaskRecord) -> None:
    """Release a claim, so that the next run need not wait until it expires."""
    if task.claim is None:
        return
    try:
        store.renew(task, replace(task.claim, until_ms=0))
    except StoreError:
        logger.warning("task %s: its claim could not be released; it will expire", task.task_id, exc_info=True)


class Lease:
    """The claim of a run on its task.

    Args:
        store: The task store.
        task: The task, with the run's claim.
        left_ms: The function's remaining time.
        clock: Seconds since any fixed moment.
        unsure: Whether it is not known that the task was created.

    Attributes:
        task: The task as it was last read or written.
        unsure: As above, until a read or a write shows that the task exists.
        current_claim: The claim as it was last confirmed.
        released: Whether a write has released the claim.
    """

    def __init__(
        self, store: TaskStore, task: TaskRecord, left_ms: TimeLeft, clock: Callable[[], float], *, unsure: bool = False
    ) -> None:
        self.task = task
        self.unsure = unsure
        self.current_claim = task.claim or Claim("", 0, 0)
        self.released = False
        self._store = store
        self._left_ms = left_ms
        self._clock = clock
        self._over: Over | None = None
        self._is_uncontested = False
        self._call_begins = True
        self._read_s = clock()
        self._renew_at_ms = store.now_ms() + RENEW_MS

    @property
    def over(self) -> Over | None:
        """Why the run cannot write to its task any more, as far as is known."""
        return self._over

    def claim(self) -> Claim:
        """The claim with the end that a renewal gives it now."""
        return replace(self.current_claim, until_ms=lease_end(self._store, self._left_ms))

    def begin(self) -> int | Over | None:
        """Prepare the start of a step.

        Returns:
            When the step begins, epoch milliseconds; or why the run must stop; `None` if another run could take the
            task soon.
        """
        now_ms = self._checked_ms()
        if self._over is not None:
            return self._over
        self._call_begins = True
        return now_ms if self._is_safe_at(now_ms) else None

    def note_written(self, task: TaskRecord) -> None:
        """Note that the run has written to the task and has renewed its claim with that.

        If the response came late, the task may show writes that others made since.
        """
        self.task, self.unsure = task, False
        if task.status.terminal:
            self._over = TaskOver(task.status)
        elif task.claim is not None and task.claim.id != self.current_claim.id:
            self._over = Superseded()
        else:
            self.current_claim, self._is_uncontested = task.claim or self.current_claim, False
            self._read_s = self._clock()
            self._renew_at_ms = self._store.now_ms() + RENEW_MS

    def check(self) -> Over | None:
        """Check the task if it was not read for a while: by a renewal that is due, or by reading its status.

        If the store does not answer, the run continues; its last write shows whether the task is over.

        Returns:
            Why the run cannot write to its task any more; `None` if it can.
        """
        self._checked_ms()
        return self._over

    def _checked_ms(self) -> int:
        """Check the task if that is due; return the time after it."""
        now_ms = self._store.now_ms()
        if self._over is not None:
            return now_ms
        if self._renewal_is_due(now_ms) or not self._is_safe_at(now_ms):
            self._renew()
        elif self._clock() - self._read_s >= CHECK_AFTER_S:
            self._read_status()
        else:
            return now_ms
        return self._store.now_ms()

    def is_safe(self) -> bool:
        """As `lasts`, before a call is made again: the next `pulse` checks once more that the claim lasts."""
        self._call_begins = True
        return self.lasts()

    def lasts(self) -> bool:
        """Whether no other run can take the task in the next seconds."""
        return self._is_safe_at(self._store.now_ms())

    def _is_safe_at(self, now_ms: int) -> bool:
        return self._is_uncontested or lasts(self.current_claim.until_ms, now_ms, self._left_ms)

    def pulse(self) -> float:
        """Renew the claim if that is due.

        The thread that answers the request calls this just before a tool starts, and repeatedly while a tool runs or a
        wait lasts.

        Returns:
            The seconds until the next renewal. Infinity if a tool must not start: the claim could not be renewed, or
            the response came so late that another run could have taken the task.
        """
        call_begins, self._call_begins = self._call_begins, False
        if self._over is not None:
            return math.inf
        if self.released:
            return RENEW_MS / 1000
        now_ms = self._store.now_ms()
        if self._renewal_is_due(now_ms):
            self._renew()
            if self.over is not None:
                return math.inf
            now_ms = self._store.now_ms()
        if call_begins and not self._is_safe_at(now_ms):
            return math.inf
        return max(self._renew_at_ms - now_ms, 1) / 1000

    def _renewal_is_due(self, now_ms: int) -> bool:
        if now_ms < self._renew_at_ms:
            return False
        # A renewal cannot extend a claim beyond the function's end.
        extends_claim = self.claim().until_ms - self.current_claim.until_ms >= LEASE_SAFETY_MS
        if not extends_claim:
            self._renew_at_ms = now_ms + RENEW_MS
        return extends_claim

    def renew_by(self, write: Callable[[TaskRecord, Claim], TaskRecord]) -> bool:
        """Renew the claim by a write that does more than that.

        Returns:
            Whether the write was made. If not, the run continues as after any failed renewal.
        """
        # Set the next attempt first: a tool's notifications must not each try to renew while the store is down.
        self._renew_at_ms = self._store.now_ms() + RENEWAL_RETRY_MS
        try:
            renewed = write(self.task, self.claim())
        except ClaimLost as lost:
            self.task, self._over = lost.current, Superseded()
        except TaskFinished as finished:
            self.task, self._over = finished.current, TaskOver(finished.current.status)
        except TaskNotFound:
            self._note_missing()
        except StoreError:
            logger.warning("task %s: its claim could not be renewed", self.task.task_id, exc_info=True)
        else:
            self.note_written(renewed)
            return True
        return False

    def _renew(self) -> None:
        self.renew_by(self._store.renew)

    def _read_status(self) -> None:
        self._read_s = self._clock()
        try:
            standing = self._store.read_status(self.task.owner, self.task.task_id)
        except TaskNotFound:
            self._note_missing()
            return
        except StoreError:
            logger.warning("task %s: its status cannot be read; the run goes on", self.task.task_id, exc_info=True)
            return
        self.unsure = False
        if standing.status.terminal:
            self.task, self._over = self._read_ended(standing.status), TaskOver(standing.status)
        elif standing.claim is not None and standing.claim.number > self.current_claim.number:
            # A read may be older than this run's own claim. Then the claim that was read has the lower number.
            self._over = Superseded()

    def _read_ended(self, status: TaskStatus) -> TaskRecord:
        """The task as another request has ended it: its steps and its status, read at one moment."""
        try:
            return self._store.get(self.task.owner, self.task.task_id)
        except StoreError:
            logger.warning("task %s: it is over, and cannot be read", self.task.task_id, exc_info=True)
            return replace(self.task, status=status)

    def _note_missing(self) -> None:
        if self.unsure:
            # The task was not created, so no other run can take it.
            self._is_uncontested = True
        else:
            self._over = TaskOver(None)


class ThreadLease:
    """A run's lease, as a call in another thread uses it. The request's thread renews it, and reads the status.

    Args:
        ask: Calls a function in the request's thread, and returns its value.
    """

    def __init__(self, lease: Lease, ask: Callable[[Callable[[], Any]], Any]) -> None:
        self._lease = lease
        self._ask = ask

    @property
    def over(self) -> Over | None:
        return self._lease.over

    def begin(self) -> int | Over | None:
        begun_ms: int | Over | None = self._ask(self._lease.begin)
        return begun_ms

    def check(self) -> Over | None:
        over: Over | None = self._ask(self._lease.check)
        return over

    def is_safe(self) -> bool:
        return self._lease.lasts()

    def pulse(self) -> float:
        """As `Lease.pulse`, without a renewal."""
        return RENEW_MS / 1000 if self.over is None and self.is_safe() else math.inf
