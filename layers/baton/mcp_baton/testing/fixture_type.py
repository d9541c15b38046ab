"""The type of the fixture `baton`. It needs no pytest."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mcp_baton import Server
    from mcp_baton.settings import Settings
    from mcp_baton.testing.client import Client
    from mcp_baton.testing.mcp_client import Era
    from mcp_baton.testing.workers import Workers


class Connect(Protocol):
    """`connect`, without the `with`: the client is closed when the test is over."""

    def __call__(
        self,
        server: "Server",
        *,
        owner: str | None = "tester",
        era: "Era" = "2026",
        settings: "Settings | None" = None,
        workers: "Workers" = "at once",
    ) -> "Client":
        """Return a client of a server: see `mcp_baton.testing.connect`."""
