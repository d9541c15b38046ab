"""A clock for several threads that moves only while they all sleep."""

import heapq
from collections.abc import Callable
from itertools import count
from threading import Semaphore, Thread, current_thread

BEGIN_MS = 4_000_000_000_000


class Virtual:
    """Runs threads one at a time, in the order in which their sleeps end.

    The same threads with the same sleeps run in the same order each time.
    """

    def __init__(self) -> None:
        self.s = 0.0
        self._due: list[tuple[float, int, Semaphore]] = []
        self._order = count()
        self._yielded = Semaphore(0)
        self._own: dict[Thread, Semaphore] = {}

    def monotonic(self) -> float:
        return self.s

    def now_ms(self) -> int:
        """Return the wall clock, epoch milliseconds."""
        return BEGIN_MS + int(self.s * 1000)

    def sleep(self, seconds: float) -> None:
        """Let other threads run for this time. A thread that was not started by `begin` returns at once."""
        own = self._own.get(current_thread())
        if own is not None:
            self._wait(own, seconds)

    def begin(self, at_s: float, work: Callable[[], None]) -> None:
        """Start a thread whose work begins at this time."""
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
        while self._due:
            self.s, _, own = heapq.heappop(self._due)
            own.release()
            self._yielded.acquire()

    def _wait(self, own: Semaphore, seconds: float) -> None:
        heapq.heappush(self._due, (self.s + seconds, next(self._order), own))
        self._yielded.release()
        own.acquire()
