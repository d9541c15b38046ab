"""Mistakes in an author's server: the problem with its place, and the remedy."""

import inspect
import re
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from mcp_baton.exceptions import RegistrationError, SettingsError
from mcp_baton.local.log import is_user_file, user_frames
from mcp_baton.workflow.definition import Workflow

_PLACE: Final = re.compile(r"(?P<label>workflow '[^']*': )(?P<file>\S[^\n]*?\.py):(?P<line>\d+):? ")
"""The author's line within an error of a workflow function."""


@dataclass(frozen=True, slots=True)
class Site:
    file: Path
    line: int

    def __str__(self) -> str:
        """Return `FILE:LINE`, relative to the working directory if the file is in it."""
        folder = Path.cwd()
        file = self.file.relative_to(folder) if self.file.is_relative_to(folder) else self.file
        return f"{file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Mistake:
    """An error or a suggestion. The remedy is empty if it is unknown."""

    problem: str
    remedy: str
    site: Site | None = None

    @classmethod
    def of(cls, text: str, site: Site | None = None) -> "Mistake":
        """Return the mistake of an error message of Baton: `subject: cause; remedy`. A line in it becomes the site."""
        if (match := _PLACE.match(text)) is not None:
            text, site = match["label"] + text[match.end() :], Site(Path(match["file"]), int(match["line"]))
        problem, remedy = _split_remedy(text)
        return cls(problem, remedy, site)

    @classmethod
    def of_error(cls, error: BaseException, file: str, site: Site | None = None) -> "Mistake":
        """Return the mistake because of which a file cannot be imported."""
        site = site or _last_user_line(error)
        if isinstance(error, RegistrationError | SettingsError):
            return cls.of(str(error), site)
        if isinstance(error, SyntaxError) and error.filename:
            # The error names the line, which is in no frame.
            return cls(f"{type(error).__name__}: {error.msg}", "", Site(Path(error.filename), error.lineno or 1))
        return cls(f"{file} cannot be imported:\n{user_frames(error, remedy='')}", "", site)

    def __str__(self) -> str:
        """Return the place and the problem, and on another line the remedy."""
        problem = f"{self.site}: {self.problem}" if self.site else self.problem
        return f"{problem}\n  {self.remedy}" if self.remedy else problem


def _last_user_line(error: BaseException) -> Site | None:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_user_file(frame.filename)]
    return Site(Path(frames[-1].filename), frames[-1].lineno or 1) if frames else None


def _split_remedy(text: str) -> tuple[str, str]:
    """Split a text at the `; ` before its remedy: the last one outside of quotes and parentheses."""
    quote, depth, place = "", 0, -1
    for index, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'" and (index == 0 or not text[index - 1].isalnum()):
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif depth <= 0 and text.startswith("; ", index):
            place = index
    return (text, "") if place < 0 else (text[:place], text[place + 2 :])


def function_site(function: object) -> Site | None:
    """Return the first line of a function, or of the function that it wraps, decorators included."""
    if not callable(function):
        return None
    inner = getattr(inspect.unwrap(function), "func", function)
    code = getattr(inspect.unwrap(inner), "__code__", None)
    return None if code is None else Site(Path(code.co_filename), code.co_firstlineno)


@dataclass
class DefinitionLines:
    """The author's lines that make workflows and steps."""

    _lines: list[tuple[object, Site | None]] = field(default_factory=list)

    def note(self, thing: object) -> None:
        self._lines.append((thing, _caller_line()))

    def site(self, workflow: str, step: str | None = None) -> Site | None:
        """Return the author's line that makes a step, or else the workflow."""
        made = (thing for thing, _ in self._lines if isinstance(thing, Workflow))
        definition = next((item for item in made if item.name == workflow), None)
        steps = [item for item in definition.steps if item.name == step] if definition else []
        lines = (line for thing in (*steps[-1:], definition) for known, line in self._lines if known is thing and line)
        return next(lines, None)


def _caller_line() -> Site | None:
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to the caller's line
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            return Site(Path(frame.f_code.co_filename), frame.f_lineno)
        frame = frame.f_back
    return None
