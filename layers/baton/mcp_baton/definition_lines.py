"""What differs while a command loads an author's file: it notes the lines that make workflows and steps, and the check
of a server waits until the file is loaded, so that it can report all errors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_note: Callable[[object], None] | None = None


def is_loading() -> bool:
    """Whether a command loads a file. It checks the file's server afterwards."""
    return _note is not None


def note_definition(thing: object) -> None:
    """Note that the author's code has made a workflow or a step."""
    if _note is not None:
        _note(thing)


@contextmanager
def loading(note: Callable[[object], None]) -> Iterator[None]:
    """Call `note` with each workflow and step that is made within the block."""
    global _note  # noqa: PLW0603 - definitions are made at import time, by code that nothing can be passed to
    outer, _note = _note, note
    try:
        yield
    finally:
        _note = outer
