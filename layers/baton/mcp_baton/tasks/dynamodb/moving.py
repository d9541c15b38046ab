"""What the writes of one store share on their way out of the head: where values go, and how long that may take."""

from collections.abc import Callable
from typing import Self

from mcp_baton.tasks.dynamodb.items import HEAD_MS, Limits
from mcp_baton.tasks.dynamodb.offload import Mover, Target
from mcp_baton.tasks.dynamodb.outside import Outside
from mcp_baton.tasks.dynamodb.overflow import DAY_MS
from mcp_baton.tasks.texts import ZipWithin


class Moving:
    """Begins the moves of each write.

    Args:
        outside: Where values go.
        limits: How long a write may take for them, and how long tasks live at most.
        now_ms: The clock, epoch milliseconds.
        monotonic: Seconds, from any moment on.
    """

    def __init__(
        self, outside: Outside, limits: Limits, now_ms: Callable[[], int], monotonic: Callable[[], float]
    ) -> None:
        self._outside = outside
        self._limits = limits
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._left_ms: Callable[[], int | None] | None = None

    def within(self, outside: Outside, left_ms: Callable[[], int | None]) -> Self:
        """The same for one request, of a function that is stopped in so many milliseconds."""
        made: Self = object.__new__(type(self))
        vars(made).update(vars(self), _outside=outside, _left_ms=left_ms)
        return made

    def begin(self, owner: str, task_id: str, ttl_ms: int) -> Mover:
        """What moves the values of a write that begins now.

        Its items are kept for the longest lifetime of a task from now on, and a day: however late in a task's life a
        value is written, and whatever the clocks say, it outlives the head that names it.
        """
        kept_ms = max(ttl_ms, self._limits.max_ttl_ms) + DAY_MS
        target = Target(owner, task_id, -(-(self._now_ms() + kept_ms) // 1000), ttl_ms)
        until_s = self._monotonic() + self._allowed_ms() / 1000
        return Mover(self._outside, target, until_s, self._monotonic)

    def _allowed_ms(self) -> int:
        left_ms = self._left_ms() if self._left_ms else None
        return self._limits.values_ms if left_ms is None else min(self._limits.values_ms, left_ms - HEAD_MS)

    def zips(self) -> ZipWithin:
        """What compresses the values of a write that begins now."""
        return ZipWithin(self._limits.zip_ms / 1000, self._monotonic)
