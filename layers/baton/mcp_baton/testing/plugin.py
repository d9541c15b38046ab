"""The pytest plugin: the fixture `baton`."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from mcp_baton.testing.fixture_type import Connect

if TYPE_CHECKING:
    from mcp_baton import Server
    from mcp_baton.testing.client import Client

__all__ = ["Connect", "baton"]


@pytest.fixture
def baton() -> Iterator[Connect]:
    """Connect to servers in this process: `client = baton(server)`."""
    with ExitStack() as stack:

        def connect_client(server: "Server", **options: Any) -> "Client":
            # Imported here, because pytest loads this module wherever Baton is installed.
            from mcp_baton.testing.connecting import connect

            return stack.enter_context(connect(server, **options))

        yield connect_client
