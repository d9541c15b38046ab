"""The values in a task's item: decoded when they are read, and measured as DynamoDB does (docs/storage.md, Sizes)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import repeat
from typing import Any, Final, Protocol

from msgspec import Struct
from msgspec.json import encode as as_json

from mcp_baton.exceptions import StoreError, StoreUnavailable
from mcp_baton.protocol.json import Json, dumps
from mcp_baton.tasks.dynamodb.attributes import LIST, NOT_KEPT, POINTER, Attribute, decode, text_bytes, text_in
from mcp_baton.tasks.dynamodb.lists import ListRecord, record_in
from mcp_baton.tasks.texts import from_text, zipped
from mcp_baton.tasks.values import StoredList, StoredValues, ValueSize

COLLECTION_BYTES: Final = 3
ELEMENT_BYTES: Final = 1

DIGEST_BYTES = 16
LARGE_VALUE_BYTES: Final = 4_096
"""A value of more stored bytes leaves the task's item: every later write of the task would be charged for it."""


class ValuePointer(Struct, frozen=True):
    """Where a value is stored.

    Attributes:
        bundle: The bundle's name: 16 bytes of its SHA-256, in 22 characters.
        text_bytes: The length of the value's JSON text, bytes.
        stored_bytes: The length of the value in the bundle, bytes.
        bundle_bytes: The length of the bundle, bytes.
        offset: Where the value begins in the bundle.
    """

    bundle: str
    text_bytes: int
    stored_bytes: int
    bundle_bytes: int
    offset: int = 0

    def attribute(self) -> Attribute:
        """The stored form: a text that begins with a letter with which no JSON text begins."""
        fields = [POINTER + self.bundle, str(self.text_bytes), str(self.stored_bytes)]
        if self.stored_bytes != self.bundle_bytes:
            fields += [str(self.offset), str(self.bundle_bytes)]
        return {"S": ",".join(fields)}

    def holds(self, text: bytes) -> bool | None:
        """Whether the value has this JSON text, by length and digest. `None` if only reading the value can tell."""
        if len(text) != self.text_bytes:
            return False
        if self.stored_bytes != self.bundle_bytes:
            return None
        if self.stored_bytes == self.text_bytes:
            return bundle_name(sha256_of(text)) == self.bundle
        # Another version of zlib may have compressed the same text differently.
        return True if bundle_name(sha256_of(zipped(text))) == self.bundle else None


def pointer_in(attribute: Attribute) -> ValuePointer | None:
    """The pointer in an attribute, if it is one. Raises `StoreError` if it is damaged."""
    text = attribute.get("S", "")
    if not text.startswith(POINTER):
        return None
    try:
        bundle, *numbers = text.removeprefix(POINTER).split(",")
        text_bytes, stored_bytes, *bundle_fields = map(int, numbers)
        offset, bundle_bytes = bundle_fields or (0, stored_bytes)
        return ValuePointer(bundle, text_bytes, stored_bytes, bundle_bytes, offset)
    except ValueError as error:
        raise StoreError(f"a pointer is damaged: {error}") from error


def sha256_of(data: bytes) -> bytes:
    """SHA-256."""
    from hashlib import sha256

    return sha256(data).digest()


def bundle_name(digest: bytes) -> str:
    """The name of the bundle with this SHA-256."""
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(digest[:DIGEST_BYTES]).decode().rstrip("=")


class Reader(Protocol):
    """Reads the values outside the item of one task: `outside.Fetcher`."""

    def fetch(self, pointer: ValuePointer) -> Attribute: ...

    def fetch_list(self, record: ListRecord) -> list[Json]: ...

    def read_ahead(self, pointers: Iterable[ValuePointer]) -> None: ...


def no_reader() -> Reader:
    """The reader of values outside, where everything is in the item."""
    raise StoreUnavailable("the value is outside the task's item and cannot be read here")


