"""Texts with `{name}` in them, and values in texts. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence

from mcp_baton.protocol.json import Json, dumps

_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")


_ANY_PLACEHOLDER = re.compile(r"\{[^{}]+\}")


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace each `{name}` that has a value."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text) if "{" in text else text


def fill_uri(uri: str, values: Mapping[str, str]) -> str:
    """`fill` for a URI: values are percent-encoded, so that no value changes the URI's structure (RFC 6570, 3.2.2).

    A value at the beginning of the URI is not encoded, because it contains the scheme.
    """
    return _PLACEHOLDER.sub(lambda match: _in_uri(match, values), uri)


def _in_uri(match: re.Match[str], values: Mapping[str, str]) -> str:
    name = match[1]
    if name not in values:
        return match[0]
    return values[name] if match.start() == 0 else encoded(values[name])


def encoded(text: str) -> str:
    """A text percent-encoded as one value in a URI: everything but RFC 3986's unreserved characters."""
    from urllib.parse import quote

    return quote(text, safe="", errors="replace")


def placeholders(text: str) -> frozenset[str]:
    """The names in braces in a text."""
    return frozenset(_PLACEHOLDER.findall(text))


def matches_template(template: str, text: str) -> bool:
    """Whether a text is the template with any text in place of each `{name}`. The time is linear, unlike that of a
    regular expression with several groups."""
    first, *rest = _ANY_PLACEHOLDER.split(template)
    if not rest:
        return text == first
    *middle, last = rest
    place, end = len(first), len(text) - len(last)
    if place > end or not (text.startswith(first) and text.endswith(last)):
        return False
    for part in middle:
        place = text.find(part, place, end)
        if place < 0:
            return False
        place += len(part)
    return True


def fill_json(value: Json, values: Mapping[str, str]) -> Json:
    """`fill` for every string inside a JSON value. The result shares nothing with `value`."""
    return _rebuild(value, lambda text: fill(text, values))


def copy_json(value: Json) -> Json:
    """A copy of a JSON value that shares no container with it: a tool may change its arguments."""
    return _rebuild(value, lambda text: text)


def _rebuild(value: Json, on_text: Callable[[str], str]) -> Json:
    if isinstance(value, str):
        return on_text(value)
    if isinstance(value, int):  # common, and faster than the check for a `Mapping`
        return value
    if isinstance(value, Mapping):
        return {key: _rebuild(item, on_text) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_rebuild(item, on_text) for item in value]
    return value


def as_text(value: Json) -> str:
    """A value in a text or a URI: a string as it is, everything else as JSON."""
    if isinstance(value, str):
        return value
    if type(value) is int:  # the most common of the other types; its text is the same in JSON
        return str(value)
    return dumps(value)
