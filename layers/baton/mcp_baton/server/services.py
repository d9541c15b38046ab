"""The parts of a process that its requests and background jobs share."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from mcp_baton.protocol.http import Exchange
from mcp_baton.protocol.state import Seal
from mcp_baton.server.server import Server
from mcp_baton.server.view import ServerView
from mcp_baton.settings import Settings
from mcp_baton.tasks.store import TaskStore
from mcp_baton.telemetry import SILENT, Telemetry

if TYPE_CHECKING:
    from mcp_baton.tasks.jobs import Dispatcher


class Services(Struct, frozen=True, kw_only=True):
    """The services of one process.

    Attributes:
        server: Everything that is published. A caller may see less of it (`Execution.server`).
        store: All tasks. `None` without a store: workflows then run without tasks.
        settings: The operator's settings.
        seal: Signs `requestState`.
        telemetry: Takes metrics and spans.
        clock: Returns seconds since an arbitrary moment.
        sleep: Waits for a number of seconds.
        dispatcher: Invokes the worker. `None` without a worker: no tool then runs in the background.
    """

    server: Server
    store: TaskStore | None
    settings: Settings
    seal: Seal
    telemetry: Telemetry = SILENT
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    dispatcher: "Dispatcher | None" = None

    def for_caller(self, claims: Mapping[str, object], exchange: Exchange) -> tuple[ServerView, TaskStore | None]:
        """The server as a caller sees it, and the tasks that the caller may use.

        Args:
            claims: The authorizer's claims about the caller.
            exchange: The Lambda invocation. The store does not retry beyond its end.
        """
        server = self.server.visible_to(claims)
        store = self.store.within(exchange.remaining_ms) if self.store else None
        if store is None or not server.lacks_tools:
            return server, store
        from mcp_baton.server.callers_tasks import callers_tasks

        return server, callers_tasks(store, server)
