"""Where the values outside the heads are: items of their own in the same table, and S3 where there is a bucket."""

import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Protocol

from mcp_baton.light_dataclasses import dataclass, field
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item
from mcp_baton.tasks.dynamodb.overflow import ObjectStore


class ValueTable(Protocol):
    """The table, as far as values need it."""

    def put_value(self, item: Item) -> None:
        """Write one item, whatever was there: one unconditional `PutItem`.

        Raises:
            StoreUnavailable: it could not be written.
        """

    def get_value(self, key: Item, *, consistent: bool) -> Item | None:
        """Read one item.

        Raises:
            StoreUnavailable: it could not be read.
        """


REMEMBERED = 256
REMEMBERED_S = 10.0


class RecentWrites:
    """What was written outside a moment ago, so that a write that lost its race does not write it again.

    Args:
        monotonic: Seconds, from any moment on.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._pointers = OrderedDict[tuple[str, str, bytes], tuple[float, Attribute]]()
        self._lock = Lock()

    def pointer(self, owner: str, task_id: str, digest: bytes) -> Attribute | None:
        """Where a value of this digest is, if it was just written."""
        with self._lock:
            at, pointer = self._pointers.get((owner, task_id, digest), (0.0, None))
        return pointer if self._monotonic() - at < REMEMBERED_S else None

    def note(self, owner: str, task_id: str, digest: bytes, pointer: Attribute) -> None:
        """Remember where a value of this digest is."""
        with self._lock:
            self._pointers[owner, task_id, digest] = (self._monotonic(), pointer)
            while len(self._pointers) > REMEMBERED:
                self._pointers.popitem(last=False)

    def forget(self, owner: str, task_id: str) -> None:
        """Forget a task's values, of which one was lost: whoever makes it again must write it again."""
        with self._lock:
            for key in [key for key in self._pointers if key[:2] == (owner, task_id)]:
                del self._pointers[key]


@dataclass(frozen=True, slots=True)
class Outside:
    """Both places, and what was just written there; `bucket` is `None` where there is none."""

    table: ValueTable
    bucket: ObjectStore | None = None
    written: RecentWrites = field(default_factory=RecentWrites)
