"""Where a tool, a workflow or a step is defined: a function's own line, or the call in the author's files that has its
name. Files are read when something is wrong, and not before."""

import ast
import inspect
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from mcp_baton.local.checks.faults import Site
from mcp_baton.local.report.frames import PACKAGE

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
