"""JSON values: their type, and the one way Baton writes and reads them."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

type Json = str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None
type JsonObject = Mapping[str, Json]

MAX_LEVELS = 500
"""Levels of nesting that a value made by a server's functions may have: what can be walked in Python's 1000 frames."""


class TooDeep(ValueError):
    """A JSON text that is nested too deep to be read."""


def dumps(value: object, *, sort_keys: bool = False) -> str:
    """Compact JSON text. Unicode stays readable, except lone surrogates, which UTF-8 cannot carry.

    Args:
        value: Anything that JSON has a word for.
        sort_keys: Write objects that are equal alike, whatever the order of their keys.

    Raises:
        ValueError: the value holds `NaN` or an infinity, which JSON has no word for, or is nested too deep.
        TypeError: the value holds something that is not JSON.
    """
    try:
        text = (_sorted if sort_keys else _compact)(value)
    except RecursionError as error:
        raise ValueError("nested too deep for JSON") from error
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Python writes what UTF-8 cannot carry as JSON escapes it; the rest of the text keeps its length.
        return text.encode(errors="backslashreplace").decode()
    return text


def escaped(text: str) -> str:
    """A text as it stands between the quotation marks of a JSON string; its pieces' are the pieces of the whole's."""
    return dumps(text)[1:-1]


def dumps_spaced(value: object) -> str:
    """JSON text as a person writes it, with a space after each comma and colon; for texts that models and people read.

    Raises:
        TypeError, ValueError: as `dumps`.
    """
    return _spaced(value)


def dumps_each(values: Iterable[object]) -> list[str]:
    """`dumps` of each of several values.

    Raises:
        TypeError, ValueError: as `dumps`, of the first that is not JSON.
    """
    return list(map(dumps, values))


def loads(text: str | bytes, levels: int | None = None) -> Json:
    """The value of a JSON text.

    Args:
        text: The text.
        levels: How many levels of lists and objects it may have; `None` for as many as can be read.

    Raises:
        ValueError: the text is not JSON (RFC 8259; `NaN` and the infinities are not), is nested too deep (`TooDeep`),
            or holds a number that is too large for a float.
    """
    if not isinstance(text, str):
        text = text.decode()
    try:
        value: Json
        end = -1
        if not text.startswith(_BLANKS):
            value, end = _STRICT.raw_decode(text)
        if end != len(text):
            value = _STRICT.decode(text)  # which takes blanks around the value, and says what else is there
    except RecursionError as error:
        raise TooDeep("nested too deep") from error
    if levels is not None and text_is_deeper_than(text, levels, lambda: value):
        raise TooDeep(f"nested deeper than {levels} levels")
    return value


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    # Python reads 1e999 as infinity, which could not be written again.
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large for a number")
    return number


def encoding(encoder: json.JSONEncoder) -> Callable[[object], str]:
    """`encoder.encode`, which makes another encoder for each value that it is given; this is one for all values.

    Args:
        encoder: Without indentation.
    """
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    strings = json.encoder.encode_basestring_ascii if encoder.ensure_ascii else json.encoder.encode_basestring
    separators = encoder.key_separator, encoder.item_separator
    # Without notes (`None`) of what it is inside of, by which a value is found that holds itself.
    pieces = make(None, encoder.default, strings, None, *separators, encoder.sort_keys, False, encoder.allow_nan)

    def encode(value: object) -> str:
        try:
            return "".join(pieces(value, 0))
        except RecursionError:
            return encoder.encode(value)  # which says whether it holds itself

    return encode


# `json.dumps` and `json.loads` make an encoder or a decoder anew for each call that is not of the plainest kind.
_compact = encoding(json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")))
_spaced = encoding(json.JSONEncoder(ensure_ascii=False, allow_nan=False))
_sorted = encoding(json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True))
_STRICT = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
_BLANKS = (" ", "\t", "\n", "\r")


def text_is_deeper_than(text: str, levels: int, read: Callable[[], Json]) -> bool:
    """Whether a JSON text nests lists and objects in more levels than these.

    Args:
        text: The text.
        levels: How many levels it may have.
        read: Gives the text's value. A text of few brackets cannot nest deep, which spares most texts the walk.
    """
    return text.count("[") + text.count("{") > levels and is_deeper_than(read(), levels)


def is_deeper_than(value: Json, levels: int) -> bool:
    """Whether lists and objects are nested in more levels than these. Does not recurse."""
    layer: list[Json] = [value] if _is_container(value) else []
    for _ in range(levels):
        layer = [child for item in layer for child in _children(item) if _is_container(child)]
        if not layer:
            return False
    return bool(layer)


def _is_container(value: Json) -> bool:
    return isinstance(value, dict | list)


def _children(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
