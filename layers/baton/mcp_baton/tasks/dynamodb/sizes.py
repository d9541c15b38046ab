"""What attribute values and items weigh, as DynamoDB counts it (docs/storage.md, Sizes). Pure."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from mcp_baton.protocol.json import dumps, encoding
from mcp_baton.tasks.dynamodb.attributes import Attribute, from_native
from mcp_baton.tasks.texts import zipped_length

COLLECTION_BYTES: Final = 3
ELEMENT_BYTES: Final = 1

SMALLEST_BYTES: Final = 300
"""A value of fewer stored bytes stays in the head. It can be fetched with nothing but the head, and the writes that
are expected may not all come."""


def some_large(values: Iterable[Attribute]) -> bool:
    """Whether a value is so large that it could be cheaper outside the head. Most writes have none."""
    return any(size(value) >= SMALLEST_BYTES for value in values)


def text_bytes(attribute: Attribute) -> int:
    """The length of the JSON text behind an encoded value, bytes. Nothing is unzipped for it."""
    match attribute:
        case {"S": _}:
            return size(attribute)
        case {"B": bytes() as compressed}:
            return zipped_length(compressed)
        case _:
            return len(dumps(from_native(attribute)).encode())


def item_size(item: Mapping[str, Attribute]) -> int:
    """The bytes that DynamoDB counts for an item: its names and its values."""
    total = 0
    for name, attribute in item.items():
        total += (len(name) if name.isascii() else len(name.encode())) + size(attribute)
    return total


def excess(item: Mapping[str, Attribute], limit: int) -> int:
    """By how many bytes an item is larger than a limit. Of one that clearly is not, some number that is not above 0:
    weighing a task's values one by one takes longer than anything else in a write."""
    over = at_most(item) - limit
    return over if over <= 0 else item_size(item) - limit


def at_most(*attributes: Mapping[str, Attribute]) -> int:
    """Bytes that DynamoDB counts for names and values at most: as JSON, which is written at once, they are longer."""
    return len(_as_json(attributes))


_as_json = encoding(json.JSONEncoder(separators=(",", ":"), default=bytes.hex))


def size(attribute: Attribute) -> int:
    """The bytes that DynamoDB counts for one attribute value."""
    # Asked of each of thousands of values in a write: comparing names is several times as fast as matching patterns.
    [(kind, value)] = cast("Iterable[tuple[str, Any]]", attribute.items())
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
        return COLLECTION_BYTES + sum(ELEMENT_BYTES + _utf8_bytes(text) for text in value)
    if kind == "BS":
        return COLLECTION_BYTES + sum(ELEMENT_BYTES + len(token) for token in value)
    return 1


def _utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _number_size(number: str) -> int:
    """At most: DynamoDB counts a byte for two significant digits, one more, one for a sign, and no trailing zeros."""
    return 1 + (len(number.lstrip("-")) + 1) // 2 + number.startswith("-")
