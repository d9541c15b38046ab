"""Faults of an author's server: the problem with its place, and the remedy."""

import ast
import inspect
import re
import sys
import traceback
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import mcp_baton
from mcp_baton.exceptions import RegistrationError, SettingsError
from mcp_baton.local.log import is_own

EXAMPLES: Final = {
    "Argument": "Argument('order_id', 'Which order', required=True)",
    "Server": "Server('shop')",
    "Server.completion": "@server.completion('refund_order', 'order_id')",
    "Server.resource": "@server.resource('docs://{topic}')",
    "Step": "Step('fetch', tool=fetch_order, arguments={…})",
    "Workflow": "Workflow(name='refund_order', description='refund an order', steps=[…])",
    "step_output": "step_output('fetch', 'total')",
}
_CALL: Final = re.compile(
    r"(?P<of>[A-Za-z_]+)(?:\.(?P<method>\w+))?\(\) (?P<cause>(?:got|missing|takes) .*)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Site:
    file: Path
    line: int

    def __str__(self) -> str:
        """Return `FILE:LINE`, relative to the working directory if the file is in it."""
        here = Path.cwd()
        file = self.file.relative_to(here) if self.file.is_relative_to(here) else self.file
        return f"{file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Fault:
    """An error or a suggestion. The remedy is empty if it is unknown."""

    problem: str
    remedy: str
    site: Site | None = None

    @classmethod
    def of(cls, text: str, site: Site | None = None) -> "Fault":
        """Return the fault of an error message of Baton: `what: cause; remedy`."""
        problem, remedy = _divided(text)
        return cls(problem, remedy, site)

    def __str__(self) -> str:
        """Return two lines: the place and the problem, and the remedy."""
        first = f"{self.site}: {self.problem}" if self.site else self.problem
        return f"{first}\n  {self.remedy}" if self.remedy else first


def fault_of(error: BaseException, site: Site | None = None) -> Fault | None:
    """Return the fault that an exception reports; `None` if it is not about the use of Baton."""
    if isinstance(error, RegistrationError | SettingsError):
        return Fault.of(str(error), site or last_own_line(error))
    text = wrong_call(error)
    return None if text is None else Fault.of(text, site or last_own_line(error))


def wrong_call(error: BaseException) -> str | None:
    """Return the problem with a call of Baton that Python rejected; `None` for other exceptions."""
    said = _CALL.fullmatch(str(error)) if isinstance(error, TypeError) else None
    if said is None or said["of"] not in mcp_baton.__all__:
        return None
    called = said["of"] if said["method"] in (None, "__init__") else f"{said['of']}.{said['method']}"
    cause, _, meant = said["cause"].partition(". Did you mean ")
    if meant:
        return f"{called}: {cause}; did you mean {meant}"
    example = EXAMPLES.get(called)
    return f"{called}: {cause}" + (f"; write {example}" if example else "")


def last_own_line(error: BaseException) -> Site | None:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_own(frame.filename)]
    return Site(Path(frames[-1].filename), frames[-1].lineno or 1) if frames else None


def _divided(text: str) -> tuple[str, str]:
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


def workflow_site(folder: Path, workflow: str, step: str | None = None) -> Site | None:
    """Return the line that makes a step, or else the workflow; `None` if several calls may make it."""
    calls = [(file, call) for file in _files(folder) for call in _calls(file)]
    whole = [(file, call) for file, call in calls if _is(call, "Workflow", workflow)]
    if step is not None:
        inside = [
            (file, part)
            for file, call in whole
            for part in ast.walk(call)
            if isinstance(part, ast.Call) and _is(part, "Step", step)
        ]
        found = inside[-1:] or [(file, call) for file, call in calls if _is(call, "Step", step)]
        if len(found) == 1:
            return _site(*found[0])
    return _site(*whole[0]) if len(whole) == 1 else None


def _site(file: Path, call: ast.Call) -> Site:
    return Site(file, call.lineno)


def _is(call: ast.Call, kind: str, name: str) -> bool:
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)
    named = [keyword.value for keyword in call.keywords if keyword.arg == "name"] + call.args[:1]
    return called == kind and any(isinstance(node, ast.Constant) and node.value == name for node in named)


def _files(folder: Path) -> set[Path]:
    """Return the files of the loaded modules in a folder."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    own = (Path(file).resolve() for file in files if isinstance(file, str) and file.endswith(".py") and is_own(file))
    return {path for path in own if path.is_relative_to(folder)}


def _calls(file: Path) -> list[ast.Call]:
    return _read(file, file.stat().st_mtime_ns)


@cache
def _read(file: Path, _changed_ns: int) -> list[ast.Call]:
    tree = ast.parse(file.read_bytes())
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
