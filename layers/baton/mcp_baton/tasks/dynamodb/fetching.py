"""Reads the values of a task, in its item and outside (docs/storage.md, Values outside the head)."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from mcp_baton.exceptions import StoreError, StoreUnavailable, ValueLost
from mcp_baton.protocol.json import Json, dumps
from mcp_baton.tasks.dynamodb.attributes import Attribute, check_kept, decode, from_native, text_bytes
from mcp_baton.tasks.dynamodb.overflow import (
    BUNDLE_BYTES,
    ObjectMissing,
    ObjectTooLarge,
    OverflowStore,
    Pointer,
    ValueTable,
    digest_of,
    name_of,
    object_key,
    piece_key,
    pointer_in,
)
from mcp_baton.tasks.dynamodb.parallel import THREADS, together
from mcp_baton.tasks.texts import check_readable, decoded, is_zipped, unzipped_pieces, unzipped_stream, zipped
from mcp_baton.tasks.values import Weight

logger = logging.getLogger(__name__)

WHOLE_BYTES = 1_000_000
"""The largest bundle that is read as a whole. Of a longer one, only some pieces are in memory at a time."""

DAMAGED = "what is stored is damaged"
KEPT_BYTES = 8_000_000
"""How much fetched data is kept for the rest of a request. The rest is fetched again if it is needed."""


def weight(attribute: Attribute) -> Weight:
    """The size and place of the value in an attribute. Nothing is fetched or decompressed."""
    pointer = _pointer(attribute)
    if pointer is None:
        return Weight(text_bytes(attribute), outside=False)
    return Weight(pointer.text_bytes, outside=True)


def holds(attribute: Attribute, text: bytes) -> bool | None:
    """Whether the value that an attribute points to has this JSON text, by length and digest.

    `None` if only reading the value can tell.
    """
    pointer = _pointer(attribute)
    if pointer is None:
        return None
    if len(text) != pointer.text_bytes:
        return False
    if pointer.stored_bytes != pointer.bundle_bytes:
        return None
    if pointer.stored_bytes == pointer.text_bytes:
        return name_of(digest_of(text)) == pointer.bundle
    # Another version of zlib may have compressed the same text differently.
    return True if name_of(digest_of(zipped(text))) == pointer.bundle else None


class Fetcher:
    """Reads the values of one task. A bundle is fetched when one of its values is first read.

    Args:
        outside: The places for values outside the item; `None` if nothing is fetched.
        owner: The task's owner.
        task_id: The task.
        monotonic: A monotonic clock, seconds.
    """

    def __init__(
        self,
        outside: OverflowStore | None,
        owner: str,
        task_id: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._outside = outside
        self._owner = owner
        self._task_id = task_id
        self._monotonic = monotonic
        self._kept: dict[str, bytes] = {}
        self._failures: dict[bool, StoreUnavailable] = {}

    def value(self, attribute: Attribute) -> Json:
        """The value in an attribute, or the value that it points to.

        Raises:
            ValueLost: it is missing, or is not what was written.
            ValueTooLarge: it is longer than is read. Nothing was fetched or decompressed.
            StoreUnavailable: S3 or DynamoDB does not respond, or refuses.
            StoreError: the attribute is damaged.
        """
        pointer = _pointer(attribute)
        if pointer is None:
            return decode(attribute)
        return decode(self.stored(pointer))

    def text(self, attribute: Attribute) -> Iterator[str]:
        """The JSON text of that value, in pieces. A long text is never in memory as a whole.

        Raises:
            StoreError: as `value`. Discard the pieces before.
        """
        pointer = _pointer(attribute)
        if pointer is None:
            return text_pieces(attribute)
        if pointer.bundle_bytes <= WHOLE_BYTES:
            return text_pieces(self.stored(pointer))
        return decoded(self._streamed(pointer))

    def read_ahead(self, attributes: Iterable[Attribute]) -> None:
        """Fetch the bundles of these attributes, four at once, as far as there is room to keep them.

        Errors are raised when a value is read.
        """
        room = KEPT_BYTES - sum(map(len, self._kept.values()))
        wanted: dict[str, Pointer] = {}
        for pointer in filter(None, map(_pointer, attributes)):
            new = pointer.bundle not in wanted and pointer.bundle not in self._kept
            # A longer bundle is fetched by itself, several pieces at once.
            if new and pointer.bundle_bytes <= min(room, BUNDLE_BYTES):
                wanted[pointer.bundle] = pointer
                room -= pointer.bundle_bytes
        if len(wanted) > 1:
            for failure in together([partial(self._bundle, p) for p in wanted.values()], None, self._monotonic):
                if failure is not None and not isinstance(failure, StoreError):
                    raise failure

    def stored(self, pointer: Pointer) -> Attribute:
        """A value as it would be stored in the item.

        Raises:
            StoreError: as `value`.
        """
        check_readable(pointer.text_bytes)
        data = self._bundle(pointer)[pointer.offset : pointer.offset + pointer.stored_bytes]
        return {"B": data} if is_zipped(data) else {"S": data.decode()}

    def _bundle(self, pointer: Pointer) -> bytes:
        if pointer.bundle not in self._kept:
            data = b"".join(self._fetched(pointer))
            if sum(map(len, self._kept.values())) + len(data) > KEPT_BYTES:
                return data
            self._kept[pointer.bundle] = data
        return self._kept[pointer.bundle]

    def _streamed(self, pointer: Pointer) -> Iterator[bytes]:
        check_readable(pointer.text_bytes)
        parts = self._fetched(pointer)
        first = next(parts)
        rest = _after(first, parts)
        return unzipped_stream(rest, pointer.text_bytes) if is_zipped(first) else rest

    def _fetched(self, pointer: Pointer) -> Iterator[bytes]:
        """A bundle, in pieces. Raises an error at the end if they are not what was written."""
        from hashlib import sha256

        digest, came = sha256(), 0
        for part in self._pieces(pointer):
            digest.update(part)
            came += len(part)
            yield part
        if came != pointer.bundle_bytes or name_of(digest.digest()) != pointer.bundle:
            raise self._lost(pointer, DAMAGED)

    def _pieces(self, pointer: Pointer) -> Iterator[bytes]:
        in_bucket = bool(pointer.days)
        if in_bucket in self._failures:
            raise StoreUnavailable(str(self._failures[in_bucket])) from self._failures[in_bucket]
        try:
            yield from self._object(pointer) if in_bucket else self._items(pointer)
        except StoreUnavailable as failure:
            # Otherwise each further read of this request would wait for the same failure.
            self._failures[in_bucket] = failure
            raise

    def _object(self, pointer: Pointer) -> Iterator[bytes]:
        if self._outside is None or self._outside.bucket is None:
            raise StoreUnavailable(f"the object {pointer.bundle} cannot be read: no bucket is configured")
        key = object_key(self._owner, self._task_id, pointer.bundle, pointer.days)
        try:
            yield from self._outside.bucket.get(key, pointer.bundle_bytes)
        except ObjectMissing as missing:
            raise self._lost(pointer, "its object is missing in S3") from missing
        except ObjectTooLarge as larger:
            raise self._lost(pointer, DAMAGED) from larger

    def _items(self, pointer: Pointer) -> Iterator[bytes]:
        """The pieces of a bundle in DynamoDB, four at once."""
        if self._outside is None:
            raise StoreUnavailable(f"the items {pointer.bundle} cannot be read: there is no table")
        table, pieces = self._outside.table, -(-pointer.bundle_bytes // BUNDLE_BYTES)
        for first in range(0, pieces, THREADS):
            read: dict[int, bytes] = {}
            numbers = range(first, min(first + THREADS, pieces))
            jobs = [partial(self._item, table, pointer, number, read) for number in numbers]
            for failure in together(jobs, None, self._monotonic):
                if failure is not None:
                    raise failure
            yield from (read[number] for number in numbers)

    def _item(self, table: ValueTable, pointer: Pointer, number: int, read: dict[int, bytes]) -> None:
        key = piece_key(self._owner, self._task_id, pointer.bundle, number)
        # An eventually consistent read may miss a new item.
        item = table.get(key, consistent=False) or table.get(key)
        if item is None:
            raise self._lost(pointer, f"its piece {number + 1} is missing")
        match item.get("data"):
            case {"B": bytes() as data}:
                read[number] = data
            case _:
                raise self._lost(pointer, DAMAGED)

    def _lost(self, pointer: Pointer, cause: str) -> ValueLost:
        size = pointer.text_bytes
        if self._outside is not None:
            self._outside.recent.forget(self._owner, self._task_id)
        logger.error("task %s: %s, of a value of %d bytes, is lost: %s", self._task_id, pointer.bundle, size, cause)
        return ValueLost(size, cause)


def _pointer(attribute: Attribute) -> Pointer | None:
    try:
        return pointer_in(attribute)
    except ValueError as error:
        raise StoreError(f"a pointer is damaged: {error}") from error


def _after(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def text_pieces(attribute: Attribute) -> Iterator[str]:
    """The JSON text behind an encoded value, in pieces.

    Raises:
        StoreError: as `decode`. Discard the pieces before.
    """
    try:
        match attribute:
            case {"S": text}:
                check_kept(text)
                yield text
            case {"B": bytes() as compressed}:
                yield from decoded(unzipped_pieces(compressed))
            case _:
                yield dumps(from_native(attribute))
    except ValueError as error:
        raise StoreError(f"a stored value is damaged: {error}") from error
