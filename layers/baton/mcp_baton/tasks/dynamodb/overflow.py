"""Where the values outside the heads are: items of their own in the same table, and S3 where there is a bucket
(docs/storage.md, Values outside the head).

An object in S3 is named by its content, and written before the head that points at it. A write that then loses its race
leaves an object that nothing points at. Nothing is ever deleted here: a key begins with the days after which a
lifecycle rule of the bucket may do so.
"""

from collections import OrderedDict
from collections.abc import Iterator
from threading import Lock
from typing import Protocol

from msgspec import Struct

from mcp_baton.tasks.dynamodb.attributes import Attribute, Item

REMEMBERED = 256
REMEMBERED_S = 10.0

RETENTION_DAYS = (2, 8, 31, 366)
"""The lifetimes that an object can have; `template.yaml` has a lifecycle rule for each."""

DAY_MS = 86_400_000
LONGEST_TTL_MS = (RETENTION_DAYS[-1] - 1) * DAY_MS
"""The longest lifetime of a task whose objects are sure to outlive it, milliseconds."""


MARGIN_S = 43_200
"""Every value is kept at least this much longer than its task, whoever prolongs the task meanwhile, seconds."""


class ObjectMissing(Exception):
    """There is no object of this key, or it may not be read: without the right to list, S3 does not tell them apart."""


class ObjectTooLarge(Exception):
    """The object is larger than what was written under its key. Nothing of it was read."""


class ObjectStore(Protocol):
    """Where the objects are."""

    def put(self, key: str, data: bytes, digest: bytes) -> None:
        """Write an object, durably.

        Args:
            key: Its key, which no object of another content has.
            data: Its content.
            digest: The content's SHA-256.

        Raises:
            StoreUnavailable: it could not be written.
        """

    def get(self, key: str, most: int) -> Iterator[bytes]:
        """Read an object, in pieces as they come.

        Args:
            key: Its key.
            most: The bytes that it has at most.

        Raises:
            ObjectMissing: there is none.
            ObjectTooLarge: it has more bytes.
            StoreUnavailable: it could not be read.
        """


class ValueTable(Protocol):
    """The table, for values in items of their own."""

    def put_value(self, item: Item) -> None:
        """Write one item, unless the same one exists and expires no earlier: one `PutItem`.

        Raises:
            StoreUnavailable: it could not be written.
        """

    def get(self, key: Item, *, consistent: bool = True) -> Item | None:
        """Read one item.

        Raises:
            StoreUnavailable: it could not be read.
        """


class RecentWrites:
    """Remembers the values that were just written, so that a write that lost its race does not write them again."""

    def __init__(self) -> None:
        self._pointers = OrderedDict[tuple[str, str, bytes], tuple[float, Attribute]]()
        self._lock = Lock()

    def pointer(self, owner: str, task_id: str, digest: bytes, now_s: float) -> Attribute | None:
        """The pointer to the value with this digest, if it was just written. `now_s` is monotonic."""
        with self._lock:
            at_s, pointer = self._pointers.get((owner, task_id, digest), (0.0, None))
        return pointer if now_s - at_s < REMEMBERED_S else None

    def note(self, owner: str, task_id: str, digest: bytes, pointer: Attribute, now_s: float) -> None:
        """Remember the pointer to a value."""
        with self._lock:
            self._pointers[owner, task_id, digest] = (now_s, pointer)
            while len(self._pointers) > REMEMBERED:
                self._pointers.popitem(last=False)

    def forget(self, owner: str, task_id: str) -> None:
        """Forget the values of a task, one of which was lost: it must be written again if it is needed."""
        with self._lock:
            for key in [key for key in self._pointers if key[:2] == (owner, task_id)]:
                del self._pointers[key]


class OverflowStore(Struct, frozen=True):
    """The places for values outside the items, and what was just written there; `bucket` is `None` without one."""

    table: ValueTable
    bucket: ObjectStore | None
    recent: RecentWrites


def retention_days(ttl_ms: int) -> int:
    """The days that an object is kept of a task that lives for so long from now on: at least one day more, for clocks
    that differ, and for a task that is prolonged while the object is written."""
    return next((days for days in RETENTION_DAYS if ttl_ms <= (days - 1) * DAY_MS), RETENTION_DAYS[-1])
