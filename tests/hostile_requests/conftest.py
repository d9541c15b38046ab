"""The real handler over a table in this process, for rude clients."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from mcp_baton.aws import dynamodb_store, handler
from mcp_baton.settings import Settings
from tests.e2e.support import Client, Table
from tests.hostile_requests.served import server
from tests.hostile_requests.wire import ORIGIN, Rude
from tests.memory_dynamodb import MemoryDynamoDB, memory_client

MAX_BODY_BYTES = 200_000


TABLES = itertools.count(1)

type MakeRude = Callable[[int], Rude]


@pytest.fixture(scope="session")
def make_rude() -> Iterator[MakeRude]:
    """Makes rude clients of servers with a table and a limit of its own for bodies."""
    memory = MemoryDynamoDB()
    with closing(memory_client(memory)) as client:

        def make(max_body_bytes: int) -> Rude:
            table = f"rude-{next(TABLES)}"
            memory.create(table)
            chosen = Settings(table=table, max_body_bytes=max_body_bytes, allowed_origins=frozenset({ORIGIN}))
            store = dynamodb_store(table, chosen, connect=lambda: client)
            rude = Rude(Client(handler(server, settings=chosen, store=store)), Table(client, table))
            client.meta.events.register("before-send.dynamodb", rude.note)
            return rude

        yield make


@pytest.fixture(scope="module")
def rude(make_rude: MakeRude) -> Iterator[Rude]:
    """A rude client; what one of its requests leaves behind, the next must bear. In the end a normal one works."""
    made = make_rude(MAX_BODY_BYTES)
    made.still_works()
    yield made
    made.still_works()


@pytest.fixture
def large(make_rude: MakeRude) -> Rude:
    """A rude client that may send as much as in the cloud."""
    return make_rude(Settings().max_body_bytes)
