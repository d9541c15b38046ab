"""The queue of asynchronous invocations, as Lambda has one for each function.

A failed invocation is retried twice, after one minute and after two more, unless its event has become too old
(https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html).
"""

import heapq
import itertools
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Condition

from mcp_baton.exceptions import NotDispatched
from mcp_baton.protocol.json import JsonObject, dumps

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Retries:
    """When failed invocations are retried.

    Attributes:
        after_s: The seconds between a failed attempt and each retry.
        max_age_s: The maximum age of an event, seconds; the template's `MaximumEventAgeInSeconds`.
    """

    after_s: tuple[float, ...] = (60.0, 120.0)
    max_age_s: float = 3600.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """One attempt at an event.

    Attributes:
        event: The event of the function.
        request_id: The invocation's id, the same for each attempt.
        accepted_s: When the queue accepted the event, by its clock.
        attempt: 1 for the first.
    """

    event: JsonObject
    request_id: str
    accepted_s: float
    attempt: int = 1


def next_attempt_s(delivery: Delivery, retries: Retries, now_s: float) -> float | None:
    """Return the time of the retry, by the queue's clock; `None` if there is none."""
    if delivery.attempt > len(retries.after_s):
        return None
    due_s = now_s + retries.after_s[delivery.attempt - 1]
    return due_s if due_s <= delivery.accepted_s + retries.max_age_s else None


class EventQueue:
    """Events that wait for a worker. Thread-safe.

    Args:
        retries: When failed invocations are retried.
        clock: Returns monotonic seconds.
    """

    def __init__(self, retries: Retries, clock: Callable[[], float] = time.monotonic) -> None:
        self._retries = retries
        self._clock = clock
        self._changed = Condition()
        self._numbers = itertools.count()
        self._waiting: list[tuple[float, int, Delivery]] = []
        self._closed = False

    def put(self, event: JsonObject) -> None:
        """Add an event.

        Raises:
            NotDispatched: the queue is closed.
        """
        now_s = self._clock()
        if not self._add(now_s, Delivery(event, str(uuid.uuid4()), now_s)):
            raise NotDispatched("the local server is stopping: it accepts no more events")

    def take(self) -> Delivery | None:
        """Wait for the next delivery that is due. Return `None` once the queue is closed."""
        with self._changed:
            while not self._closed:
                wait_s = self._waiting[0][0] - self._clock() if self._waiting else None
                if wait_s is not None and wait_s <= 0:
                    delivery = heapq.heappop(self._waiting)[2]
                    if self._clock() - delivery.accepted_s <= self._retries.max_age_s:
                        return delivery
                    _discard(delivery, f"it is older than {self._retries.max_age_s:g} s")
                    continue
                self._changed.wait(wait_s)
        return None

    def failed(self, delivery: Delivery, why: str) -> None:
        """Retry a delivery later, or discard its event and log it as an error."""
        due_s = next_attempt_s(delivery, self._retries, self._clock())
        if due_s is None:
            _discard(delivery, why)
            return
        wait_s = due_s - self._clock()
        if self._add(due_s, replace(delivery, attempt=delivery.attempt + 1)):
            logger.warning("attempt %d of an event failed (%s): retry in %.3g s", delivery.attempt, why, wait_s)

    def close(self) -> int:
        """Close the queue. Return the number of waiting events."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            return len(self._waiting)

    def _add(self, due_s: float, delivery: Delivery) -> bool:
        with self._changed:
            if not self._closed:
                heapq.heappush(self._waiting, (due_s, next(self._numbers), delivery))
                self._changed.notify_all()
            return not self._closed


def _discard(delivery: Delivery, why: str) -> None:
    """Log what a dead-letter queue would get. The task stays: a poll dispatches it again (docs/background.md)."""
    logger.error("an event was discarded after %d attempts (%s): %s", delivery.attempt, why, dumps(delivery.event))
