"""JSON values as DynamoDB attribute values, exactly (docs/storage.md).

A DynamoDB number has 38 digits and no memory of `30.0`, a map has at most 32 levels and a string no lone surrogates.
Results and variables are therefore kept as their JSON texts: readable in the console (`S`), or zipped (`B`) where that
is smaller. Progress, pause reason and prompt arguments are native maps, because writes address the single statuses,
and because operators look for the rest; what has no exact native form stands in them as a set of one JSON text (`SS`),
which nothing else is.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from mcp_baton.exceptions import StoreError, ValueNotKept
from mcp_baton.protocol.json import Json, JsonObject, dumps, loads
from mcp_baton.tasks.record import PAUSE_REASON, PROGRESS
from mcp_baton.tasks.texts import MARK, from_text, to_text, unzipped, zipped, zipped_length

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef

type Attribute = AttributeValueTypeDef
"""One attribute value in DynamoDB's own notation, such as `{"S": "text"}`."""

type Item = dict[str, Attribute]
"""A whole item: attribute values by name."""

type Zips = Callable[[bytes], bytes]
"""Makes a gzip stream of a text, or gives the text back."""

IN_ITEMS: Final = "V"
IN_BUCKET: Final = "S"
"""How a text begins that stands for a value outside the item: no JSON text does (`pointers`)."""

NOT_KEPT: Final = "L"
"""How the mark of a value begins that was not stored, `L,<bytes>,<cause>`: no JSON text does, so no value is mistaken
for it."""

NATIVE: Final = frozenset({PROGRESS, PAUSE_REASON})
"""Variables that are stored as native maps."""

MAX_DIGITS = 38
MAX_NATIVE_LEVELS = 16
"""Levels of maps and lists in a native value: DynamoDB takes 32, those that the item puts around it included."""


def encode_variable(name: str, value: Json, compress_over: int, zips: Zips = zipped) -> Attribute:
    """A task variable's value, in the form that its name asks for.

    Args:
        name: The variable's name.
        value: The value.
        compress_over: Texts of more bytes than this are compressed where that makes them smaller.
        zips: Compresses.

    Raises:
        StoreError: the value is not JSON.
    """
    try:
        if name in NATIVE:
            return native(value)
        return encode_text(dumps(value), compress_over, zips)
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreError(f"the value of {name!r} cannot be stored: {error}") from error


def encode_arguments(arguments: JsonObject, compress_over: int) -> Attribute:
    """Prompt arguments as a native map, for the console; as JSON text where they are long enough to be zipped.

    Raises:
        StoreError: they are not JSON.
    """
    if not _is_surely_short(arguments, compress_over):
        text = encode_object("arguments", arguments, compress_over)
        if "B" in text:
            return text
    return native(arguments)


def _is_surely_short(arguments: JsonObject, most: int) -> bool:
    """Whether arguments are texts whose JSON has no more bytes than this: in it a character has six at most."""
    longest = 2
    for name, value in arguments.items():
        if not isinstance(value, str):
            return False
        longest += 6 * (len(name) + len(value) + 1)
    return longest <= most


def encode_object(name: str, value: JsonObject, compress_over: int, zips: Zips = zipped) -> Attribute:
    """A JSON object as the attribute of this name.

    Raises:
        StoreError: the value is not JSON.
    """
    try:
        return encode_text(dumps(value), compress_over, zips)
    except (ValueError, TypeError) as error:
        raise StoreError(f"the task's {name} cannot be stored: {error}") from error


def encode_variables(values: JsonObject, compress_over: int, zips: Zips = zipped) -> dict[str, Attribute]:
    """Task variables, each as `encode_variable` has it, by the names under which they are stored.

    Raises:
        StoreError: a value is not JSON.
    """
    try:
        others = [value for name, value in values.items() if name not in NATIVE]
        texts = map(dumps, others)
        return {
            stored_text(name): native(value) if name in NATIVE else encode_text(next(texts), compress_over, zips)
            for name, value in values.items()
        }
    except (ValueError, TypeError, RecursionError):
        # One by one, to say which of them it is.
        return {to_text(name): encode_variable(name, value, compress_over, zips) for name, value in values.items()}


