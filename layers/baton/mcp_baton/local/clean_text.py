"""Safe printing. Texts of servers, tools and files may contain characters that control the terminal or hide text."""

import json
import sys
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import IO, Any, Final, override

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories: control characters (C0, DEL, C1), format characters (bidi overrides, zero-width characters),
lone surrogates, and line and paragraph separators."""


@lru_cache(maxsize=4096)
def _is_unsafe(character: str) -> bool:
    return unicodedata.category(character) in UNSAFE and character not in "\n\t"


def cleaned(text: str) -> str:
    """Return a text for a terminal: unsafe characters become U+FFFD. Line breaks and tabs stay."""
    return "".join("\ufffd" if _is_unsafe(character) else character for character in text)


def escaped(document: str) -> str:
    """Return a JSON document with unsafe characters in its strings as `\\u…`."""
    return "".join(json.dumps(character)[1:-1] if _is_unsafe(character) else character for character in document)


def print_json(value: Any) -> None:
    """Print one JSON document on the standard output. Unsafe characters are escaped."""
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    sys.stdout.write(escaped(json.dumps(value, indent=2, ensure_ascii=not utf8)) + "\n")


def echo(text: str, *, err: bool = False) -> None:
    """Print a cleaned line on the standard output, or on the standard error."""
    print(cleaned(text), file=sys.stderr if err else sys.stdout, flush=True)


class CleanConsole(Console):
    """A rich console that prints cleaned text, with its own control sequences (styles, cursor).

    Text is not read as markup or emoji codes, and not highlighted.
    """

    def __init__(self, *, file: IO[str] | None = None, stderr: bool = False, soft_wrap: bool = False) -> None:
        super().__init__(file=file, stderr=stderr, soft_wrap=soft_wrap, highlight=False, markup=False, emoji=False)

    @override
    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=cleaned(segment.text))
