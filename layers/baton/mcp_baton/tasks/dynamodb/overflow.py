"""Values that outgrow their task's item: each an object elsewhere, with a pointer in its place (docs/storage.md).

An object is written once, under a key that no other write has, before the item that points at it. A write that then
loses its race leaves an object that nothing points at; the winner's stay what they are. Nothing is ever deleted here:
a key begins with the days after which a lifecycle rule of the bucket may do so.
"""

import os
from typing import Protocol

from mcp_baton.light_dataclasses import dataclass
from mcp_baton.protocol.json import dumps
from mcp_baton.tasks.dynamodb.attributes import Attribute, from_native, text_bytes
from mcp_baton.tasks.texts import to_text, zipped

RETENTION_DAYS = (2, 8, 31, 366)
"""The lifetimes that an object can have; `template.yaml` has a lifecycle rule for each."""

DAY_MS = 86_400_000
LONGEST_TTL_MS = (RETENTION_DAYS[-1] - 1) * DAY_MS
"""The longest lifetime of a task whose objects are sure to outlive it, milliseconds."""

OWNER_DIGITS = 32
NAME_BYTES = 16


class ObjectMissing(Exception):
    """There is no object of this key, or it may not be read: without the right to list, S3 does not tell them apart."""


class ObjectTooLarge(Exception):
    """The object is larger than what was written under its key. Nothing of it was read."""


class ObjectStore(Protocol):
    """Where the objects are."""

    def put(self, key: str, data: bytes, digest: bytes) -> None:
        """Write an object, durably.

        Args:
            key: Its key, which no other object has.
            data: Its content.
            digest: The content's SHA-256.

        Raises:
            StoreUnavailable: it could not be written.
        """

    def get(self, key: str, most: int) -> bytes:
        """Read an object.

        Args:
            key: Its key.
            most: The bytes that it has at most.

        Raises:
            ObjectMissing: there is none.
            ObjectTooLarge: it has more bytes.
            StoreUnavailable: it could not be read.
        """


@dataclass(frozen=True, slots=True)
class Pointer:
    """What an item holds in the place of a value.

    Attributes:
        key: The object's key.
        text_bytes: The length of the value's JSON text, bytes.
        digest: The object's SHA-256, in hexadecimal digits.
    """

    key: str
    text_bytes: int
    digest: str

    def attribute(self) -> Attribute:
        """As it is stored: a native map, which no other value but the progress is, with other names in it."""
        return {"M": {"object": {"S": self.key}, "bytes": {"N": str(self.text_bytes)}, "sha256": {"S": self.digest}}}

    def describes(self, data: bytes) -> bool:
        """Whether these bytes are the object's."""
        return digest_of(data) == self.digest


def digest_of(data: bytes) -> str:
    """SHA-256, in hex. Imported here, as loading OpenSSL's digests takes milliseconds, and few tasks overflow."""
    from hashlib import sha256

    return sha256(data).hexdigest()


def pointer_in(attribute: Attribute) -> Pointer | None:
    """The pointer that an attribute is, if it is one."""
    match attribute:
        case {"M": {"object": {"S": str(key)}, "bytes": {"N": str(count)}, "sha256": {"S": str(digest)}, **others}} if (
            not others
        ):
            return Pointer(key, int(count), digest)
        case _:
            return None


def pointer_to(key: str, value: Attribute, data: bytes) -> Pointer:
    """The pointer to the object of this key, which holds a value as `object_of` makes it."""
    return Pointer(key, text_bytes(value), digest_of(data))


def object_of(value: Attribute) -> bytes:
    """The object that holds an encoded value: its JSON text, zipped."""
    match value:
        case {"B": bytes() as compressed}:
            return compressed
        case {"S": text}:
            return zipped(text.encode())
        case _:
            return zipped(dumps(from_native(value)).encode())


def folder_of(owner: str, task_id: str) -> str:
    """Where in a key the objects of one task are. An owner's name can be a person's, so it is not shown."""
    return f"{digest_of(to_text(owner).encode())[:OWNER_DIGITS]}/{task_id}/"


def new_key(folder: str, ttl_ms: int) -> str:
    """A key for one object of a task that lives so long, milliseconds; nobody can guess it."""
    return f"{retention_days(ttl_ms)}d/{folder}{os.urandom(NAME_BYTES).hex()}"


def retention_days(ttl_ms: int) -> int:
    """The days that an object of a task is kept, at least one more than the task's whole life.

    An object is needed until its task expires, and is not older than the task: whenever it is written, the whole
    lifetime is enough. The day more is for clocks that differ.
    """
    return next((days for days in RETENTION_DAYS if ttl_ms <= (days - 1) * DAY_MS), RETENTION_DAYS[-1])
