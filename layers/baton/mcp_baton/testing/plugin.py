"""The pytest plugin: the fixture `baton`."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from mcp_baton import Server
    from mcp_baton.settings import Settings
    from mcp_baton.testing.client import Client
    from mcp_baton.testing.wire import Era
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


@pytest.fixture
def baton() -> Iterator[Connect]:
    """Connect to servers in this process: `client = baton(server)`."""
    with ExitStack() as stack:

        def connect_client(server: "Server", **options: Any) -> "Client":
            # Imported here, because pytest loads this module wherever Baton is installed.
            from mcp_baton.testing.connecting import connect

            return stack.enter_context(connect(server, **options))

        yield connect_client
