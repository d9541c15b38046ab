"""What is wrong with an author's server, as a terminal shows it: what and where, then what to write instead."""

import ast
import inspect
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import mcp_baton
from mcp_baton.exceptions import RegistrationError, SettingsError
from mcp_baton.local.log import PACKAGE, is_own

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
    """A line of the author's.

    Attributes:
        file: Its file.
        line: Its number, from 1 on.
    """

    file: Path
    line: int

    def __str__(self) -> str:
        """`FILE:LINE`, from the working directory on where the file is in it."""
        here = Path.cwd()
        file = self.file.relative_to(here) if self.file.is_relative_to(here) else self.file
        return f"{file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        problem: What is wrong; names the tool, workflow, step or setting.
        remedy: What to write instead; empty where nothing is known.
        site: The definition's line, where it is known.
    """

    problem: str
    remedy: str
    site: Site | None = None

    @classmethod
    def of(cls, text: str, site: Site | None = None) -> "Fault":
        """A fault in the form that Baton's errors have: `what: cause; remedy`."""
        problem, remedy = _divided(text)
        return cls(problem, remedy, site)

    def __str__(self) -> str:
        """Two lines: what and where, and the remedy."""
        first = f"{self.site}: {self.problem}" if self.site else self.problem
        return f"{first}\n  {self.remedy}" if self.remedy else first


def fault_of(error: BaseException, site: Site | None = None) -> Fault | None:
    """What an exception says of the author's code; `None` of one that is not about how Baton is used.

    Args:
        error: What was raised while a file was loaded, or its server was checked.
        site: Where the mistake is; the author's own line that ran last unless given.
    """
    if isinstance(error, RegistrationError | SettingsError):
        return Fault.of(str(error), site or _last_own_line(error))
    text = wrong_call(error)
    return None if text is None else Fault.of(text, site or _last_own_line(error))


def wrong_call(error: BaseException) -> str | None:
    """What is wrong with a call of something of Baton's that Python itself refused; `None` of any other exception."""
    said = _CALL.fullmatch(str(error)) if isinstance(error, TypeError) else None
    if said is None or said["of"] not in mcp_baton.__all__:
        return None
    called = said["of"] if said["method"] in (None, "__init__") else f"{said['of']}.{said['method']}"
    cause, _, meant = said["cause"].partition(". Did you mean ")
    if meant:
        return f"{called}: {cause}; did you mean {meant}"
    example = EXAMPLES.get(called)
    return f"{called}: {cause}" + (f"; write {example}" if example else "")


def _last_own_line(error: BaseException) -> Site | None:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_own(frame.filename)]
    return Site(Path(frames[-1].filename), frames[-1].lineno or 1) if frames else None


def _divided(text: str) -> tuple[str, str]:
    """A text at the `; ` before its remedy: the last one that stands in no quotes and no parentheses."""
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


OTHERS: Final = tuple({str(PACKAGE), *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))})
"""Where files are that are surely not the author's."""


def function_site(function: object) -> Site | None:
    """Where a function, or what is wrapped in it, begins: its first decorator."""
    if not callable(function):
        return None
    inner = getattr(inspect.unwrap(function), "func", function)
    code = getattr(inspect.unwrap(inner), "__code__", None)
    return None if code is None else Site(Path(code.co_filename), code.co_firstlineno)


def workflow_site(folder: Path, workflow: str, step: str | None = None) -> Site | None:
    """Where a workflow's step is made, else the workflow; `None` where no one call surely does.

    Args:
        folder: Where the author's files are: of the modules that were loaded, those in it are read.
        workflow: The workflow's name.
        step: The step's.
    """
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
    """Whether a call makes something of this kind under this name."""
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)
    named = [keyword.value for keyword in call.keywords if keyword.arg == "name"] + call.args[:1]
    return called == kind and any(isinstance(node, ast.Constant) and node.value == name for node in named)


def _files(folder: Path) -> Iterator[Path]:
    seen = set[str]()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or file in seen or file.startswith(OTHERS) or not file.endswith(".py"):
            continue
        seen.add(file)
        path = Path(file).resolve()
        if path.is_relative_to(folder):
            yield path


def _calls(file: Path) -> list[ast.Call]:
    return _read(file, file.stat().st_mtime_ns)


@cache
def _read(file: Path, _changed_ns: int) -> list[ast.Call]:
    tree = ast.parse(file.read_bytes())
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