class Variables(StoredValues):
    """Stored task variables. A value is decoded each time that it is read: a continuation, which reads only progress
    and pause reasons, does not decode 400 KB of results. These two are decoded once."""

    __slots__ = ("_attributes", "_native", "_reader")

    def __init__(self, attributes: Mapping[str, Attribute], reader: Callable[[], Reader] = no_reader) -> None:
        # Few names are quoted, but a task may have thousands of names.
        quoted = any(map(str.startswith, attributes, repeat('"')))
        self._attributes = {from_text(name): value for name, value in attributes.items()} if quoted else attributes
        self._native: dict[str, Json] = {}
        self._reader = reader

    def __getitem__(self, name: str) -> Json:
        attribute = self._attributes[name]
        if "M" in attribute or "L" in attribute:
            if name not in self._native:
                self._native[name] = decode(attribute)
            return self._native[name]
        record = record_in(attribute)
        return self._results(record) if record else decode(self._fetched(name))

    def text(self, name: str) -> str:
        record = record_in(self._attributes[name])
        return dumps(self._results(record)) if record else text_in(self._fetched(name))

    def stored_list(self, name: str) -> StoredList | None:
        record = record_in(self._attributes[name]) if name in self._attributes else None
        if record is None:
            return None
        return StoredList(record.total, record.done, record.digest, partial(self._results, record))

    def _results(self, record: ListRecord) -> list[Json]:
        return self._reader().fetch_list(record) if record.chunks else record.in_order(())

    def _fetched(self, name: str) -> Attribute:
        attribute = self._attributes[name]
        pointer = pointer_in(attribute)
        return attribute if pointer is None else self._reader().fetch(pointer)

    def weight(self, name: str) -> ValueSize:
        attribute = self._attributes[name]
        if record := record_in(attribute):
            return ValueSize(record.text_bytes, outside=bool(record.chunks), large=record.stored > LARGE_VALUE_BYTES)
        pointer = pointer_in(attribute)
        if pointer is None:
            return ValueSize(text_bytes(attribute), outside=False)
        return ValueSize(pointer.text_bytes, outside=True, large=pointer.stored_bytes > LARGE_VALUE_BYTES)

    def holds(self, name: str, text: bytes) -> bool | None:
        pointer = pointer_in(self._attributes[name])
        return None if pointer is None else pointer.holds(text)

    def read_ahead(self, names: Iterable[str]) -> None:
        pointers = [pointer_in(self._attributes[name]) for name in names if name in self._attributes]
        if outside := [pointer for pointer in pointers if pointer]:
            self._reader().read_ahead(outside)

    def __iter__(self) -> Iterator[str]:
        return iter(self._attributes)

    def __len__(self) -> int:
        return len(self._attributes)

    def __contains__(self, name: object) -> bool:
        # Without decoding the value.
        return name in self._attributes

    def __repr__(self) -> str:
        # As stored: printing fetches and decompresses nothing.
        return f"Variables({self._attributes!r})"


def is_large(value: Attribute) -> bool:
    return size(value) > LARGE_VALUE_BYTES


def is_value(attribute: Attribute) -> bool:
    """Whether an attribute is a value: no pointer, no record of a list, and no note about a value that is missing."""
    return not attribute.get("S", "").startswith((POINTER, LIST, NOT_KEPT))


def is_within(item: Mapping[str, Attribute], limit: int) -> bool:
    """Whether DynamoDB counts at most this many bytes for an item."""
    # The item as JSON is longer than that, and its length takes a tenth of the time.
    return len(as_json(item)) <= limit or item_size(item) <= limit


def item_size(item: Mapping[str, Attribute]) -> int:
    """The bytes that DynamoDB counts for an item: its names and its values."""
    total = 0
    for name, attribute in item.items():
        total += (len(name) if name.isascii() else len(name.encode())) + size(attribute)
    return total


def size(attribute: Mapping[str, Any]) -> int:
    """The bytes that DynamoDB counts for one attribute value."""
    # Called for thousands of values in a write. Comparing names is several times as fast as matching patterns.
    [(kind, value)] = attribute.items()
    if kind == "S":
        return len(value) if value.isascii() else len(value.encode())
    if kind == "M":
        return COLLECTION_BYTES + ELEMENT_BYTES * len(value) + item_size(value)
    if kind == "L":
        total = COLLECTION_BYTES + ELEMENT_BYTES * len(value)
        for element in value:
            total += size(element)
        return total
    if kind == "B":
        return len(value)
    if kind == "N":
        return _number_size(value)
    if kind == "SS":
        return sum(len(text.encode()) for text in value)  # a set has no overhead, unlike a map or a list
    if kind == "BS":
        return sum(map(len, value))
    return 1


def _number_size(number: str) -> int:
    """An upper bound: DynamoDB counts a byte per two digits, one more, and one for a sign, but no trailing zeros."""
    return 1 + (len(number.lstrip("-")) + 1) // 2 + number.startswith("-")
