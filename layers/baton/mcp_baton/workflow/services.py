"""The parts of a process that its requests and background jobs share."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from mcp_baton.protocol.state import Seal
from mcp_baton.settings import Settings
from mcp_baton.tasks.store import TaskStore
from mcp_baton.telemetry import SILENT, Telemetry
from mcp_baton.transport.exchange import Exchange
from mcp_baton.workflow.server_view import ServerView

if TYPE_CHECKING:
    from mcp_baton.tasks.jobs import Dispatcher
    from mcp_baton.tools.running.caller import Features


def run_now(work: Callable[[], None]) -> None:
    work()


class Publisher(Protocol):
    """Publishes messages for the people who decide approvals."""

    def publish(self, message: str) -> None:
        """Publish a JSON text. Raises an error of the service if it was not accepted."""


class Services(Struct, frozen=True, kw_only=True):
    """The services of one process.

    Attributes:
        server: What a caller with all scopes sees.
        store: `None` if workflows run without tasks.
        dispatcher: `None` if no tool runs in the background.
        later: Runs work after the response.
    """

    server: ServerView
    store: TaskStore | None
    settings: Settings
    seal: Seal
    features: "Features[Any]"
    telemetry: Telemetry = SILENT
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    dispatcher: "Dispatcher | None" = None
    publisher: Publisher | None = None
    later: Callable[[Callable[[], None]], None] = run_now

    @property
    def notifies(self) -> bool:
        """Whether the server notifies people of approvals that wait for them."""
        return self.publisher is not None or bool(self.server.approval_listeners)

    def for_caller(self, claims: Mapping[str, object], exchange: Exchange) -> tuple[ServerView, TaskStore | None]:
        """Return the server as a caller sees it, and the store."""
        server = self.server.visible_to(claims)
        return server, self.store.within(exchange.remaining_ms) if self.store else None
