"""Time that passes only while a thread waits."""

import heapq
from collections.abc import Callable
from itertools import count
from threading import Semaphore, Thread, current_thread

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
        while self._due:
            self.s, _, own = heapq.heappop(self._due)
            own.release()
            self._yielded.acquire()

    def _wait(self, own: Semaphore, seconds: float) -> None:
        heapq.heappush(self._due, (self.s + seconds, next(self._order), own))
        self._yielded.release()
        own.acquire()
