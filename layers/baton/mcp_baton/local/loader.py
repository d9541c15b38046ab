"""Load the object to serve from a Python file, or from a module by its name (docs/commands.md, Serve)."""

import importlib
import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

from mcp_baton.definition_lines import loading
from mcp_baton.exceptions import BatonError, WorkflowError
from mcp_baton.hints import closest
from mcp_baton.local.mistakes import DefinitionLines, Mistake

_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class LoadError(BatonError):
    """A file cannot be served. The message gives the reason and the remedy. `mistake` is that of the author's code."""

    def __init__(self, problem: str | Mistake) -> None:
        super().__init__(str(problem))
        self.mistake = problem if isinstance(problem, Mistake) else None


@dataclass(frozen=True, slots=True)
class TargetLocation:
    """The place of a target.

    `name` is the module's full name, `root` the folder to which it is relative. `path` is `None` for a module that is
    given by its name, `attribute` for the only object.
    """

    name: str
    root: Path
    path: Path | None
    attribute: str | None

    @property
    def file(self) -> Path | None:
        """The file that is imported by its path; `None` for a module that Python imports by its name."""
        return self.path if self.path is not None and self.root == self.path.resolve().parent else None

    @property
    def folder(self) -> Path:
        """The project's folder: the file's, or the one to which the module's name is relative."""
        return self.root if self.path is None else self.path.resolve().parent

    @property
    def label(self) -> str:
        return self.name if self.path is None else self.path.name


def split_target(target: str) -> tuple[Path, str | None]:
    """Split `PATH[:ATTR]`. A colon belongs to the path if such a file exists, or if no Python name follows it
    (`C:\\app.py`)."""
    head, _, tail = target.rpartition(":")
    if head and tail.isidentifier() and not Path(target).exists():
        return Path(head), tail
    return Path(target), None


def find(target: str) -> TargetLocation:
    """Return the place of a target: `PATH[:ATTR]`, or `package.module[:ATTR]` relative to the working directory."""
    path, attribute = split_target(target)
    if path.is_file():
        root, name = _in_package(path.resolve())
        return TargetLocation(name, root, path, attribute)
    module_name = str(path)
    if path.is_dir():
        raise LoadError(f"{path} is a directory: name a Python file")
    if module_name.endswith(".py") or not _MODULE.fullmatch(module_name):
        raise LoadError(f"no such file: {path}{_suggestion(path)}")
    return TargetLocation(module_name, Path.cwd(), None, attribute)


def load[Kind](target: str, kind: type[Kind], lines: DefinitionLines | None = None) -> Kind:
    """Import a file or module and return its only object of this kind, or the one that the target names.

    A server is not checked. `lines` gets the lines of workflows and steps.
    """
    location, lines = find(target), lines or DefinitionLines()
    with loading(lines.note):
        module = _import(location, lines)
    return _object(module, location, kind)


def _in_package(path: Path) -> tuple[Path, str]:
    """Return the folder to which a file's module name is relative, and the name. A file in a package is imported as
    part of it, so that relative imports work."""
    names, folder = [path.stem], path.parent
    while path.stem.isidentifier() and folder.name.isidentifier() and (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(names)


def _suggestion(path: Path) -> str:
    if path.with_name(f"{path.name}.py").is_file():
        return f"; did you mean {path}.py?"
    candidate = closest(path.stem, (file.stem for file in path.parent.glob("*.py")))
    return f"; did you mean {path.with_name(candidate)}.py?" if candidate else ""


def _import(location: TargetLocation, lines: DefinitionLines) -> ModuleType:
    importlib.invalidate_caches()
    if location.path is not None:
        # Also the file's folder, as Python does for a script, so that it can import its neighbours.
        _put_first(str(location.path.resolve().parent))
    _put_first(str(location.root))
    try:
        return _by_name(location) if location.file is None else _from_file(location.name, location.file)
    except LoadError:
        raise
    except (Exception, SystemExit) as error:
        site = lines.site(error.workflow, error.step) if isinstance(error, WorkflowError) else None
        sys.modules.pop(location.name, None)
        raise LoadError(Mistake.of_error(error, location.label, site)) from error


def _put_first(folder: str) -> None:
    if folder in sys.path:
        sys.path.remove(folder)
    sys.path.insert(0, folder)


def _from_file(name: str, path: Path) -> ModuleType:
    """Import a file, whose name need not be that of a module."""
    if name in sys.modules:
        raise LoadError(f"{path.name} has the name of the module {name!r}, which is already loaded: rename the file")
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise LoadError(f"{path.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _by_name(location: TargetLocation) -> ModuleType:
    try:
        module = importlib.import_module(location.name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{location.name}.".startswith(f"{error.name}."):
            raise  # the module imports a missing one
        raise LoadError(
            f"there is no module {error.name!r} in {location.root}: name a file, or a module there"
        ) from error
    file = getattr(module, "__file__", None)
    if location.path is not None and (file is None or Path(file).resolve() != location.path.resolve()):
        raise LoadError(f"{location.path} and {file} have the same module name, {location.name!r}: rename one of them")
    return module


def _object[Kind](module: ModuleType, location: TargetLocation, kind: type[Kind]) -> Kind:
    """Return the only object of a kind, or the one that the target names."""
    objects = {name: value for name, value in vars(module).items() if isinstance(value, kind)}
    attribute, label = location.attribute, location.label
    if attribute in objects:
        return objects[attribute]
    if attribute is None and len({id(value) for value in objects.values()}) == 1:
        return next(iter(objects.values()))
    kind_name, candidate = kind.__name__, closest(attribute, objects) if attribute else None
    problem = f"{label} holds no {kind_name}" if attribute is None else f"{label} has no {kind_name} {attribute!r}"
    if candidate:
        raise LoadError(Mistake(problem, f"did you mean {candidate!r}?"))
    if not objects:
        raise LoadError(Mistake(problem, "make one at the top level of the file"))
    target = location.name if location.path is None else location.path
    problem = problem if attribute else f"{label} holds {', '.join(objects)}"
    raise LoadError(Mistake(problem, f"choose one of {', '.join(objects)}, as in {target}:{next(iter(objects))}"))
