"""How much is shown: the one way to fit values and texts into a number of bytes (docs/storage.md, Budgets). Pure."""

from collections.abc import Callable, Iterable
from typing import Final

MAX_TEXT_BYTES: Final = 2_000
"""The longest text of a result, bytes of UTF-8."""

MAX_EVENT_BYTES: Final = 700
"""The longest text about what happened, bytes of UTF-8."""

MAX_RESULT_BYTES: Final = 2_000
"""The longest result in the structured content, bytes of JSON. A longer one is a resource."""

MAX_TOTAL_BYTES: Final = 40_000
"""The most bytes of JSON for all results: hosts cut results of more than about 25,000 tokens."""

MAX_UNSTORED_BYTES: Final = 200_000
"""The same for results that cannot be read as resources."""

MAX_NEXT_BYTES: Final = 20_000
"""The most bytes of JSON in `next`. Later results have the rest."""


def fit[T](pieces: Iterable[Iterable[T]], room: int, size: Callable[[T], int], *, in_order: bool = False) -> list[T]:
    """Choose what is shown of each piece: the first of its forms that fits into the bytes that are left, or nothing.
    Returns the chosen forms, in the order of their pieces.

    Args:
        pieces: What can be shown, the most important first. Each is given by its forms, the longest first.
        room: The bytes for all pieces.
        size: The bytes of a form.
        in_order: Whether nothing is shown after the first piece of which no form fits.
    """
    chosen: list[T] = []
    for forms in pieces:
        form = next((form for form in forms if size(form) <= room), None)
        if form is not None:
            room -= size(form)
            chosen.append(form)
        elif in_order:
            break
    return chosen


def bytes_of(text: str) -> int:
    return len(text.encode(errors="replace"))


def cut(text: str, limit: int = MAX_TEXT_BYTES) -> str:
    """The text, cut to this many bytes."""
    data = text.encode(errors="replace")
    return text if len(data) <= limit else f"{data[: limit - 4].decode(errors='ignore')} …"
