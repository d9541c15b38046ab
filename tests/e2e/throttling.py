"""A partition with so many write units a second, and time that passes only while somebody waits."""

import heapq
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from threading import Semaphore, Thread, current_thread
from typing import TYPE_CHECKING, Any

from mcp_baton.testing.store import refusal

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

LATENCY_S = 0.005
SAVED_S = 0.25
WRITES = {"PutItem", "UpdateItem", "DeleteItem"}
BEGIN_MS = 4_000_000_000_000


class Virtual:
    """Time for many threads, of which one runs at a time: whoever has waited out its pause, in the order of the times.

    The same threads with the same pauses run in the same order each time.
    """

    def __init__(self) -> None:
        self.s = 0.0
        self._due: list[tuple[float, int, Semaphore]] = []
        self._order = count()
        self._yielded = Semaphore(0)
        self._own: dict[Thread, Semaphore] = {}

    def monotonic(self) -> float:
        """Seconds."""
        return self.s

    def now_ms(self) -> int:
        """The wall clock, epoch milliseconds."""
        return BEGIN_MS + int(self.s * 1000)

    def sleep(self, seconds: float) -> None:
        """Let others run for so long. Outside the threads that take part, nothing passes."""
        own = self._own.get(current_thread())
        if own is not None:
            self._wait(own, seconds)

    def begin(self, at_s: float, work: Callable[[], None]) -> None:
        """Have a thread begin its work at this time."""
        own = Semaphore(0)

        def run() -> None:
            own.acquire()
            try:
                work()
            finally:
                self._yielded.release()

        thread = Thread(target=run, daemon=True)
        self._own[thread] = own
        heapq.heappush(self._due, (at_s, next(self._order), own))
        thread.start()

    def run(self) -> None:
        """Run until every thread has ended."""
        while self._due:
            self.s, _, own = heapq.heappop(self._due)
            own.release()
            self._yielded.acquire()

    def _wait(self, own: Semaphore, seconds: float) -> None:
        heapq.heappush(self._due, (self.s + seconds, next(self._order), own))
        self._yielded.release()
        own.acquire()


@dataclass(slots=True)
class Partition:
    """A token bucket in front of an engine: writes beyond its units a second are refused, as DynamoDB refuses them.

    Attributes:
        units_s: Write units a second; a quarter of a second's can be saved up. Every write
            takes one: items here are small.
        time: The time.
        refused: How many requests were refused.
    """

    units_s: float
    time: Virtual
    refused: int = 0
    _left: float = field(init=False)
    _filled_s: float = 0.0

    def __post_init__(self) -> None:
        self._left = self.units_s * SAVED_S

    def before(self, event_name: str, **_: object) -> object:
        """A handler of botocore's `before-call`: a request takes a moment, and a write takes its unit or is refused."""
        self.time.sleep(LATENCY_S)
        if event_name.rpartition(".")[2] not in WRITES:
            return None
        self._left = min(self.units_s * SAVED_S, self._left + (self.time.s - self._filled_s) * self.units_s)
        self._filled_s = self.time.s
        if self._left < 1:
            self.refused += 1
            return refusal("ProvisionedThroughputExceededException")
        self._left -= 1
        return None

    @contextmanager
    def of(self, client: "DynamoDBClient") -> Iterator[None]:
        """All requests of a client go through it."""
        handler: Any = self.before
        client.meta.events.register_first("before-call.dynamodb", handler)
        try:
            yield
        finally:
            client.meta.events.unregister("before-call.dynamodb", handler)
