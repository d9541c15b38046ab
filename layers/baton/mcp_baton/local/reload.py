"""Serving the user's files as they are now: loading them anew while the server goes on (docs/commands.md, Serve).

The listening socket, the tasks and the requests that are being answered stay. Requests that have begun end with the
code that they began with.
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
"""How often files are looked at that no notice has come of, milliseconds."""

GOES_ON: Final = "The server goes on with the code from before, until this is mended."

type Stamp = tuple[int, int]
"""When a file was last changed, nanoseconds since the epoch, and its length."""


class UserModules:
    """The user's modules that are loaded from now on."""

    def __init__(self) -> None:
        self._before = frozenset(sys.modules)
        self._stamps: dict[Path, Stamp | None] = {}

    def files(self) -> dict[str, Path]:
        """The loaded ones, by name."""
        found = {}
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if name not in self._before and isinstance(file, str) and is_own(file):
                found[name] = Path(file)
        return found

    def take_out(self) -> dict[str, ModuleType]:
        """Have Python forget them; what it has forgotten."""
        return {name: sys.modules.pop(name) for name in self.files()}

    def put_back(self, modules: dict[str, ModuleType], since_ns: int) -> None:
        """Have Python know these again in the place of what was loaded since, and remember how all those files are."""
        tried = self.take_out()
        sys.modules.update(modules)
        files = (getattr(module, "__file__", None) for module in tried.values())
        self.mark(since_ns, *(Path(file) for file in files if file))

    def mark(self, since_ns: int, *others: Path) -> None:
        """Remember how their files are, and others.

        Args:
            since_ns: When they began to be loaded, by the wall clock. One that was changed later counts as changed: it
                may have been read before that.
        """
        stamps = {path: _stamp(path) for path in (*self.files().values(), *others)}
        self._stamps = {path: stamp if stamp and stamp[0] < since_ns else None for path, stamp in stamps.items()}

    def changed(self) -> list[Path]:
        """Which files have changed since."""
        return [path for path, stamp in self._stamps.items() if _stamp(path) != stamp]


class Served:
    """A handler that can be made anew.

    Args:
        make: Loads the user's files and makes the handler of them.
        renewed: Called when there is a new one.

    Raises:
        Exception: what `make` has raised.
    """

    def __init__(self, make: "Callable[[], LambdaHandler]", renewed: Callable[[], None] = lambda: None) -> None:
        self._make = make
        self._renewed = renewed
        self._modules = UserModules()
        began_ns = time.time_ns()
        self._handler = make()
        self._modules.mark(began_ns)
        self._failed = False

    def __call__(self, event: dict[str, Any], context: "InvocationContext") -> dict[str, Any]:
        """Answer with the newest code."""
        return self._handler(event, context)

    def look(self, noticed: Collection[Path] = ()) -> bool:
        """Load the files anew where one has changed; whether there is new code.

        Args:
            noticed: Files that have changed, loaded or not: one of them may be what code that failed to load needs.
        """
        changed = self._modules.changed()
        if not changed and not (self._failed and noticed):
            return False
        name = (changed or list(noticed))[0].name
        error = self._loaded_anew()
        if error is not None:
            logger.error("%s has changed, and cannot be served: %s\n%s", name, in_brief(error), GOES_ON)
            return False
        self._renewed()
        logger.info("%s has changed: reloaded", name)
        return True

    def _loaded_anew(self) -> Exception | None:
        """Load the files; why they cannot be, and then all is as before."""
        old, began_ns = self._modules.take_out(), time.time_ns()
        try:
            handler = self._make()
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises, the server goes on
            self._modules.put_back(old, began_ns)
            self._failed = True
            return error
        self._handler, self._failed = handler, False
        self._modules.mark(began_ns)
        return None


def in_brief(error: Exception) -> str:
    """Why code cannot be served, in one line."""
    if isinstance(error, LoadError) and error.in_brief:
        return error.in_brief
    text = "; ".join(" ".join(line.split()) for line in str(error).splitlines())
    return text if isinstance(error, BatonError) else f"{type(error).__name__}: {text}"


class Watcher:
    """Watches a folder for changes of Python files, in a thread of its own, until it is stopped.

    Args:
        folder: The project's.
        look: Called with the files that have changed, and without any from time to time.

    Raises:
        SettingsError: watchfiles is not installed.
    """

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
        """Watch no more."""
        self._stop.set()

    def _run(self) -> None:
        for changes in self._watch:
            try:
                self._look([Path(path) for _, path in changes])
            except Exception:
                logger.exception("the files could not be loaded anew")


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
