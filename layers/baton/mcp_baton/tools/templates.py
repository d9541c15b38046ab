"""Texts with `{name}` in them, and values in texts. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeGuard

from mcp_baton.protocol.json import Json, dumps

_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")


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
    """Whether a text is the template with any text in place of each `{name}`."""
    return _texts_in(template, text) is not None


def _texts_in(template: str, text: str) -> list[tuple[str, str]] | None:
    """Each name of a template with the text in its place; `None` if the text does not have the template's form. The
    time is linear, unlike that of a regular expression with several groups."""
    first, *rest = _PLACEHOLDER.split(template)
    if not rest:
        return [] if text == first else None
    names, (*middle, last) = rest[::2], rest[1::2]
    place, end = len(first), len(text) - len(last)
    if place > end or not (text.startswith(first) and text.endswith(last)):
        return None
    found: list[tuple[str, str]] = []
    for name, part in zip(names, middle, strict=False):
        next_place = text.find(part, place, end)
        if next_place < 0:
            return None
        found.append((name, text[place:next_place]))
        place = next_place + len(part)
    return [*found, (names[-1], text[place:end])]


def values_in_template(template: Json, value: Json) -> list[tuple[str, str]] | None:
    """Each name in a JSON value with `{name}` in its texts, with the text in its place; `None` if the value does not
    have the template's form."""
    if isinstance(template, str) and isinstance(value, str):
        return _texts_in(template, value)
    if isinstance(template, Mapping) and isinstance(value, Mapping) and template.keys() == value.keys():
        pairs = [(template[key], value[key]) for key in template]
    elif _is_list(template) and _is_list(value) and len(template) == len(value):
        pairs = list(zip(template, value, strict=True))
    else:
        return [] if template == value else None
    found: list[tuple[str, str]] = []
    for pair in pairs:
        texts = values_in_template(*pair)
        if texts is None:
            return None
        found += texts
    return found


def _is_list(value: Json) -> TypeGuard[Sequence[Json]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


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
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [_rebuild(item, on_text) for item in value]
    return value


def as_text(value: Json) -> str:
    """A value in a text or a URI: a string as it is, everything else as JSON."""
    if isinstance(value, str):
        return value
    if type(value) is int:  # the most common of the other types; its text is the same in JSON
        return str(value)
    return dumps(value)
