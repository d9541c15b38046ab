"""The queue of asynchronous invocations, as Lambda keeps one for each function.

A failed invocation is made again twice, after one minute and after two more, unless its event has become too old
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
    """How failed invocations are made again.

    Attributes:
        after_s: Seconds between an attempt that failed and the next one; as many retries as there are numbers.
        max_age_s: Seconds that an event is kept at most; the template's `MaximumEventAgeInSeconds`.
    """

    after_s: tuple[float, ...] = (60.0, 120.0)
    max_age_s: float = 3600.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """One attempt at an event.

    Attributes:
        event: What the function is invoked with.
        request_id: The invocation's id, the same for each attempt.
        accepted_s: When the event came, by the queue's clock.
        attempt: 1 for the first.
    """

    event: JsonObject
    request_id: str
    accepted_s: float
    attempt: int = 1


def next_attempt_s(delivery: Delivery, retries: Retries, now_s: float) -> float | None:
    """When a failed delivery is tried again, by the queue's clock; `None` where it is not."""
    if delivery.attempt > len(retries.after_s):
        return None
    due_s = now_s + retries.after_s[delivery.attempt - 1]
    return due_s if due_s <= delivery.accepted_s + retries.max_age_s else None


class EventQueue:
    """Events that wait for a worker. Safe to use from several threads.

    Args:
        retries: How failed invocations are made again.
        clock: Seconds, from any moment on.
    """

    def __init__(self, retries: Retries, clock: Callable[[], float] = time.monotonic) -> None:
        self._retries = retries
        self._clock = clock
        self._changed = Condition()
        self._numbers = itertools.count()
        self._waiting: list[tuple[float, int, Delivery]] = []
        self._closed = False

    def put(self, event: JsonObject) -> None:
        """Take an event.

        Raises:
            NotDispatched: the queue is closed.
        """
        now_s = self._clock()
        if not self._add(now_s, Delivery(event, str(uuid.uuid4()), now_s)):
            raise NotDispatched("the local server is stopping: it takes no more events")

    def take(self) -> Delivery | None:
        """The next delivery that is due, as soon as one is; `None` once the queue is closed."""
        with self._changed:
            while not self._closed:
                wait_s = self._waiting[0][0] - self._clock() if self._waiting else None
                if wait_s is not None and wait_s <= 0:
                    delivery = heapq.heappop(self._waiting)[2]
                    if self._clock() - delivery.accepted_s <= self._retries.max_age_s:
                        return delivery
                    _give_up(delivery, f"it is older than {self._retries.max_age_s:g} s")
                    continue
                self._changed.wait(wait_s)
        return None

    def failed(self, delivery: Delivery, why: str) -> None:
        """Try a delivery again later, or give its event up: it is logged as an error, whole."""
        due_s = next_attempt_s(delivery, self._retries, self._clock())
        if due_s is None:
            _give_up(delivery, why)
            return
        wait_s = due_s - self._clock()
        if self._add(due_s, replace(delivery, attempt=delivery.attempt + 1)):
            logger.warning("attempt %d at an event failed (%s): tried again in %.3g s", delivery.attempt, why, wait_s)

    def close(self) -> int:
        """Take and give out nothing any more; how many events were waiting."""
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


def _give_up(delivery: Delivery, why: str) -> None:
    """What a dead-letter queue would get. The task stands: a poll dispatches it again (docs/background.md)."""
    logger.error("an event was given up after %d attempts (%s): %s", delivery.attempt, why, dumps(delivery.event))
