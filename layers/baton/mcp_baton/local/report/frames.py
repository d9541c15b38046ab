"""Tracebacks with the user's own frames: those of Baton, of installed packages and of Python are left out."""

import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parents[2]
NOTE: Final = "({} of Baton, of packages and of Python left out{})"
DEBUG: Final = "; --log-level debug shows all"
INSTALLED: Final = ("site-packages", "dist-packages")
STANDARD: Final = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))


def is_own(file: str) -> bool:
    """Whether a file is the user's: none of Baton's, of a package's or of Python's."""
    if file.startswith("<"):
        return False
    path = Path(file).resolve()
    if path.is_relative_to(PACKAGE) or any(part in INSTALLED for part in path.parts):
        return False
    return not any(path.is_relative_to(standard) for standard in STANDARD)


def own_frames(error: BaseException, remedy: str = DEBUG) -> str:
    """An exception and those that led to it, each with the user's frames; of one that has none, with its last frame.

    The last line says how many were left out, if any were.

    Args:
        error: The exception.
        remedy: What that line says of how to see them.
    """
    told = traceback.TracebackException.from_exception(error)
    left_out = sum(map(_cut, _all(told)))
    text = "".join(told.format()).rstrip()
    return f"{text}\n{NOTE.format(_frames(left_out), remedy)}" if left_out else text


def _all(told: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """An exception, its causes and the members of groups."""
    waiting = [told]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += filter(None, (one.__cause__, one.__context__, *(one.exceptions or ())))


def _cut(told: traceback.TracebackException) -> int:
    """Leave frames out; how many."""
    frames = list(told.stack)
    own = [frame for frame in frames if is_own(frame.filename)] or frames[-1:]
    told.stack = traceback.StackSummary.from_list(own)
    return len(frames) - len(own)


def _frames(count: int) -> str:
    return "1 frame" if count == 1 else f"{count} frames"
