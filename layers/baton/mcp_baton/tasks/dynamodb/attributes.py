"""JSON values as DynamoDB attribute values, exactly (docs/storage.md).

DynamoDB's own types lose information: a number has 38 digits and no difference between 30 and 30.0, a map has at most
32 levels, and a string no lone surrogates. Therefore results and variables are stored as JSON text: readable in the
console (`S`), or compressed (`B`) if that is smaller.

Progress, pause reason and prompt arguments are native maps, because writes address single statuses, and operators
search the rest. In them, a value without an exact native form is a string set (`SS`) with one member, its JSON text.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mcp_baton.exceptions import StoreError, ValueNotKept
from mcp_baton.protocol.json import Json, JsonObject, dumps, json_size, loads
from mcp_baton.tasks.record import PAUSE_REASONS, PROGRESS
from mcp_baton.tasks.texts import from_text, to_text, unzipped, zipped, zipped_length

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef

type Attribute = AttributeValueTypeDef
"""One attribute value in DynamoDB's own notation, such as `{"S": "text"}`."""

type Item = dict[str, Attribute]
"""A whole item: attribute values by name."""

type Value = str | int | Attribute
"""What `attribute` makes an attribute of. A boolean is an `int`."""

type Zips = Callable[[bytes], bytes]
"""Compresses a text, or returns it unchanged."""

POINTER: Final = "V"
"""The first letter of a pointer to a value outside the item. No JSON text begins with it."""

LIST: Final = "E"
"""The first letter of the record of a list's results. No JSON text begins with it."""

NOT_KEPT: Final = "L"
"""The first letter of the mark `L,<bytes>,<cause>` for a value that was not stored. No JSON text begins with it."""

NATIVE: Final = frozenset({PROGRESS, PAUSE_REASONS})

MAX_NUMBER_DIGITS = 38
MAX_NATIVE_LEVELS = 16
"""Levels of maps and lists in a native value. DynamoDB accepts 32, including those that the item adds."""


def attribute(value: Value) -> Attribute:
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, bool):
        return {"BOOL": value}
    return {"N": str(value)} if isinstance(value, int) else value


def attributes(**values: Value | None) -> Item:
    """The attributes of an item. Values that are `None` are left out."""
    return {name: attribute(value) for name, value in values.items() if value is not None}


def primary_key(partition: str, sort: str) -> Item:
    return {"pk": {"S": partition}, "sk": {"S": sort}}


def encode_variable(name: str, value: Json, compress_over: int, zips: Zips = zipped) -> Attribute:
    """Encode a task variable, in the form that its name requires. Raises `StoreError` if the value is not JSON. Texts
    longer than `compress_over` bytes are compressed if that makes them smaller."""
    try:
        return native(value) if name in NATIVE else encode_text(dumps(value), compress_over, zips)
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreError(f"the value of {name!r} cannot be stored: {error}") from error


def encode_variables(values: JsonObject, compress_over: int, zips: Zips = zipped) -> dict[str, Attribute]:
    """Encode task variables with `encode_variable`, by their stored names."""
    return {to_text(name): encode_variable(name, value, compress_over, zips) for name, value in values.items()}


def encode_arguments(arguments: JsonObject, compress_over: int) -> Attribute:
    """Encode prompt arguments: as a native map for the console, or as JSON text if it is long enough to be
    compressed."""
    text = encode_json("the arguments", arguments, compress_over)
    return text if "B" in text else native(arguments)


def encode_json(description: str, value: Json, compress_over: int) -> Attribute:
    """Encode a value as JSON text. Raises `StoreError`, whose text begins with the description of the value."""
    try:
        return encode_text(dumps(value), compress_over)
    except (ValueError, TypeError) as error:
        raise StoreError(f"{description} cannot be stored: {error}") from error


def encode_text(text: str, compress_over: int, zips: Zips = zipped) -> Attribute:
    """Encode a JSON text, compressed if it is longer than the threshold and that makes it smaller."""
    data = text.encode()
    if len(data) > compress_over:
        compressed = zips(data)
        if len(compressed) < len(data):
            return {"B": compressed}
    return {"S": text}


def decode(attribute: Attribute) -> Json:
    """The encoded value, in any of its forms.

    Raises:
        ValueLost: the compressed text is damaged, or the value was not stored (`ValueNotKept`).
        ValueTooLarge: its text is longer than is read.
        StoreError: the attribute was not written by this module.
    """
    try:
        return loads(text_in(attribute)) if "S" in attribute or "B" in attribute else from_native(attribute)
    except ValueError as error:
        raise StoreError(f"a stored value is damaged: {error}") from error


def text_in(attribute: Attribute) -> str:
    """The JSON text of an encoded value. Raises as `decode`."""
    try:
        match attribute:
            case {"S": text}:
                if text.startswith(NOT_KEPT):
                    _, size, cause = text.split(",", 2)
                    raise ValueNotKept(int(size), cause)
                return text
            case {"B": compressed}:
                return unzipped(bytes(compressed)).decode()
            case _:
                return dumps(from_native(attribute))
    except ValueError as error:
        raise StoreError(f"a stored value is damaged: {error}") from error


def not_kept(size: int, cause: str) -> Attribute:
    """The mark in place of a value of this many bytes as JSON that is not stored. The cause follows "result of N
    bytes"."""
    return {"S": f"{NOT_KEPT},{size},{cause}"}


def text_bytes(attribute: Attribute) -> int:
    """The length of the JSON text of an encoded value, bytes. Nothing is decompressed."""
    match attribute:
        case {"S": text}:
            return len(text) if text.isascii() else len(text.encode())
        case {"B": bytes() as compressed}:
            return zipped_length(compressed)
        case _:
            return json_size(from_native(attribute))


def native(value: Json, levels: int = MAX_NATIVE_LEVELS) -> Attribute:
    """A value as DynamoDB's own maps, lists, strings and numbers. Equal values have equal forms. Raises `TypeError` or
    `ValueError` if it is not JSON."""
    # Called for hundreds of values in a write. Comparing types is several times as fast as matching patterns.
    if isinstance(value, str):
        return {"S": to_text(value)}
    if isinstance(value, (dict, Mapping)) and levels:
        return {"M": {to_text(key): native(element, levels - 1) for key, element in value.items()}}
    if value is None:
        return {"NULL": True}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int) and abs(value) < 10**MAX_NUMBER_DIGITS:
        return {"N": str(value)}
    if isinstance(value, (list, Sequence)) and levels:
        return {"L": [native(element, levels - 1) for element in value]}
    return {"SS": [dumps(value, sort_keys=True)]}


def from_native(attribute: Mapping[str, Any]) -> Json:
    """The value of a native attribute. Raises `StoreError` if it is not one, `ValueError` if a text in it is
    damaged."""
    if len(attribute) == 1:
        [(kind, value)] = attribute.items()
        if kind == "S":
            return from_text(value)
        if kind == "M":
            return {from_text(key): from_native(element) for key, element in value.items()}
        if kind == "L":
            return [from_native(element) for element in value]
        if kind == "N":
            return int(value)
        if kind == "BOOL":
            return bool(value)
        if kind == "NULL":
            return None
        if kind == "SS" and len(value) == 1:
            return loads(value[0])
    raise StoreError(f"an attribute of type {'/'.join(attribute)} is not a stored value")
