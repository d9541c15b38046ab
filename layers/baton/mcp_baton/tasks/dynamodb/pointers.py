"""What a task's head holds in the place of a value that is kept outside, and the names under which that is found. Pure.

Values of one write are kept together as a bundle, so that they cost as few requests and units as possible. It is named
by its own digest: it is never overwritten with anything else, and writing it twice does no harm. Owner and task are no
part of a pointer, but of every key that is made of one, so that a pointer leads nowhere outside the task that holds it
(docs/storage.md, Values outside the head).
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from typing import Final

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
DIGEST_LENGTH = 22


class Pointer(Struct, frozen=True):
    """Where a value is.

    Attributes:
        bundle: The bundle's name: 16 bytes of its SHA-256, in 22 characters.
        text_bytes: The length of the value's JSON text, bytes.
        stored_bytes: What the value takes in the bundle, bytes.
        bundle_bytes: How long the bundle is.
        offset: Where in the bundle the value begins.
        days: The S3 folder of the bundle, named by how long objects are kept there; 0 for one in DynamoDB.
        until_s: Until when the bundle is surely kept, epoch seconds; 0 if the pointer does not say.
    """

    bundle: str
    text_bytes: int
    stored_bytes: int
    bundle_bytes: int
    offset: int = 0
    days: int = 0
    until_s: int = 0

    def attribute(self) -> Attribute:
        """As it is stored: a text that no value has, since no JSON text begins with one of these letters."""
        place = f"{IN_BUCKET}{self.days}-{self.until_s:x}" if self.days else f"{IN_ITEMS}{self.until_s:x}"
        fields = [place, self.bundle, str(self.text_bytes), str(self.stored_bytes)]
        if self.stored_bytes != self.bundle_bytes:
            fields += [str(self.offset), str(self.bundle_bytes)]
        return {"S": ",".join(fields)}


def pointer_in(attribute: Attribute) -> Pointer | None:
    """The pointer that an attribute is, if it is one."""
    text = attribute.get("S", "")
    if not text.startswith((IN_ITEMS, IN_BUCKET)):
        return None
    place, bundle, *numbers = text.split(",")
    text_bytes, stored, *within = map(int, numbers)
    offset, whole = within or (0, stored)
    days, _, until = place[1:].partition("-") if place.startswith(IN_BUCKET) else ("", "", place[1:])
    return Pointer(bundle, text_bytes, stored, whole, offset, int(days or 0), int(until or "0", 16))


def digest_of(data: bytes) -> bytes:
    """SHA-256. Imported here, as loading OpenSSL's digests takes milliseconds, and many tasks keep nothing outside."""
    from hashlib import sha256

    return sha256(data).digest()


def name_of(digest: bytes) -> str:
    """The name of the bundle with this SHA-256."""
    return urlsafe_b64encode(digest[:DIGEST_BYTES]).decode().rstrip("=")


def owner_digest(owner: str) -> str:
    """An owner in keys: of one length, without separators, and not shown, since it can be a person's name."""
    return digest_of(to_text(owner).encode()).hex()[:OWNER_DIGITS]


def piece_key(owner: str, task_id: str, bundle: str, piece: int) -> Item:
    """The primary key of one piece of a bundle in DynamoDB, each a partition of its own."""
    return {
        "pk": {"S": f"{VALUE_PREFIX}{owner_digest(owner)}#{task_id}#{bundle}#{piece}"},
        "sk": {"S": VALUE_SORT_KEY},
    }


def object_key(owner: str, task_id: str, bundle: str, days: int) -> str:
    """The key of a bundle in S3."""
    return f"{days}d/{owner_digest(owner)}/{task_id}/{bundle}"


class Part(Struct, frozen=True):
    """A value on its way: its name in the write, the length of its text, and its bytes as they are stored."""

    name: str
    text_bytes: int
    data: bytes


class Bundle(Struct, frozen=True):
    """Values that are written together."""

    parts: tuple[Part, ...]
    data: bytes
    digest: bytes

    @property
    def name(self) -> str:
        """Its name in keys."""
        return name_of(self.digest)

    def pointers(self, days: int, until_s: int) -> Iterator[tuple[Part, Attribute]]:
        """What stands in the head for each value. The arguments are those of `Pointer`."""
        offset = 0
        for part in self.parts:
            where = Pointer(self.name, part.text_bytes, len(part.data), len(self.data), offset, days, until_s)
            yield part, where.attribute()
            offset += len(part.data)


def stored_form(value: Attribute) -> bytes:
    """An encoded value as it is stored outside: its JSON text, zipped or not, as it was encoded."""
    match value:
        case {"B": bytes() as compressed}:
            return compressed
        case {"S": text}:
            return text.encode()
        case _:
            return dumps(from_native(value)).encode()


def bundled(parts: Sequence[Part]) -> list[Bundle]:
    """Values put together, in their order, as long as a bundle stays within one item; a longer value is by itself."""
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
