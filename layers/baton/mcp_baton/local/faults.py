"""Faults of an author's server: the problem with its place, and the remedy."""

import inspect
import linecache
import re
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from msgspec import Struct

import mcp_baton
from mcp_baton.exceptions import RegistrationError, SettingsError
from mcp_baton.hints import did_you_mean
from mcp_baton.local.log import is_user_file
from mcp_baton.workflow.definition import Workflow

EXAMPLES: Final = {
    "Approval": "Approval('refunds', message='Refund {amount} EUR?')",
    "Argument": "Argument('order_id', 'Which order', required=True)",
    "Ask": "Ask('Who borrows the book?')",
    "Callback": "Callback(bool, within=timedelta(days=3))",
    "Retry": "Retry(attempts=3)",
    "Server": "Server('shop')",
    "Server.completion": "@server.completion('refund_order', 'order_id')",
    "Server.resource": "@server.resource('docs://{topic}')",
    "ask_model": "ask_model('topic', 'What is it about?')",
    "ask_user": "ask_user('reader', 'Who borrows the book?')",
    "fetch": "fetch('policy', 'docs://policy')",
    "Step": "Step('fetch', tool=fetch_order, arguments={…})",
    "Workflow": "Workflow(name='refund_order', description='refund an order', steps=[…])",
    "step_output": "step_output('fetch', 'total')",
}
_CALL: Final = re.compile(
    r"(?P<of>[A-Za-z_]+)(?:\.(?P<method>\w+))?\(\) (?P<cause>(?:got|missing|takes) .*)", re.DOTALL
)
_UNKNOWN: Final = re.compile(r"got an unexpected keyword argument '(\w+)'")
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
        """Return the fault of an error message of Baton: `subject: cause; remedy`. A line in it becomes the site."""
        if (match := _PLACE.match(text)) is not None:
            text, site = match["label"] + text[match.end() :], Site(Path(match["file"]), int(match["line"]))
        problem, remedy = _split_remedy(text)
        return cls(problem, remedy, site)

    def __str__(self) -> str:
        """Return two lines: the place and the problem, and the remedy."""
        problem = f"{self.site}: {self.problem}" if self.site else self.problem
        return f"{problem}\n  {self.remedy}" if self.remedy else problem


def fault_of(error: BaseException, site: Site | None = None) -> Mistake | None:
    """Return the fault that an exception reports; `None` if it is not about the use of Baton."""
    if isinstance(error, RegistrationError | SettingsError):
        return Mistake.of(str(error), site or last_user_line(error))
    text = call_error_text(error)
    return None if text is None else Mistake.of(text, site or last_user_line(error))


def call_error_text(error: BaseException) -> str | None:
    """Return the problem with a call of Baton that Python rejected; `None` for other exceptions."""
    if not isinstance(error, TypeError):
        return None
    if (text := _struct_error_text(error)) is not None:
        return text
    match = _CALL.fullmatch(str(error))
    if match is None or match["of"] not in mcp_baton.__all__:
        return None
    callee = match["of"] if match["method"] in (None, "__init__") else f"{match['of']}.{match['method']}"
    cause, _, similar = match["cause"].partition(". Did you mean ")
    if similar:
        return f"{callee}: {cause}; did you mean {similar}"
    if (unknown := _UNKNOWN.fullmatch(cause)) is not None and match["method"] in (None, "__init__"):
        parameters = inspect.signature(getattr(mcp_baton, match["of"])).parameters
        return f"{callee}: {cause}{did_you_mean(unknown[1], parameters)}"
    example = EXAMPLES.get(callee)
    return f"{callee}: {cause}" + (f"; write {example}" if example else "")


def _struct_error_text(error: TypeError) -> str | None:
    """Return the problem with a call of a msgspec class of Baton. The error does not name the class; its line does."""
    site, text = last_user_line(error), str(error)
    line = "" if site is None else linecache.getline(str(site.file), site.line)
    argument = text.partition("'")[2].partition("'")[0]
    for name in mcp_baton.__all__:
        kind = getattr(mcp_baton, name)
        if not (isinstance(kind, type) and issubclass(kind, Struct) and re.search(rf"\b{name}\(", line)):
            continue
        fields, example = kind.__struct_fields__, f"; write {EXAMPLES.get(name, f'{name}(…)')}"
        if text.startswith("Missing required argument") and argument in fields:
            return f"{name}: the argument {argument!r} is missing{example}"
        if text.startswith("Unexpected keyword argument") and argument not in fields:
            return f"{name}: got an unexpected keyword argument {argument!r}{did_you_mean(argument, fields)}"
        if text == "Extra positional arguments provided":
            return f"{name}: got too many arguments by position, and it has {', '.join(fields)}{example}"
    return None


def last_user_line(error: BaseException) -> Site | None:
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
class SourceDefinitions:
    """A `DefinitionCollector`: what a file defines while it is loaded, with the lines of its workflows.

    `names` are refused tools, steps and workflows, and functions of such tools: a later error about one of these is not
    another mistake. `added` is what `add_workflow` was called with.
    """

    collects: bool = False
    faults: list[Mistake] = field(default_factory=list)
    names: list[object] = field(default_factory=list)
    workflows: list[Workflow] = field(default_factory=list)
    added: list[object] = field(default_factory=list)
    _lines: list[tuple[object, Site | None]] = field(default_factory=list)

    def record_error(self, error: RegistrationError, *things: object) -> None:
        if not self.collects:
            raise error
        self.faults.append(Mistake.of(str(error), last_user_line(error) or _caller_line()))
        self.names += things

    def record_definition(self, thing: object) -> None:
        self._lines.append((thing, _caller_line()))
        if isinstance(thing, Workflow):
            self.workflows.append(thing)

    def record_published(self, workflow: object) -> None:
        self.added.append(workflow)

    def site(self, workflow: str, step: str | None = None) -> Site | None:
        """Return the author's line that makes a step, or else the workflow."""
        definition = next((item for item in self.workflows if item.name == workflow), None)
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
