"""`--reload`: load changed files while the server runs (docs/commands.md, Serve).

The listening socket and the tasks stay. A running request ends with the code with which it began.
"""

import logging
import sys
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mcp_baton.exceptions import BatonError, SettingsError
from mcp_baton.local.loader import LoadError
from mcp_baton.local.log import is_own

if TYPE_CHECKING:
    from mcp_baton.local.gateway import InvocationContext
    from mcp_baton.local.http_server import LambdaHandler

logger = logging.getLogger(__name__)

GOES_ON: Final = "The server uses the old code until this is corrected."


class Served:
    """A handler that is made again, from newly loaded modules of the user, when a file of theirs has changed."""

    def __init__(self, make: "Callable[[], LambdaHandler]", renewed: Callable[[], None] = lambda: None) -> None:
        self._make = make
        self._renewed = renewed
        self._before = frozenset(sys.modules)
        self._handler = make()
        self._failed = False

    def __call__(self, event: dict[str, Any], context: "InvocationContext") -> dict[str, Any]:
        return self._handler(event, context)

    def look(self, changed: Collection[Path]) -> bool:
        """Load the files again if a loaded one has changed, or after a failure. Return whether this succeeded."""
        loaded = self._modules()
        names = [path.name for path in changed if self._failed or path.resolve() in loaded.values()]
        if not names:
            return False
        old = {name: sys.modules.pop(name) for name in loaded}
        self._failed, reason = False, ""
        try:
            self._handler = self._make()
        except Exception as error:  # noqa: BLE001 - the server continues whatever the user's code raises
            self._failed, reason = True, in_brief(error)
            for name in self._modules():
                del sys.modules[name]
            sys.modules.update(old)
        if self._failed:
            logger.error("%s has changed, and cannot be served: %s\n%s", names[0], reason, GOES_ON)
            return False
        self._renewed()
        logger.info("%s has changed: reloaded", names[0])
        return True

    def _modules(self) -> dict[str, Path]:
        """Return the files of the user's modules that were loaded for the handler, by the modules' names."""
        files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
        own = {name: file for name, file in files.items() if isinstance(file, str) and is_own(file)}
        return {name: Path(file).resolve() for name, file in own.items() if name not in self._before}


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
