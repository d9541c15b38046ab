"""Texts in a picture: about how wide they are, cut to fit, and escaped. Pure."""

import html
import re
from typing import Final

_NARROW: Final = frozenset(" ijlI.,:;'!|()[]{}ft")
_WIDE: Final = frozenset("mwMW@%←→…")
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no place for (section 2.2), not even escaped."""
_FULL_WIDTH_FROM: Final = 0x2E80
MONO: Final = 0.61
"""The width of a character in a font where all have the same, in its size."""


def flat(text: str) -> str:
    """A text on one line, of characters that XML allows."""
    return " ".join(_NOT_XML.sub("\ufffd", text).split())


def escaped(text: str) -> str:
    """A text as it stands in XML, in an element or an attribute."""
    return html.escape(flat(text))


def width(text: str, size: float, *, mono: bool = False) -> float:
    """About how wide a text is in a font of this size, rather too wide than too narrow."""
    return size * sum(_width(letter, mono) for letter in text)


def _width(letter: str, mono: bool) -> float:
    if ord(letter) >= _FULL_WIDTH_FROM:
        return 1.05
    if mono:
        return MONO
    if letter in _NARROW:
        return 0.36
    if letter in _WIDE:
        return 0.95
    return 0.72 if letter.isupper() else 0.58


def cut(text: str, size: float, most: float, *, mono: bool = False) -> str:
    """A text that is at most so wide; one that was cut ends with an ellipsis."""
    if width(text, size, mono=mono) <= most:
        return text
    while text and width(f"{text}…", size, mono=mono) > most:
        text = text[:-1]
    return f"{text.rstrip()}…"
