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
        self._sleepers: list[tuple[float, int, Semaphore]] = []
        self._order = count()
        self._yielded = Semaphore(0)
        self._semaphores: dict[Thread, Semaphore] = {}

    def monotonic(self) -> float:
        return self.s

    def now_ms(self) -> int:
        """Return the wall clock, epoch milliseconds."""
        return BEGIN_MS + int(self.s * 1000)

    def sleep(self, seconds: float) -> None:
        """Let other threads run for this time. A thread that was not started by `begin` returns at once."""
        semaphore = self._semaphores.get(current_thread())
        if semaphore is not None:
            self._wait(semaphore, seconds)

    def begin(self, at_s: float, work: Callable[[], None]) -> None:
        """Start a thread whose work begins at this time."""
        semaphore = Semaphore(0)

        def run() -> None:
            semaphore.acquire()
            try:
                work()
            finally:
                self._yielded.release()

        thread = Thread(target=run, daemon=True)
        self._semaphores[thread] = semaphore
        heapq.heappush(self._sleepers, (at_s, next(self._order), semaphore))
        thread.start()

    def run(self) -> None:
        while self._sleepers:
            self.s, _, semaphore = heapq.heappop(self._sleepers)
            semaphore.release()
            self._yielded.acquire()

    def _wait(self, semaphore: Semaphore, seconds: float) -> None:
        heapq.heappush(self._sleepers, (self.s + seconds, next(self._order), semaphore))
        self._yielded.release()
        semaphore.acquire()
