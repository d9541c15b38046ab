"""The wall clock, by which claims end, tasks expire and writes are named."""

import time


def system_ms() -> int:
    """The time now, epoch milliseconds."""
    return time.time_ns() // 1_000_000
