"""The time as a server under test sees it."""

import time
from threading import Lock


class Clock:
    """The time, which a test can advance: the store's (when tasks expire) and the function's (how much is left of it).

    Between two advances it goes as the machine's does. No two readings are the same, so that what is created later has
    a later time.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._advanced_s = 0.0
        self._read_ms = 0

    def advance(self, seconds: float) -> None:
        """Let this much time pass at once.

        Raises:
            ValueError: the time would go back.
        """
        if seconds < 0:
            raise ValueError(f"clock.advance({seconds}): time does not go back; give seconds of 0 or more")
        with self._lock:
            self._advanced_s += seconds

    def now_ms(self) -> int:
        """The time of day, epoch milliseconds."""
        with self._lock:
            now_ms = time.time_ns() // 1_000_000 + round(self._advanced_s * 1000)
            self._read_ms = max(self._read_ms + 1, now_ms)
            return self._read_ms

    def monotonic_s(self) -> float:
        """Seconds since some moment, advances included."""
        return time.monotonic() + self._advanced_s
