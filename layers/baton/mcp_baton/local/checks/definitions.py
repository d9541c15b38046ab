"""Where a tool, a workflow or a step is defined: a function's own line, or the call in the author's files that has its
name. Files are read when something is wrong, and not before."""

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from mcp_baton.local.checks.faults import Site


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
    seen = set[Path]()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        path = Path(file).resolve() if isinstance(file, str) else None
        if path is not None and path.suffix == ".py" and path.is_relative_to(folder) and path not in seen:
            seen.add(path)
            yield path


def _calls(file: Path) -> list[ast.Call]:
    return _read(file, file.stat().st_mtime_ns)


@cache
def _read(file: Path, _changed_ns: int) -> list[ast.Call]:
    tree = ast.parse(file.read_bytes())
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


type Find = Callable[[str, str | None], Site | None]
"""`find(workflow, step)`: where it is made."""
