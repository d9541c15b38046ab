"""What users' functions return, as JSON."""

import json
from typing import cast

from mcp_baton.protocol.json import MAX_LEVELS, Json, encoding, text_is_deeper_than

SMALL_BITS = 64
"""An integer of so many is JSON as it stands, in a few characters."""


def to_json(value: object) -> Json:
    """Any Python value as JSON: models and dataclasses dumped, tuples as lists; `NaN` and infinities become `null`.

    Raises:
        ValueError: something in it cannot be written as JSON.
    """
    kind = type(value)
    if kind is str or value is None or kind is bool or (kind is int and cast("int", value).bit_length() <= SMALL_BITS):
        return cast("Json", value)
    try:
        text = _encode(value)
        made: Json = _DECODER.raw_decode(text)[0]
    except Exception as error:
        # A value can bring code along, which may raise anything: a generator, a model's serializer.
        raise ValueError(f"the value is not JSON: {error}") from error
    if text_is_deeper_than(text, MAX_LEVELS, lambda: made):
        raise ValueError(f"the value is nested deeper than {MAX_LEVELS} levels")
    return made


def _dump_special(value: object) -> object:
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return to_jsonable_python(value)
    except PydanticSerializationError as error:
        raise TypeError(str(error)) from error


# `json.dumps` and `json.loads` would make one of these anew for each call.
_encode = encoding(json.JSONEncoder(default=_dump_special))
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)
