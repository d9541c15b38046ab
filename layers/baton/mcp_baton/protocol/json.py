"""JSON values: their type, and how Baton reads and writes them, and makes them of values of Python."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

type Json = str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None
type JsonObject = Mapping[str, Json]

MAX_DEPTH = 64
"""The deepest nesting of what others send: bodies, callbacks, events and arguments (docs/http.md)."""

MAX_LEVELS = 200
"""The deepest nesting of a value that a function returns. Python copies a value with two frames for each level
(`copy.deepcopy`), of at most 1000, and pydantic dumps at most 255 levels."""


class TooDeep(ValueError):
    """A JSON text is nested too deep."""


def dumps(value: object, *, sort_keys: bool = False) -> str:
    """Return compact JSON. Unicode stays readable; lone surrogates, which UTF-8 cannot encode, are escaped.

    With sorted keys, equal objects have equal texts.

    Raises:
        ValueError: the value contains `NaN` or an infinity, or is nested too deep.
        TypeError: the value contains something that is not JSON.
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
        return text.encode(errors="backslashreplace").decode()
    return text


def escaped(text: str) -> str:
    """Escape a text for the inside of a JSON string. The text can be escaped in pieces."""
    return dumps(text)[1:-1]


def dumps_spaced(value: object) -> str:
    """Return JSON with a space after each comma and colon, for texts that models and people read."""
    return _spaced(value)


def loads(text: str | bytes, levels: int | None = None) -> Json:
    """Return the value of a JSON text, in which lists and objects are nested up to `levels` deep. Raises `ValueError`
    if the text is not JSON (RFC 8259, so `NaN` and infinities are invalid), is nested too deep (`TooDeep`), or contains
    a number that is too large for a float."""
    if not isinstance(text, str):
        text = text.decode()
    try:
        value: Json
        end = -1
        if not text.startswith(_BLANKS):
            value, end = _STRICT.raw_decode(text)
        if end != len(text):
            value = _STRICT.decode(text)  # accepts blanks around the value, and explains other errors
    except RecursionError as error:
        raise TooDeep("nested too deep") from error
    except ValueError as error:
        if str(error).startswith("Exceeds the limit"):  # Python names a setting of its own as the remedy
            raise ValueError("a number has too many digits") from None
        raise
    if levels is not None and text_is_deeper_than(text, levels, lambda: value):
        raise TooDeep(f"nested deeper than {levels} levels")
    return value


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _parse_float(text: str) -> float:
    # Python reads 1e999 as infinity, which JSON cannot represent.
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large for a number")
    return number


# `json.dumps` and `json.loads` create an encoder or decoder for each call that has options.
_compact = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_spaced = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_sorted = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True).encode
_STRICT = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_float)
_BLANKS = (" ", "\t", "\n", "\r")


def text_is_deeper_than(text: str, levels: int, read_value: Callable[[], Json]) -> bool:
    """Return whether a JSON text nests lists and objects deeper than `levels`.

    `read_value` returns the text's value. It is called only if the text has enough brackets.
    """
    return text.count("[") + text.count("{") > levels and is_deeper_than(read_value(), levels)


def json_size(value: Json) -> int:
    """The length of a value as JSON, bytes."""
    return len(dumps(value).encode())


def has_more_values_than(value: Json, limit: int) -> bool:
    """Return whether a value and the values inside it are more than `limit`. Not recursive."""
    count, layer = 1, [value]
    while layer and count <= limit:
        containers = [item for item in layer if isinstance(item, dict | list)]
        count += sum(map(len, containers))
        layer = [child for item in containers for child in (item.values() if isinstance(item, dict) else item)]
    return count > limit


def is_deeper_than(value: Json, levels: int) -> bool:
    """Return whether lists and objects are nested deeper than `levels`. Not recursive."""
    layer = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        children = (child for item in layer for child in (item.values() if isinstance(item, dict) else item))
        layer = [child for child in children if isinstance(child, dict | list)]
    return bool(layer)


SMALL_BITS = 64
"""Integers up to this size are short as JSON."""


def to_json(value: object, complete: Callable[[Json, object], Json] = lambda dumped, _: dumped) -> Json:
    """Convert any Python value to JSON; `NaN` and infinities become `null`. Raises `ValueError`.

    Args:
        complete: Gets the result and the value if the value has other objects in it than those of JSON.
    """
    kind = type(value)
    if kind is str or value is None or kind is bool or (kind is int and cast("int", value).bit_length() <= SMALL_BITS):
        return cast("Json", value)
    try:
        try:
            text, has_others = _encode_json(value), False
        except TypeError:
            text, has_others = _encode_any(value), True
        result: Json = _LENIENT.raw_decode(text)[0]
    except Exception as error:
        # Code of the value, such as a generator or a serializer, may raise anything.
        raise ValueError(f"the value is not JSON: {error}") from error
    if text_is_deeper_than(text, MAX_LEVELS, lambda: result):
        raise ValueError(f"the value is nested deeper than {MAX_LEVELS} levels")
    return complete(result, value) if has_others else result


def _dump_special(value: Any) -> object:
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    config = getattr(value, "model_config", None) or getattr(value, "__pydantic_config__", None)
    try:
        if isinstance(config, dict) and "serialize_by_alias" in config:
            return value.__pydantic_serializer__.to_python(value, mode="json")
        return to_jsonable_python(value)
    except PydanticSerializationError as error:
        raise TypeError(str(error)) from error


_encode_json = json.JSONEncoder().encode
_encode_any = json.JSONEncoder(default=_dump_special).encode
_LENIENT = json.JSONDecoder(parse_constant=lambda _: None)
