"""JSON values as DynamoDB attribute values, exactly, and what they weigh (contract section 7).

A DynamoDB number has 38 digits and no memory of `30.0`, a map has at most 32 levels and a string no lone surrogates.
A value is therefore kept as its JSON text: readable in the console (`S`), or compressed (`B`) where that is smaller.
Only `_workflow.progress` is a native map, because writes address the single statuses in it; the pause reason's text
has its keys sorted, because conditions compare it.
"""

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.json import Json, dumps, loads
from mcp_baton.tasks.record import PAUSE_REASON, PROGRESS

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef

type Attribute = AttributeValueTypeDef
"""One attribute value in DynamoDB's own notation, such as `{"S": "text"}`."""

type Item = dict[str, Attribute]
"""A whole item: attribute values by name."""

COLLECTION_BYTES = 3
ELEMENT_BYTES = 1
MAX_DIGITS = 38


def encode_variable(name: str, value: Json, compress_over: int) -> Attribute:
    """A task variable's value, in the form that its name asks for.

    Args:
        name: The variable's name.
        value: The value.
        compress_over: Texts of more bytes than this are compressed where that makes them smaller.

    Raises:
        StoreError: the value is not JSON.
    """
    try:
        if name == PROGRESS:
            return native(value)
        if name == PAUSE_REASON:
            return {"S": canonical(value)}
        return encode_text(dumps(value), compress_over)
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreError(f"the value of {name!r} cannot be stored: {error}") from error


def encode_text(text: str, compress_over: int) -> Attribute:
    """A JSON text, compressed above the threshold if that is smaller."""
    data = text.encode()
    if len(data) > compress_over:
        compressed = zlib.compress(data)
        if len(compressed) < len(data):
            return {"B": compressed}
    return {"S": text}


def decode(attribute: Attribute) -> Json:
    """The value that was encoded, in whichever form it is stored.

    Raises:
        StoreError: the attribute is not one that this module writes.
    """
    try:
        match attribute:
            case {"S": text}:
                return loads(text)
            case {"B": compressed}:
                return loads(zlib.decompress(compressed))
            case _:
                return from_native(attribute)
    except (ValueError, zlib.error) as error:
        raise StoreError(f"a stored value is damaged: {error}") from error


def canonical(value: Json) -> str:
    """JSON text that is the same for equal values: keys sorted at every level."""
    return dumps(json.loads(json.dumps(value, sort_keys=True, allow_nan=False)))


def native(value: Json) -> Attribute:
    """A value as DynamoDB's own maps, lists, strings and numbers.

    Raises:
        TypeError: the value holds a float, which a DynamoDB number would not give back as one.
        ValueError: an integer has more digits than a DynamoDB number.
    """
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": to_text(value)}
        case int():
            return {"N": _digits(value)}
        case Mapping():
            return {"M": {to_text(key): native(element) for key, element in value.items()}}
        case Sequence():
            return {"L": [native(element) for element in value]}
        case _:
            raise TypeError(f"{type(value).__name__} has no native form")


def from_native(attribute: Attribute) -> Json:
    """The value of a native attribute."""
    match attribute:
        case {"M": elements}:
            return {from_text(key): from_native(element) for key, element in elements.items()}
        case {"L": elements}:
            return [from_native(element) for element in elements]
        case {"S": text}:
            return from_text(text)
        case {"N": number}:
            return int(number)
        case {"BOOL": truth}:
            return truth
        case {"NULL": _}:
            return None
        case _:
            raise StoreError(f"an attribute of type {'/'.join(attribute)} is not a stored value")


def _digits(number: int) -> str:
    text = str(number)
    if len(text.lstrip("-")) > MAX_DIGITS:
        raise ValueError(f"{text} has more than {MAX_DIGITS} digits")
    return text


def to_text(text: str) -> str:
    """Any Python string as one that DynamoDB takes as a key, a map's key or a string.

    UTF-8 has no lone surrogates and a map no empty key: such a string is stored as its JSON text, which begins with a
    quotation mark; so is one that itself begins with a quotation mark, and every other string is stored as it is.
    """
    if text and not text.startswith('"') and not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    return json.dumps(text)


def from_text(stored: str) -> str:
    """The string that `to_text` was given."""
    return str(json.loads(stored)) if stored.startswith('"') else stored


def item_size(item: Mapping[str, Attribute]) -> int:
    """The bytes that DynamoDB counts for an item: its names and its values."""
    return sum(len(name.encode()) + size(attribute) for name, attribute in item.items())


def size(attribute: Attribute) -> int:
    """The bytes that DynamoDB counts for one attribute value."""
    match attribute:
        case {"S": text}:
            return len(text.encode())
        case {"B": bytes() as data}:
            return len(data)
        case {"N": number}:
            return _number_size(number)
        case {"M": elements}:
            return COLLECTION_BYTES + sum(ELEMENT_BYTES + len(k.encode()) + size(v) for k, v in elements.items())
        case {"L": elements}:
            return COLLECTION_BYTES + sum(ELEMENT_BYTES + size(element) for element in elements)
        case _:
            return 1


def _number_size(number: str) -> int:
    """At most: DynamoDB counts a byte for two significant digits, one more, one for a sign, and no trailing zeros."""
    return 1 + (len(number.lstrip("-")) + 1) // 2 + number.startswith("-")


class Variables(Mapping[str, Json]):
    """Task variables as they are stored: a value is decoded when it is asked for, each time anew.

    A continuation reads the progress and the pause reason of a task that may hold 400 KB of results, and many more
    elsewhere.

    Args:
        stored: The attributes, by stored name.
        value: The value of an attribute.
    """

    __slots__ = ("_stored", "_value")

    def __init__(self, stored: Mapping[str, Attribute], value: Callable[[Attribute], Json] = decode) -> None:
        self._stored = {from_text(name): attribute for name, attribute in stored.items()}
        self._value = value

    def __getitem__(self, name: str) -> Json:
        """The variable's value, exactly as it was stored.

        Raises:
            StoreError: it cannot be had.
        """
        return self._value(self._stored[name])

    def __iter__(self) -> Iterator[str]:
        """The variables' names."""
        return iter(self._stored)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._stored)

    def __contains__(self, name: object) -> bool:
        """Whether there is such a variable, without decoding it."""
        return name in self._stored

    def __repr__(self) -> str:
        # Of a value that is elsewhere, the pointer: nothing is fetched to be printed.
        return f"Variables({ {name: decode(attribute) for name, attribute in self._stored.items()}!r})"
