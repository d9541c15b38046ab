"""Writing against a task that others write to at the same time: decide, try, and decide again on what won."""

import time
from collections.abc import Callable
from dataclasses import replace

from mcp_baton.exceptions import Conflict
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.tasks.store import Batch, TaskStore, Written

FIRST_BACKOFF_S = 0.005
LONGEST_BACKOFF_S = 0.1


def random_fraction() -> float:
    from random import random

    return random()


def write_decided(
    store: TaskStore,
    task: TaskRecord,
    decide: Callable[[TaskRecord], Batch],
    *,
    attempts: int,
    sleep: Callable[[float], None] = time.sleep,
    rng: Callable[[], float] | None = None,
) -> Written:
    """Write what `decide` makes of the task; after a lost race, what it makes of the state that won.

    A lost race means that somebody else got on, and statuses only move forward, so as many attempts as others can
    change the task are enough. Waits with full jitter between them, at most `LONGEST_BACKOFF_S`. All attempts have the
    token of the first: one that was given up, and arrives late, is not applied beside a later one.

    Args:
        store: Where to write.
        task: The task as last read.
        decide: Pure: from the task as it stands to what should be written.
        attempts: How often to try, at least once.
        sleep: Takes seconds.
        rng: Gives a number from 0 up to 1, for the waits; random by default.

    Raises:
        Conflict: every attempt lost its race; nothing was written.
        StoreError: as `TaskStore.write`.
    """
    longest, token = FIRST_BACKOFF_S, None
    for attempt in range(1, attempts + 1):
        batch = decide(task)
        try:
            return store.write(task, batch if token is None else replace(batch, token=token))
        except Conflict as conflict:
            if attempt == attempts:
                raise
            task, token = conflict.current, conflict.token
        sleep((rng or random_fraction)() * longest)
        longest = min(longest * 2, LONGEST_BACKOFF_S)
    raise ValueError("attempts must be at least 1")
