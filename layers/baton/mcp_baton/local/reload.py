"""`--reload`: load changed files while the server runs (docs/commands.md, Serve).

The listening socket and the tasks stay. A running request ends with the code with which it began.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from mcp_baton.exceptions import BatonError, SettingsError
from mcp_baton.local.loader import LoadError
from mcp_baton.local.log import is_own

if TYPE_CHECKING:
    from mcp_baton.local.gateway import InvocationContext
    from mcp_baton.local.http_server import LambdaHandler

logger = logging.getLogger(__name__)

CHECK_MS: Final = 1_000
"""How often files are checked without a notification of the file system, milliseconds."""

GOES_ON: Final = "The server uses the old code until this is corrected."

type Stamp = tuple[int, int]
"""The time of a file's last change, nanoseconds since the epoch, and its length."""


class UserModules:
    """The modules of the user that are loaded after this object is made."""

    def __init__(self) -> None:
        self._before = frozenset(sys.modules)
        self._stamps: dict[Path, Stamp | None] = {}

    def files(self) -> dict[str, Path]:
        found = {}
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if name not in self._before and isinstance(file, str) and is_own(file):
                found[name] = Path(file)
        return found

    def take_out(self) -> dict[str, ModuleType]:
        return {name: sys.modules.pop(name) for name in self.files()}

    def put_back(self, modules: dict[str, ModuleType], since_ns: int) -> None:
        """Restore these modules in the place of those loaded since, and note the state of all their files."""
        tried = self.take_out()
        sys.modules.update(modules)
        files = (getattr(module, "__file__", None) for module in tried.values())
        self.mark(since_ns, *(Path(file) for file in files if file))

    def mark(self, since_ns: int, *others: Path) -> None:
        """Note the state of their files and of others.

        A file that changed after `since_ns`, the start of loading, counts as changed: it may have been read before.
        """
        stamps = {path: _stamp(path) for path in (*self.files().values(), *others)}
        self._stamps = {path: stamp if stamp and stamp[0] < since_ns else None for path, stamp in stamps.items()}

    def changed(self) -> list[Path]:
        return [path for path, stamp in self._stamps.items() if _stamp(path) != stamp]


class Served:
    """A handler that can be replaced."""

    def __init__(self, make: "Callable[[], LambdaHandler]", renewed: Callable[[], None] = lambda: None) -> None:
        self._make = make
        self._renewed = renewed
        self._modules = UserModules()
        began_ns = time.time_ns()
        self._handler = make()
        self._modules.mark(began_ns)
        self._failed = False

    def __call__(self, event: dict[str, Any], context: "InvocationContext") -> dict[str, Any]:
        return self._handler(event, context)

    def look(self, noticed: Collection[Path] = ()) -> bool:
        """Load the files again if one has changed. Return whether there is new code.

        Args:
            noticed: Files that have changed, loaded or not. Code that failed to load may need one of them.
        """
        changed = self._modules.changed()
        if not changed and not (self._failed and noticed):
            return False
        name = (changed or list(noticed))[0].name
        error = self._reload()
        if error is not None:
            logger.error("%s has changed, and cannot be served: %s\n%s", name, in_brief(error), GOES_ON)
            return False
        self._renewed()
        logger.info("%s has changed: reloaded", name)
        return True

    def _reload(self) -> Exception | None:
        """Load the files. On failure, restore the old state and return the error."""
        old, began_ns = self._modules.take_out(), time.time_ns()
        try:
            handler = self._make()
        except Exception as error:  # noqa: BLE001 - the server continues whatever the user's code raises
            self._modules.put_back(old, began_ns)
            self._failed = True
            return error
        self._handler, self._failed = handler, False
        self._modules.mark(began_ns)
        return None


def in_brief(error: Exception) -> str:
    """Return why code cannot be served, in one line."""
    if isinstance(error, LoadError) and error.in_brief:
        return error.in_brief
    text = "; ".join(" ".join(line.split()) for line in str(error).splitlines())
    return text if isinstance(error, BatonError) else f"{type(error).__name__}: {text}"


class Watcher:
    """Watches a folder for changes of Python files, in a thread, until it is stopped."""

    def __init__(self, folder: Path, look: Callable[[Collection[Path]], object]) -> None:
        try:
            import watchfiles
        except ModuleNotFoundError as error:
            raise SettingsError("--reload needs the package 'watchfiles': install mcp-baton[local]") from error
        self._watch = watchfiles.watch(
            folder,
            watch_filter=watchfiles.PythonFilter(),
            stop_event=(stop := threading.Event()),
            rust_timeout=CHECK_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
        )
        self._stop, self._look = stop, look
        threading.Thread(target=self._run, name="reload", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        for changes in self._watch:
            try:
                self._look([Path(path) for _, path in changes])
            except Exception:
                logger.exception("the files could not be reloaded")


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
