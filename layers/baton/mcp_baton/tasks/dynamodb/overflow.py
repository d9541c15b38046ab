"""S3 for values outside their task's head, and how long it keeps them (docs/storage.md, Values outside the head).

An object is named by its content, and written before the head that points at it. A write that then loses its race
leaves an object that nothing points at. Nothing is ever deleted here: a key begins with the days after which a
lifecycle rule of the bucket may do so.
"""

from collections.abc import Iterator
from typing import Protocol

RETENTION_DAYS = (2, 8, 31, 366)
"""The lifetimes that an object can have; `template.yaml` has a lifecycle rule for each."""

DAY_MS = 86_400_000
LONGEST_TTL_MS = (RETENTION_DAYS[-1] - 1) * DAY_MS
"""The longest lifetime of a task whose objects are sure to outlive it, milliseconds."""


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


def retention_days(ttl_ms: int) -> int:
    """The days that an object of a task is kept, at least one more than the task's whole life.

    An object is needed until its task expires, and is not older than the task: whenever it is written, the whole
    lifetime is enough. The day more is for clocks that differ.
    """
    return next((days for days in RETENTION_DAYS if ttl_ms <= (days - 1) * DAY_MS), RETENTION_DAYS[-1])
