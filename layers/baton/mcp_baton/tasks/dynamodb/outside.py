"""Values outside the heads of tasks: how they are named, written and kept (ARCHITECTURE.md, Values outside the head).

Values of one write are stored together as a bundle, in items of the same table. A bundle is named by its digest: it is
never overwritten with other content, and writing it twice is safe. It is written before the head that points to it. A
write that then loses its race leaves a bundle without a pointer. Baton deletes no bundles: they expire.

Pointers do not contain the owner and the task, but every key does. So a copied pointer never leads to values of another
task.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final

from msgspec import Struct

from mcp_baton.exceptions import StoreUnavailable
from mcp_baton.protocol.json import dumps
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item, attributes, from_native, primary_key, text_bytes
from mcp_baton.tasks.dynamodb.items import DAY_S, KEPT_UNTIL, Path, in_partition, number
from mcp_baton.tasks.dynamodb.lists import ListRecord, chunk_text
from mcp_baton.tasks.dynamodb.parallel import run_jobs
from mcp_baton.tasks.dynamodb.retries import ConditionFailed
from mcp_baton.tasks.dynamodb.table import TaskTable
from mcp_baton.tasks.dynamodb.values import ValuePointer, bundle_name, sha256_of
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.texts import to_text, zipped

logger = logging.getLogger(__name__)

BUNDLE_BYTES: Final = 350_000
"""The largest bundle of several values, and the largest piece of a longer one, bytes."""

MAX_CHUNK_COLLISIONS: Final = 20
"""How many numbers are tried for a chunk. Each may be taken by a writer that lost its race."""

KEEP_LONGER_S: Final = 2.5
"""How long it may take to keep all values of a task longer, seconds."""

VALUE_PREFIX = "VALUE#"
VALUE_SORT_KEY = "VALUE"
OWNER_DIGITS = 32


def owner_digest(owner: str) -> str:
    """An owner in keys: of fixed length, without separators, and hashed, because it can be a person's name."""
    return sha256_of(to_text(owner).encode()).hex()[:OWNER_DIGITS]


def piece_key(owner: str, task_id: str, bundle: str, piece: int) -> Item:
    """The primary key of one piece of a bundle in DynamoDB. Each piece has its own partition."""
    return primary_key(f"{VALUE_PREFIX}{owner_digest(owner)}#{task_id}#{bundle}#{piece}", VALUE_SORT_KEY)


class Part(Struct, frozen=True):
    """A value to be stored: its place in the head, the length of its JSON text, and its stored bytes."""

    path: Path
    text_bytes: int
    data: bytes


class Bundle(Struct, frozen=True):
    """Values that are stored together."""

    parts: tuple[Part, ...]
    data: bytes
    digest: bytes

    @property
    def name(self) -> str:
        return bundle_name(self.digest)

    def pointers(self) -> Iterator[tuple[Part, ValuePointer]]:
        """The pointer to each value."""
        offset = 0
        for part in self.parts:
            yield part, ValuePointer(self.name, part.text_bytes, len(part.data), len(self.data), offset)
            offset += len(part.data)


def list_partition(owner: str, task_id: str, list_id: str) -> str:
    """The partition of a list's chunks."""
    return f"{VALUE_PREFIX}{owner_digest(owner)}#{task_id}#{list_id}"


def chunk_sort_key(number: int, piece: int) -> str:
    return f"{number:06}#{piece:03}"


def stored_form(value: Attribute) -> bytes:
    """The bytes of an encoded value: its JSON text, compressed or not."""
    match value:
        case {"B": bytes() as compressed}:
            return compressed
        case {"S": text}:
            return text.encode()
        case _:
            return dumps(from_native(value)).encode()


def make_bundles(parts: Sequence[Part]) -> list[Bundle]:
    """Put values together into bundles of at most `BUNDLE_BYTES`. A longer value is a bundle by itself."""
    groups: list[list[Part]] = []
    room = 0
    for part in sorted(parts, key=lambda part: (-len(part.data), part.path)):
        if len(part.data) > room:
            groups.append([])
            room = BUNDLE_BYTES
        groups[-1].append(part)
        room -= len(part.data)
    bundles = []
    for group in groups:
        data = b"".join(part.data for part in group)
        bundles.append(Bundle(tuple(group), data, sha256_of(data)))
    return bundles


