"""Values outside the items of tasks: where they are stored, how they are named, and how long they are kept
(docs/storage.md, Values outside the head).

A value goes to S3 if there is a bucket, otherwise to items of its own in the same table. Values of one write are stored
together as a bundle, which is named by its digest. So a bundle is never overwritten with other content, and writing it
twice is safe. A bundle is written before the item that points to it. A write that then loses its race leaves a bundle
without a pointer. Baton deletes no bundles: they expire.

Pointers do not contain the owner and the task, but every key does. So a copied pointer never leads to values of another
task.
"""

from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Final, Protocol

from msgspec import Struct

from mcp_baton.protocol.json import dumps
from mcp_baton.tasks.dynamodb.attributes import IN_BUCKET, IN_ITEMS, Attribute, Item, from_native
from mcp_baton.tasks.texts import to_text

POINTER_BYTES: Final = 46
"""About the size of a pointer, bytes."""

BUNDLE_BYTES: Final = 350_000
"""The largest bundle of several values, and the largest piece of a longer one, bytes."""

VALUE_PREFIX = "VALUE#"
VALUE_SORT_KEY = "VALUE"
OWNER_DIGITS = 32
DIGEST_BYTES = 16

REMEMBERED = 256
REMEMBERED_S = 10.0

RETENTION_DAYS = (2, 8, 31, 366)
"""How long an object can be kept, days. `template.yaml` has a lifecycle rule for each."""

DAY_MS = 86_400_000
LONGEST_TTL_MS = (RETENTION_DAYS[-1] - 1) * DAY_MS
"""The longest lifetime of a task whose objects certainly outlive it, milliseconds."""

MARGIN_S = 43_200
"""Every value is kept at least this much longer than its task, even if the task is extended meanwhile, seconds."""


class Pointer(Struct, frozen=True):
    """Where a value is stored.

    Attributes:
        bundle: The bundle's name: 16 bytes of its SHA-256, in 22 characters.
        text_bytes: The length of the value's JSON text, bytes.
        stored_bytes: The length of the value in the bundle, bytes.
        bundle_bytes: The length of the bundle, bytes.
        offset: Where the value begins in the bundle.
        days: The S3 folder, named by how long its objects are kept; 0 for a bundle in DynamoDB.
        until_s: Until when the bundle is certainly kept, epoch seconds; 0 if the pointer does not say.
    """

    bundle: str
    text_bytes: int
    stored_bytes: int
    bundle_bytes: int
    offset: int = 0
    days: int = 0
    until_s: int = 0

    def attribute(self) -> Attribute:
        """The stored form: a text that begins with a letter with which no JSON text begins."""
        place = f"{IN_BUCKET}{self.days}-{self.until_s:x}" if self.days else f"{IN_ITEMS}{self.until_s:x}"
        fields = [place, self.bundle, str(self.text_bytes), str(self.stored_bytes)]
        if self.stored_bytes != self.bundle_bytes:
            fields += [str(self.offset), str(self.bundle_bytes)]
        return {"S": ",".join(fields)}


def pointer_in(attribute: Attribute) -> Pointer | None:
    """The pointer in an attribute, if it is one."""
    text = attribute.get("S", "")
    if not text.startswith((IN_ITEMS, IN_BUCKET)):
        return None
    place, bundle, *numbers = text.split(",")
    text_bytes, stored, *within = map(int, numbers)
    offset, whole = within or (0, stored)
    days, _, until = place[1:].partition("-") if place.startswith(IN_BUCKET) else ("", "", place[1:])
    return Pointer(bundle, text_bytes, stored, whole, offset, int(days or 0), int(until or "0", 16))


def digest_of(data: bytes) -> bytes:
    """SHA-256. The import is deferred, because it loads OpenSSL, and many tasks have no values outside."""
    from hashlib import sha256

    return sha256(data).digest()


def name_of(digest: bytes) -> str:
    """The name of the bundle with this SHA-256."""
    return urlsafe_b64encode(digest[:DIGEST_BYTES]).decode().rstrip("=")


def owner_digest(owner: str) -> str:
    """An owner in keys: of fixed length, without separators, and hashed, because it can be a person's name."""
    return digest_of(to_text(owner).encode()).hex()[:OWNER_DIGITS]


def piece_key(owner: str, task_id: str, bundle: str, piece: int) -> Item:
    """The primary key of one piece of a bundle in DynamoDB. Each piece has its own partition."""
    return {
        "pk": {"S": f"{VALUE_PREFIX}{owner_digest(owner)}#{task_id}#{bundle}#{piece}"},
        "sk": {"S": VALUE_SORT_KEY},
    }


def object_key(owner: str, task_id: str, bundle: str, days: int) -> str:
    """The key of a bundle in S3."""
    return f"{days}d/{owner_digest(owner)}/{task_id}/{bundle}"


class Part(Struct, frozen=True):
    """A value to be stored: its name in the write, the length of its JSON text, and its stored bytes."""

    name: str
    text_bytes: int
    data: bytes


class Bundle(Struct, frozen=True):
    """Values that are stored together."""

    parts: tuple[Part, ...]
    data: bytes
    digest: bytes

    @property
    def name(self) -> str:
        """Its name in keys."""
        return name_of(self.digest)

    def pointers(self, days: int, until_s: int) -> Iterator[tuple[Part, Attribute]]:
        """The pointer to each value. The arguments are those of `Pointer`."""
        offset = 0
        for part in self.parts:
            where = Pointer(self.name, part.text_bytes, len(part.data), len(self.data), offset, days, until_s)
            yield part, where.attribute()
            offset += len(part.data)


def stored_form(value: Attribute) -> bytes:
    """The bytes of an encoded value: its JSON text, compressed or not."""
    match value:
        case {"B": bytes() as compressed}:
            return compressed
        case {"S": text}:
            return text.encode()
        case _:
            return dumps(from_native(value)).encode()


def bundled(parts: Sequence[Part]) -> list[Bundle]:
    """Put values together into bundles of at most `BUNDLE_BYTES`. A longer value is a bundle by itself."""
    groups: list[list[Part]] = []
    room = 0
    for part in sorted(parts, key=lambda part: (-len(part.data), part.name)):
        if len(part.data) > room:
            groups.append([])
            room = BUNDLE_BYTES
        groups[-1].append(part)
        room -= len(part.data)
    made = []
    for group in groups:
        data = b"".join(part.data for part in group)
        made.append(Bundle(tuple(group), data, digest_of(data)))
    return made


class ObjectMissing(Exception):
    """There is no object with this key, or it may not be read. Without the right to list, S3 does not say which."""


class ObjectTooLarge(Exception):
    """The object is larger than what was written under its key. Nothing of it was read."""


class ObjectStore(Protocol):
    """S3."""

    def put(self, key: str, data: bytes, digest: bytes) -> None:
        """Write an object.

        Args:
            key: Its key. No object with other content has it.
            data: Its content.
            digest: The SHA-256 of the content.

        Raises:
            StoreUnavailable: it could not be written.
        """

    def get(self, key: str, most: int) -> Iterator[bytes]:
        """Read an object, in pieces as they come.

        Args:
            key: Its key.
            most: The most bytes that it may have.

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
    """How long an object is kept whose task lives this much longer: at least a day more, days.

    The day is for clocks that differ, and for a task that is extended while the object is written.
    """
    return next((days for days in RETENTION_DAYS if ttl_ms <= (days - 1) * DAY_MS), RETENTION_DAYS[-1])