def encode_text(text: str, compress_over: int, zips: Zips = zipped) -> Attribute:
    """A JSON text, compressed above the threshold if that is smaller."""
    data = text.encode()
    if len(data) > compress_over:
        compressed = zips(data)
        if len(compressed) < len(data):
            return {"B": compressed}
    return {"S": text}


def decode(attribute: Attribute) -> Json:
    """The value that was encoded, in whichever form it is stored.

    Raises:
        ValueLost: it is zipped, and the zip is damaged; or it was not stored (`ValueNotKept`).
        ValueTooLarge: its text is longer than is read.
        StoreError: the attribute is not one that this module writes.
    """
    try:
        match attribute:
            case {"S": text}:
                check_kept(text)
                return loads(text)
            case {"B": compressed}:
                return loads(unzipped(bytes(compressed)))
            case _:
                return from_native(attribute)
    except ValueError as error:
        raise StoreError(f"a stored value is damaged: {error}") from error


def not_kept(size: int, cause: str) -> Attribute:
    """What is stored in the place of a value that is not stored.

    Args:
        size: The length of the value's JSON text, bytes.
        cause: Why it is not stored; follows "result of N bytes".
    """
    return {"S": f"{NOT_KEPT},{size},{cause}"}


def check_kept(text: str) -> None:
    """Make sure that a stored text is a value.

    Raises:
        ValueNotKept: it is the mark of one that was not stored.
    """
    if text.startswith(NOT_KEPT):
        _, size, cause = text.split(",", 2)
        raise ValueNotKept(int(size), cause)


def text_bytes(attribute: Attribute) -> int:
    """The length of the JSON text behind an encoded value, bytes. Nothing is unzipped for it."""
    match attribute:
        case {"S": text}:
            return len(text) if text.isascii() else len(text.encode())
        case {"B": bytes() as compressed}:
            return zipped_length(compressed)
        case _:
            return len(dumps(from_native(attribute)).encode())


def native(value: Json, levels: int = MAX_NATIVE_LEVELS) -> Attribute:
    """A value as DynamoDB's own maps, lists, strings and numbers. Equal values have equal forms.

    Raises:
        TypeError: the value holds something that is not JSON.
        ValueError: the value holds `NaN` or an infinity.
    """
    # Asked of each of hundreds of values in a write: comparing types is several times as fast as matching patterns.
    if type(value) is str:
        return {"S": value if _is_stored_so(value) else to_text(value)}
    if type(value) is dict and levels:
        return {
            "M": {
                key if _is_stored_so(key) else to_text(key): {"S": element}
                if type(element) is str and element.isascii() and element[:1] > MARK
                else native(element, levels - 1)
                for key, element in value.items()
            }
        }
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": to_text(value)}
        case int() if abs(value) < 10**MAX_DIGITS:
            return {"N": str(value)}
        case Mapping() if levels:
            return {"M": {to_text(key): native(element, levels - 1) for key, element in value.items()}}
        case Sequence() if levels:
            return {"L": [native(element, levels - 1) for element in value]}
        case _:
            return {"SS": [dumps(value, sort_keys=True)]}


def _is_stored_so(text: str) -> bool:
    return text.isascii() and text[:1] > MARK


def stored_text(text: str) -> str:
    """`to_text`, at once for most texts."""
    return text if _is_stored_so(text) else to_text(text)


def texts_by_name(texts: Mapping[str, str]) -> dict[str, Attribute]:
    """Texts as the elements of a map, by the names under which they are stored."""
    return {stored_text(name): {"S": text} for name, text in texts.items()}


def from_native(attribute: Attribute) -> Json:
    """The value of a native attribute.

    Raises:
        StoreError: it is not one.
        ValueError: a text in it is damaged.
    """
    if len(attribute) == 1:
        # As above: a task's progress has hundreds of values, and is read several times a request.
        [(kind, value)] = cast("Iterable[tuple[str, Any]]", attribute.items())
        if kind == "S":
            return from_text(value) if value.startswith(MARK) else value
        if kind == "M":
            return {
                from_text(key) if key.startswith(MARK) else key: text
                if len(element) == 1 and (text := element.get("S")) is not None and not text.startswith(MARK)
                else from_native(element)
                for key, element in value.items()
            }
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