class Mover:
    """Moves the values of one write out of a task's head, to items of their own.

    Args:
        owner: The task's owner.
        task_id: The task.
        head: The head as it was read.
        until_s: When the time is over, on the table's monotonic clock.

    Attributes:
        kept_until_s: Until when the values are kept, epoch seconds: as long as the task's other values, or a day longer
            than the task.
        failed: Whether a value could not be written.
    """

    def __init__(self, table: TaskTable, owner: str, task_id: str, head: Item, until_s: float) -> None:
        self._table = table
        self._owner = owner
        self._task_id = task_id
        self._until_s = until_s
        self.kept_until_s = number(head, KEPT_UNTIL) if KEPT_UNTIL in head else number(head, "expires_at") + DAY_S
        self.failed = False

    def move(self, values: Mapping[Path, Attribute]) -> dict[Path, Attribute]:
        """Write values outside the head. Returns the pointers. A value without one could not be written."""
        bundles = make_bundles([Part(path, text_bytes(value), stored_form(value)) for path, value in values.items()])
        jobs = list(chain(*map(self._pieces, bundles)))
        outcomes = run_jobs([job for _, job in jobs], self._until_s, self._table.monotonic)
        failures = {bundle: failure for (bundle, _), failure in zip(jobs, outcomes, strict=True) if failure is not None}
        for bundle, failure in failures.items():
            if not isinstance(failure, StoreUnavailable):
                raise failure
            length = len(bundle.data)
            logger.error("task %s: %d bytes could not be written to items", self._task_id, length, exc_info=failure)
        self.failed = self.failed or bool(failures)
        written = [bundle for bundle in bundles if bundle not in failures]
        return {part.path: pointer.attribute() for bundle in written for part, pointer in bundle.pointers()}

    def add_chunk(self, record: ListRecord) -> ListRecord:
        """Write the results in a list's record to a chunk. Returns the record with the chunk, or the same one if it
        could not be written."""
        text = chunk_text(record.inline).encode()
        data = min(zipped(text), text, key=len)
        for chunk in range(record.next_chunk, record.next_chunk + MAX_CHUNK_COLLISIONS):
            jobs = [partial(self._table.put_once, item) for item in self._chunk_items(record.id, chunk, data)]
            failures = list(filter(None, run_jobs(jobs, self._until_s, self._table.monotonic)))
            if not failures:
                return record.with_chunk(chunk, len(data))
            for failure in failures:
                if not isinstance(failure, StoreUnavailable | ConditionFailed):
                    raise failure
            if not all(isinstance(failure, ConditionFailed) for failure in failures):
                logger.error("task %s: %d bytes of a list could not be written", self._task_id, len(data))
                self.failed = True
                return record
        return record

    def _chunk_items(self, list_id: str, chunk: int, data: bytes) -> Iterator[Item]:
        """The items of a chunk. The token says which writer has taken its number."""
        token, partition = new_token(), list_partition(self._owner, self._task_id, list_id)
        starts = range(0, len(data), BUNDLE_BYTES)
        for piece, start in enumerate(starts):
            yield primary_key(partition, chunk_sort_key(chunk, piece)) | attributes(
                expires_at=self.kept_until_s,
                pieces=len(starts),
                by=token,
                data={"B": data[start : start + BUNDLE_BYTES]},
            )

    def _pieces(self, bundle: Bundle) -> Iterator[tuple[Bundle, Callable[[], None]]]:
        """The writes of a bundle to items. It needs all of them."""
        for piece, start in enumerate(range(0, len(bundle.data), BUNDLE_BYTES)):
            key = piece_key(self._owner, self._task_id, bundle.name, piece)
            data = attributes(expires_at=self.kept_until_s, data={"B": bundle.data[start : start + BUNDLE_BYTES]})
            yield bundle, partial(self._table.put_value, key | data)


def keys_of(owner: str, task_id: str, pointers: Iterable[ValuePointer]) -> list[Item]:
    """The keys of the items that these pointers lead to."""
    bundles = {pointer.bundle: pointer.bundle_bytes for pointer in pointers}
    pieces = [(bundle, piece) for bundle, length in bundles.items() for piece in range(-(-length // BUNDLE_BYTES))]
    return [piece_key(owner, task_id, bundle, piece) for bundle, piece in pieces]


def chunk_keys(table: TaskTable, owner: str, task_id: str, record: ListRecord) -> list[Item]:
    """The keys of a list's chunks: one `Query` or more."""
    if not record.chunks:
        return []
    request = in_partition(list_partition(owner, task_id, record.id)) | {"ProjectionExpression": "pk,sk"}
    return [{"pk": item["pk"], "sk": item["sk"]} for item in table.items(request)]


def keep(table: TaskTable, keys: Sequence[Item], until_s: int) -> bool:
    """Keep value items until a later time, epoch seconds. Missing ones are lost already. Returns whether all that exist
    are kept."""
    jobs = [partial(table.keep_value, key, until_s) for key in keys]
    failures = [failure for failure in run_jobs(jobs, table.monotonic() + KEEP_LONGER_S, table.monotonic) if failure]
    for failure in failures:
        if not isinstance(failure, StoreUnavailable):
            raise failure
    return not failures
