"""Quoting: values in an assistant's message are JSON on one line. Pure.

Models follow the assistant's messages. Text from a client, a tool or a resource is quoted there, so that it cannot pass
as an instruction of Baton.
"""

import json
import re
from collections.abc import Mapping, Sequence

from mcp_baton.protocol.json import Json, dumps_spaced
from mcp_baton.tools.templates import fill

MAX_QUOTED_CHARS = 500
"""Characters of JSON that a value may have in an assistant's message, and characters of an error that are shown."""

MIN_LONG_NUMBER = 10**18
"""A smaller number is never too long to be shown."""

# Control characters other than tabs and line feeds, other line breaks, characters that are invisible by default
# (Default_Ignorable_Code_Point), and marks of writing direction. JSON itself escapes only U+0000 to U+001F.
_HIDDEN = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f"
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_URI_MARKS = ":/?#[]@!$&'()*+,;=%~"


def one_line(value: Json) -> str:
    """A value as JSON on one line, with every control, format and separator character escaped."""
    return escaped(dumps_spaced(value))


def visible(value: Json) -> Json:
    """A value with these characters escaped in all its texts, for readers who see the texts as they are."""
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, Mapping):
        return {escaped(key): visible(item) for key, item in value.items()}
    return [visible(item) for item in value] if isinstance(value, Sequence) else value


def escaped(text: str) -> str:
    """A text with these characters escaped."""
    if text.isascii() and text.isprintable():
        return text
    return _HIDDEN.sub(lambda match: json.dumps(match[0])[1:-1], text)


def is_long(value: Json, limit: int = MAX_QUOTED_CHARS) -> bool:
    """Whether a value is too long to be shown."""
    if value is None or (isinstance(value, int) and abs(value) < MIN_LONG_NUMBER):
        return False
    if isinstance(value, str) and len(value) > limit:
        return True
    text = dumps_spaced(value)
    return len(text) > limit or len(escaped(text)) > limit


def quoted_error(text: str) -> str:
    """An error as JSON on one line, cut if it is long."""
    return one_line(text if len(text) <= MAX_QUOTED_CHARS else f"{text[:MAX_QUOTED_CHARS]} …")


def quoted_guidance(guidance: str, texts: Mapping[str, str]) -> str:
    """Guidance with each `{name}` replaced by the prompt argument as JSON, or by its placeholder if it is long."""
    return fill(guidance, {name: _quoted_argument(name, text) for name, text in texts.items()})


def _quoted_argument(name: str, text: str) -> str:
    return f"<prompt arg {name}>" if is_long(text) else one_line(text)


def encoded_uri(uri: str) -> str:
    """A URI with all characters percent-encoded that RFC 3986 (section 2) does not allow in one, such as spaces."""
    from urllib.parse import quote

    return quote(uri, safe=_URI_MARKS, errors="replace")
