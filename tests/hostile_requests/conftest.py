"""The real handler over a table in this process, for hostile requests."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from mcp_baton.aws import dynamodb_store, handler
from mcp_baton.settings import Settings
from tests.hostile_requests.served import server
from tests.hostile_requests.wire import ORIGIN, HostileClient
from tests.memory_dynamodb import MemoryDynamoDB, memory_client
from tests.support.client import Client, Table

MAX_BODY_BYTES = 200_000


TABLES = itertools.count(1)

type MakeHostileClient = Callable[[int], HostileClient]


@pytest.fixture(scope="session")
def make_hostile_client() -> Iterator[MakeHostileClient]:
    """Creates hostile clients, each with a table and a body limit of its own."""
    memory = MemoryDynamoDB()
    with closing(memory_client(memory)) as client:

        def make(max_body_bytes: int) -> HostileClient:
            table = f"rude-{next(TABLES)}"
            memory.create(table)
            settings = Settings(table=table, max_body_bytes=max_body_bytes, allowed_origins=frozenset({ORIGIN}))
            store = dynamodb_store(table, settings, connect=lambda: client)
            hostile = HostileClient(Client(handler(server, settings=settings, store=store)), Table(client, table))
            client.meta.events.register("before-send.dynamodb", hostile.record_write)
            return hostile

        yield make


@pytest.fixture(scope="module")
def hostile(make_hostile_client: MakeHostileClient) -> Iterator[HostileClient]:
    """A hostile client that all tests of a module share, so each request meets the state that earlier ones left. Normal
    requests must work at the start and at the end."""
    client = make_hostile_client(MAX_BODY_BYTES)
    client.check_echo()
    yield client
    client.check_echo()


@pytest.fixture
def large(make_hostile_client: MakeHostileClient) -> HostileClient:
    return make_hostile_client(Settings().max_body_bytes)
