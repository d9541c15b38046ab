"""The parts of a process that its requests and background jobs share."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from mcp_baton.protocol.http import Exchange
from mcp_baton.protocol.state import Seal
from mcp_baton.server.server import Server
from mcp_baton.server.view import CallersTasks, ServerView
from mcp_baton.settings import Settings
from mcp_baton.tasks.store import TaskStore
from mcp_baton.telemetry import SILENT, Telemetry

if TYPE_CHECKING:
    from mcp_baton.approvals.record import Publisher
    from mcp_baton.background.jobs import Dispatcher


def run_now(work: Callable[[], None]) -> None:
    work()


class Services(Struct, frozen=True, kw_only=True):
    """The services of one process. Without `store`, workflows run without tasks; without `dispatcher`, no tool runs
    in the background. `later` runs work after the response."""

    server: Server
    store: TaskStore | None
    settings: Settings
    seal: Seal
    telemetry: Telemetry = SILENT
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    dispatcher: "Dispatcher | None" = None
    publisher: "Publisher | None" = None
    later: Callable[[Callable[[], None]], None] = run_now

    @property
    def notifies(self) -> bool:
        """Whether the server notifies people of approvals that wait for them."""
        return self.publisher is not None or bool(self.server.approval_listeners)

    def for_caller(self, claims: Mapping[str, object], exchange: Exchange) -> tuple[ServerView, TaskStore | None]:
        """Return the server as a caller sees it, and the tasks that the caller may use."""
        server = self.server.visible_to(claims)
        store = self.store.within(exchange.remaining_ms) if self.store else None
        if store is None or not server.lacks_tools:
            return server, store
        return server, cast("TaskStore", CallersTasks(store, server))
