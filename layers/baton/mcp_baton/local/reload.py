"""`--reload`: load changed files while the server runs (docs/commands.md, Serve).

The listening socket and the tasks stay. A running request finishes with the code that it started with.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mcp_baton.exceptions import BatonError, SettingsError
from mcp_baton.local.loader import LoadError
from mcp_baton.local.log import is_user_file

if TYPE_CHECKING:
    from mcp_baton.local.gateway import InvocationContext
    from mcp_baton.local.http_server import LambdaHandler

logger = logging.getLogger(__name__)

CHECK_MS: Final = 1_000
"""How often files are checked without a notification of the file system, milliseconds."""

OLD_CODE: Final = "The server uses the old code until this is corrected."

type State = tuple[int, int]
"""The time of a file's last change, nanoseconds since the epoch, and its length."""


class ReloadingHandler:
    """A handler that is made again from newly loaded modules of the user when one of their files has changed."""

    def __init__(self, make: "Callable[[], LambdaHandler]", on_reload: Callable[[], None] = lambda: None) -> None:
        self._make = make
        self._on_reload = on_reload
        self._modules_before = frozenset(sys.modules)
        self._failed, began_ns = False, time.time_ns()
        self._handler = make()
        self._states = self._loaded_states(began_ns)

    def __call__(self, event: dict[str, Any], context: "InvocationContext") -> dict[str, Any]:
        return self._handler(event, context)

    def reload_if_changed(self, changed_files: Collection[Path] = ()) -> bool:
        """Load the files again if one has changed. Return whether there is new code.

        Args:
            changed_files: Files that have changed, loaded or not. Code that failed to load may need one of them.
        """
        paths = [path for path, state in self._states.items() if _state(path) != state]
        paths += changed_files if self._failed else ()
        if not paths:
            return False
        old, began_ns = {name: sys.modules.pop(name) for name in self._modules()}, time.time_ns()
        try:
            self._handler = self._make()
        except Exception as error:  # noqa: BLE001 - the server continues whatever the user's code raises
            self._failed, failed_states = True, self._loaded_states(began_ns)
            for name in self._modules():
                del sys.modules[name]
            sys.modules.update(old)
            self._states = failed_states | self._loaded_states(began_ns)
            logger.error("%s has changed, and cannot be served: %s\n%s", paths[0].name, short_reason(error), OLD_CODE)  # noqa: TRY400 - the user needs the reason, not the traceback
            return False
        self._failed, self._states = False, self._loaded_states(began_ns)
        self._on_reload()
        logger.info("%s has changed: reloaded", paths[0].name)
        return True

    def _modules(self) -> dict[str, Path]:
        """Return the files of the user's modules that were loaded for the handler, by the modules' names."""
        files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
        user_files = {name: file for name, file in files.items() if isinstance(file, str) and is_user_file(file)}
        return {name: Path(file) for name, file in user_files.items() if name not in self._modules_before}

    def _loaded_states(self, began_ns: int) -> dict[Path, State | None]:
        """Return the states of the loaded files. A file that changed while it was loaded has the state `None`, so it
        counts as changed."""
        states = {path: _state(path) for path in self._modules().values()}
        now_ns = time.time_ns()
        return {path: None if state and began_ns <= state[0] <= now_ns else state for path, state in states.items()}


def _state(path: Path) -> State | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def short_reason(error: Exception) -> str:
    """Return why code cannot be served, in one line."""
    if isinstance(error, LoadError) and error.summary:
        return error.summary
    text = "; ".join(" ".join(line.split()) for line in str(error).splitlines())
    return text if isinstance(error, BatonError) else f"{type(error).__name__}: {text}"


class Watcher:
    """Watches a folder for changes of Python files, in a thread, until it is stopped."""

    def __init__(self, folder: Path, on_change: Callable[[Collection[Path]], object]) -> None:
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
        self._stop, self._on_change = stop, on_change
        threading.Thread(target=self._run, name="reload", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        for changes in self._watch:
            try:
                self._on_change([Path(path) for _, path in changes])
            except Exception:
                logger.exception("the files could not be reloaded")
