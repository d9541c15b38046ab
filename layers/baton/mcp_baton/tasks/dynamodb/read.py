"""Reads values outside the heads of tasks, when they are needed (ARCHITECTURE.md, Values outside the head)."""

import logging
import time
from collections.abc import Iterable
from functools import partial

from mcp_baton.exceptions import StoreError, StoreUnavailable, ValueLost
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.attributes import Attribute
from mcp_baton.tasks.dynamodb.items import in_partition
from mcp_baton.tasks.dynamodb.lists import ListRecord, chunk_in
from mcp_baton.tasks.dynamodb.outside import BUNDLE_BYTES, chunk_sort_key, list_partition, piece_key
from mcp_baton.tasks.dynamodb.parallel import results_of, run_jobs
from mcp_baton.tasks.dynamodb.table import TaskTable
from mcp_baton.tasks.dynamodb.values import ValuePointer, bundle_name, sha256_of
from mcp_baton.tasks.texts import check_readable, is_zipped, unzipped

logger = logging.getLogger(__name__)

CACHE_BYTES = 8_000_000
"""How much fetched data is kept for the rest of a request. The rest is fetched again if it is needed."""

DAMAGED = "what is stored is damaged"


class Fetcher:
    """Reads the values of one task that are outside its item. A bundle is fetched when one of its values is first read.

    Values raise `ValueLost` if they are missing or not what was written, `ValueTooLarge` if they are longer than is
    read, and `StoreUnavailable` if DynamoDB does not respond, or refuses.
    """

    def __init__(self, table: TaskTable, owner: str, task_id: str) -> None:
        self._table = table
        self._owner = owner
        self._task_id = task_id
        self._cache: dict[str, bytes] = {}
        self._lists: dict[str, dict[tuple[int, ...], list[dict[int, Json]]]] = {}
        self._failure: StoreUnavailable | None = None

    def fetch(self, pointer: ValuePointer) -> Attribute:
        """A value as it would be stored in the item."""
        check_readable(pointer.text_bytes)
        data = self._read_bundle(pointer)[pointer.offset : pointer.offset + pointer.stored_bytes]
        return {"B": data} if is_zipped(data) else {"S": data.decode()}

    def fetch_list(self, record: ListRecord) -> list[Json]:
        """The results of a list in order; `None` for an open element. All chunks are read with one `Query` or more."""
        if not record.chunks:
            return record.in_order(())
        if record.chunks in self._lists.get(record.id, ()):
            return record.in_order(self._lists[record.id][record.chunks])
        check_readable(record.text_bytes)
        # An eventually consistent read may miss a new item.
        chunks = self._read_chunks(record, consistent=False) or self._read_chunks(record, consistent=True)
        if chunks is None:
            raise self._lost(record.id, record.text_bytes, "a part of the list is missing")
        try:
            contents = [chunk_in(unzipped(data).decode() if is_zipped(data) else data.decode()) for data in chunks]
        except (KeyError, ValueError) as error:
            raise self._lost(record.id, record.text_bytes, DAMAGED) from error
        self._lists[record.id] = {record.chunks: contents}
        return record.in_order(contents)

    def _read_chunks(self, record: ListRecord, *, consistent: bool) -> list[bytes] | None:
        """The contents of the record's chunks, in the order of their numbers; `None` if one is missing."""
        request = in_partition(list_partition(self._owner, self._task_id, record.id))
        items = {item["sk"]["S"]: item for item in self._table.items(request | {"ConsistentRead": consistent})}
        chunks: list[bytes] = []
        for number in sorted(record.chunks):
            first = items.get(chunk_sort_key(number, 0))
            count = int(first["pieces"]["N"]) if first else 1
            keys = [chunk_sort_key(number, piece) for piece in range(count)]
            if any(key not in items for key in keys):
                return None
            chunks.append(b"".join(bytes(items[key]["data"]["B"]) for key in keys))
        return chunks

    def read_ahead(self, pointers: Iterable[ValuePointer]) -> None:
        """Fetch the bundles of these values, four at once, as far as there is room to keep them.

        Errors are raised when a value is read.
        """
        room = CACHE_BYTES - sum(map(len, self._cache.values()))
        bundles: dict[str, ValuePointer] = {}
        for pointer in pointers:
            is_new = pointer.bundle not in bundles and pointer.bundle not in self._cache
            # A longer bundle is fetched by itself, several pieces at once.
            if is_new and pointer.bundle_bytes <= min(room, BUNDLE_BYTES):
                bundles[pointer.bundle] = pointer
                room -= pointer.bundle_bytes
        if len(bundles) > 1:
            jobs = [partial(self._read_bundle, pointer) for pointer in bundles.values()]
            for failure in run_jobs(jobs, None, time.monotonic):
                if failure is not None and not isinstance(failure, StoreError):
                    raise failure

    def _read_bundle(self, pointer: ValuePointer) -> bytes:
        if pointer.bundle in self._cache:
            return self._cache[pointer.bundle]
        if self._failure:
            raise StoreUnavailable(str(self._failure)) from self._failure
        try:
            data = self._read_pieces(pointer)
        except StoreUnavailable as failure:
            # Otherwise each further read of this request would wait for the same failure.
            self._failure = failure
            raise
        if len(data) != pointer.bundle_bytes or bundle_name(sha256_of(data)) != pointer.bundle:
            raise self._lost(pointer.bundle, pointer.text_bytes, DAMAGED)
        if sum(map(len, self._cache.values())) + len(data) <= CACHE_BYTES:
            self._cache[pointer.bundle] = data
        return data

    def _read_pieces(self, pointer: ValuePointer) -> bytes:
        """A bundle in DynamoDB. Its pieces are read four at once."""
        pieces = range(-(-pointer.bundle_bytes // BUNDLE_BYTES))
        return b"".join(results_of([partial(self._read_piece, pointer, number) for number in pieces]))

    def _read_piece(self, pointer: ValuePointer, number: int) -> bytes:
        key, table = piece_key(self._owner, self._task_id, pointer.bundle, number), self._table
        # An eventually consistent read may miss a new item.
        item = table.get(key, consistent=False) or table.get(key)
        if item is None:
            raise self._lost(pointer.bundle, pointer.text_bytes, f"its piece {number + 1} is missing")
        match item.get("data"):
            case {"B": bytes() as data}:
                return data
            case _:
                raise self._lost(pointer.bundle, pointer.text_bytes, DAMAGED)

    def _lost(self, name: str, length: int, cause: str) -> ValueLost:
        logger.error("task %s: %s, of a value of %d bytes, is lost: %s", self._task_id, name, length, cause)
        return ValueLost(length, cause)
