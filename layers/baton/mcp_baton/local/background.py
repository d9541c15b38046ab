"""The workers of `baton serve`, until the first event: nothing of them is imported before."""

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING

from mcp_baton.exceptions import NotDispatched
from mcp_baton.protocol.json import JsonObject

if TYPE_CHECKING:
    from mcp_baton.local.workers.pool import Pool


class Background:
    """Invokes workers asynchronously (`tasks.jobs.Dispatcher`).

    Args:
        make: Makes them.
    """

    def __init__(self, make: "Callable[[], Pool]") -> None:
        self._make = make
        self._lock = Lock()
        self._pool: Pool | None = None
        self._stopped = False

    def dispatch(self, event: JsonObject) -> None:
        """Take an event for a worker.

        Raises:
            NotDispatched: the server is stopping.
        """
        with self._lock:
            if self._stopped:
                raise NotDispatched("the local server is stopping: it takes no more events")
            if self._pool is None:
                self._pool = self._make()
        self._pool.dispatch(event)

    def renew(self) -> None:
        """Have workers load the files that they serve anew, as they begin their next event."""
        if self._pool is not None:
            self._pool.renew()

    def stop(self, grace_s: float) -> None:
        """End the workers, if there are any: see `Pool.stop`."""
        with self._lock:
            self._stopped = True
        if self._pool is not None:
            self._pool.stop(grace_s)
