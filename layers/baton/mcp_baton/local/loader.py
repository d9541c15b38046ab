"""Finding the object to serve in any Python file (README.md, Test locally)."""

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType, TracebackType

from mcp_baton.exceptions import BatonError, RegistrationError

PACKAGE = Path(__file__).parents[1]


class LoadError(BatonError):
    """A file that cannot be served; says why, and what to do about it."""


def split_target(target: str) -> tuple[Path, str | None]:
    """`PATH[:ATTR]` as path and attribute. A colon belongs to the path where such a file exists, or where what
    follows it is no Python name (`C:\\app.py`)."""
    head, _, tail = target.rpartition(":")
    if head and tail.isidentifier() and not Path(target).exists():
        return Path(head), tail
    return Path(target), None


def load[Kind](target: str, kind: type[Kind]) -> Kind:
    """Import the file and take the object of this kind out of it.

    Args:
        target: `PATH` for the only such object among the module's names, `PATH:ATTR` for the one of that name.
        kind: What the object must be an instance of.

    Raises:
        LoadError: there is no such file, it cannot be imported, or it does not hold one object to take.
    """
    path, attribute = split_target(target)
    if not path.is_file():
        raise LoadError(f"{path} is a directory: name a Python file" if path.is_dir() else f"no such file: {path}")
    module = _import(path.resolve())
    return _only(module, path, kind) if attribute is None else _named(module, path, attribute, kind)


def _import(path: Path) -> ModuleType:
    name = path.stem
    if name in sys.modules:
        raise LoadError(f"{path.name} has the name of the module {name!r}, which is loaded already: rename the file")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LoadError(f"{path.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except RegistrationError as error:
        del sys.modules[name]
        raise LoadError(f"{_place(error, path)} cannot be served:\n{error}") from error
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise LoadError(f"{path.name} cannot be imported:\n{_report(error, path)}") from error
    return module


def _place(error: BaseException, path: Path) -> str:
    """The author's own line that ran last, as `FILE, line N,`: what comes after it is Baton's."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_batons(frame.filename)]
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}," if frames else path.name


def _is_batons(file: str) -> bool:
    return file.startswith("<frozen") or Path(file).is_relative_to(PACKAGE)


def _report(error: BaseException, path: Path) -> str:
    """The traceback from the file's own first line on."""
    frames: TracebackType | None = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != str(path):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()


def _named[Kind](module: ModuleType, path: Path, attribute: str, kind: type[Kind]) -> Kind:
    if not hasattr(module, attribute):
        raise LoadError(f"{path.name} has no {attribute!r}. {_offer(module, path, kind)}")
    found = getattr(module, attribute)
    if not isinstance(found, kind):
        raise LoadError(
            f"{attribute!r} in {path.name} is of type {type(found).__name__}, not {kind.__name__}. "
            f"{_offer(module, path, kind)}"
        )
    return found


def _only[Kind](module: ModuleType, path: Path, kind: type[Kind]) -> Kind:
    found = {id(value): value for value in _candidates(module, kind).values()}
    if len(found) != 1:
        raise LoadError(_offer(module, path, kind))
    return next(iter(found.values()))


def _offer[Kind](module: ModuleType, path: Path, kind: type[Kind]) -> str:
    names = list(_candidates(module, kind))
    if not names:
        return f"{path.name} holds no {kind.__name__}: make one at the top level of the file"
    return f"{path.name} holds {', '.join(names)}: choose one, as in {path}:{names[0]}"


def _candidates[Kind](module: ModuleType, kind: type[Kind]) -> dict[str, Kind]:
    return {name: value for name, value in vars(module).items() if isinstance(value, kind)}
