"""Shortens arguments for people. Each long value is shortened by itself, so no value can hide another. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.tools.templates import as_text

MAX_ARGUMENTS_CHARS: Final = 8_192
"""Characters of JSON up to which arguments are shown whole."""

MIN_ARGUMENT_CHARS: Final = 1_000
"""Characters of an argument that are shown at least, even if others are long."""

MANY_ARGUMENTS: Final = 100
"""With more arguments, less is shown of each long one: an item of DynamoDB has up to 400 KB."""

MIN_PART_CHARS: Final = 40
"""Characters that are shown at least of a part of an object or a list. If there are too many parts for that, only the
beginning of the JSON is shown."""

MIN_OBJECT_CHARS: Final = 2_000
"""Characters that the parts of an object may have at least, so that an object with many fields shows all of them."""


def shortened_arguments(arguments: JsonObject) -> dict[str, Json]:
    """Return arguments as people see them."""
    floor = min(MIN_ARGUMENT_CHARS, MIN_ARGUMENT_CHARS * MANY_ARGUMENTS // max(1, len(arguments)))
    lengths = [_length(value, MAX_ARGUMENTS_CHARS) for value in arguments.values()]
    limit = max(_fair_share(lengths, MAX_ARGUMENTS_CHARS), floor)
    return {name: shortened(value, limit) for name, value in arguments.items()}


def shortened(value: Json, limit: int) -> Json:
    """Return a value with about this many characters. What is cut off is counted in the text."""
    short_value = _shortened_part(value, limit, MIN_OBJECT_CHARS)
    most = 2 * MAX_ARGUMENTS_CHARS
    return short_value if _length(short_value, most) <= most else _cut(dumps(value), limit)


def _shortened_parts(value: Json, limit: int, floor: int) -> Json:
    """Return an object or a list with each part shortened by itself; `None` if it has too many parts.

    Args:
        floor: The least number of characters for the parts of an object. It is 0 inside lists, because clients choose
            how many elements they have.
    """
    if isinstance(value, Mapping):
        total = max(limit, floor) - sum(map(len, value))
        share = _fair_share([_length(item, total) for item in value.values()], total)
        return (
            {key: _shortened_part(item, share, floor) for key, item in value.items()}
            if share >= MIN_PART_CHARS
            else None
        )
    if isinstance(value, Sequence) and not isinstance(value, str):
        share = _fair_share([_length(item, limit) for item in value], limit)
        return [_shortened_part(item, share, 0) for item in value] if share >= MIN_PART_CHARS else None
    return None


def _shortened_part(value: Json, limit: int, floor: int) -> Json:
    if _length(value, limit) <= limit:
        return value
    if isinstance(value, str):
        return _cut(value, limit)
    parts = _shortened_parts(value, limit, floor)
    return _cut(dumps(value), limit) if parts is None else parts


def _fair_share(lengths: Sequence[int], total: int) -> int:
    """Return how long each value may be, so that all have this length together. Short ones leave more to others."""
    for index, length in enumerate(sorted(lengths)):
        count = len(lengths) - index
        if length * count > total:
            return max(0, total // count)
        total -= length
    return max(lengths, default=0)


def _length(value: Json, most: int) -> int:
    """Return the characters of a text, or of another value's JSON. If there are more than `most`, any number above it:
    making the JSON of each level takes quadratic time."""
    if isinstance(value, str):
        return len(value)
    length, rest = 0, [value]
    while rest and length <= most:
        item = rest.pop()
        if isinstance(item, Mapping):
            length += 2 * len(item) + 1 if item else 2
            rest += [*item, *item.values()] if length <= most else []
        elif isinstance(item, Sequence) and not isinstance(item, str):
            length += len(item) + 1 if item else 2
            rest += item if length <= most else []
        elif isinstance(item, str):
            length += len(item) if len(item) > most else len(dumps(item))
        else:
            length += len(as_text(item))
    return length


def _cut(text: str, limit: int) -> str:
    return f"{text[:limit]}… ({len(text) - limit} more characters)"
