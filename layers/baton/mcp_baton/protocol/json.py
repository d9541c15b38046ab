"""JSON values: their type, and the one way Baton writes and reads them."""

import json
from collections.abc import Mapping, Sequence

type Json = str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None
type JsonObject = Mapping[str, Json]


def dumps(value: object) -> str:
    """Compact JSON text. Unicode stays readable, except lone surrogates, which UTF-8 cannot carry.

    Raises:
        ValueError: the value holds `NaN` or an infinity, which JSON has no word for, or is nested too deep.
        TypeError: the value holds something that is not JSON.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except RecursionError as error:
        raise ValueError("nested too deep for JSON") from error
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text


def dumps_spaced(value: object) -> str:
    """JSON text as a person writes it, with a space after each comma and colon; for texts that models and people read.

    Raises:
        TypeError, ValueError: as `dumps`.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def loads(text: str | bytes) -> Json:
    """The value of a JSON text.

    Raises:
        ValueError: the text is not JSON (RFC 8259; `NaN` and the infinities are not), or is nested too deep.
    """
    try:
        value: Json = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    return value


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
