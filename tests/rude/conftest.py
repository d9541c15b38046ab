"""The real handler over a table in this process, for rude clients."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from mcp_baton.aws import dynamodb_store, handler
from mcp_baton.local.dynamodb import create_table, embedded_client
from mcp_baton.settings import Settings
from tests.e2e.support import Client, Table
from tests.rude.served import server
from tests.rude.wire import Rude

MAX_BODY_BYTES = 200_000
ORIGIN = "https://good.example"


@pytest.fixture(scope="session")
def whole_session() -> Iterator[Rude]:
    """One server and one table for all examples: what one request leaves behind, the next must bear."""
    with closing(embedded_client()) as client:
        create_table(client, "rude")
        settings = Settings(table="rude", max_body_bytes=MAX_BODY_BYTES, allowed_origins=frozenset({ORIGIN}))
        store = dynamodb_store("rude", settings, connect=lambda: client)
        rude = Rude(Client(handler(server, settings=settings, store=store)), Table(client, "rude"))
        client.meta.events.register("before-send.dynamodb", rude.note)
        yield rude


@pytest.fixture(scope="module")
def rude(whole_session: Rude) -> Iterator[Rude]:
    """The rude client; after each module's requests a normal one works."""
    whole_session.still_works()
    yield whole_session
    whole_session.still_works()
