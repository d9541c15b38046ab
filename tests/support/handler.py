"""Fixtures that run a server behind the real handler, over a DynamoDB in memory or MiniStack."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from mcp_baton import Server
from mcp_baton.aws import compose, dynamodb_store
from mcp_baton.local.dynamodb import create_table, http_client
from mcp_baton.settings import Settings
from mcp_baton.transport.exchange import stream_opener
from tests.fakes import Pauses
from tests.memory_dynamodb import MemoryDynamoDB, memory_client, memory_database
from tests.sent import Requests, noted
from tests.support.background import Background, MakeBackground
from tests.support.client import Answer, Client, Era, Script, Sink, Table
from tests.value_items import ValueItems

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TABLES = count(1)

ON_MINISTACK = pytest.mark.parametrize("engine", ["ministack"], indirect=True)
"""Runs a test against MiniStack, for races: it is a separate process and answers several requests at once. All other
tests here give the same result with any DynamoDB, because tests/store compares the engines."""

type Submit = Callable[[Sink, Callable[[], Answer]], Future[Answer]]


@dataclass(frozen=True, slots=True)
class Engine:
    client: "DynamoDBClient"
    create: Callable[[str], None]
    url: str | None = None


@dataclass(frozen=True, slots=True)
class MakeClient:
    """Runs a server behind the real handler, over the test's table."""

    engine: Engine
    table: Table

    def __call__(
        self,
        server: Server,
        *,
        owner: str | None = "alice",
        era: Era = "2025",
        remaining_ms: Callable[[], int] = lambda: 30_000,
        table_name: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] | None = None,
        **settings: Any,
    ) -> Client:
        """Return a client of the server.

        Args:
            clock: Returns seconds. The lengths of runs are measured with it.
            now_ms: Returns the wall clock in epoch milliseconds. The default is the machine's clock.
        """
        name = table_name or self.table.name
        server_settings = Settings(table=name, **settings)
        pauses = Pauses()
        store = dynamodb_store(
            name,
            server_settings,
            connect=lambda: self.table.client,
            now_ms=now_ms,
            monotonic=pauses.monotonic,
            sleep=pauses.sleep,
            random=lambda: 0.99,
        )
        return Client(compose(server, server_settings, store=store, clock=clock), owner, era, remaining_ms)


USERS_DATABASE = {"hosts", "release", "site", "testing"}
"""The folders whose tests use `mcp_baton.testing` with the DynamoDB that users get."""


@pytest.fixture(autouse=True)
def _connected_to_memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `mcp_baton.testing` use the DynamoDB in memory, which is faster."""
    if USERS_DATABASE.isdisjoint(request.path.parts):
        monkeypatch.setattr("mcp_baton.testing.connecting._database", memory_database)


@pytest.fixture(scope="session")
def memory_engine() -> Iterator[Engine]:
    memory = MemoryDynamoDB()
    with closing(memory_client(memory)) as client:
        yield Engine(client, memory.create)


@pytest.fixture(scope="session")
def ministack_engine(ministack_url: str) -> Iterator[Engine]:
    with closing(http_client(ministack_url)) as client:
        yield Engine(client, partial(create_table, client), ministack_url)


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Engine:
    """The engine in memory, or MiniStack for tests with `ON_MINISTACK`."""
    selected_engine: Engine = request.getfixturevalue(f"{getattr(request, 'param', 'memory')}_engine")
    return selected_engine


@pytest.fixture(params=["2025", "2026"])
def era(request: pytest.FixtureRequest) -> Era:
    return "2025" if request.param == "2025" else "2026"


@pytest.fixture
def table(engine: Engine) -> Table:
    """An empty table for each test."""
    name = f"tests-{next(TABLES)}"
    engine.create(name)
    return Table(engine.client, name)


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def background(table: Table) -> MakeBackground:
    """Creates a `Background` over the test's table."""
    return lambda server, **settings: Background(server, table, settings)


@pytest.fixture
def values(table: Table) -> ValueItems:
    return ValueItems(table.client, table.name)


@pytest.fixture
def make_client(engine: Engine, table: Table) -> MakeClient:
    return MakeClient(engine, table)


@pytest.fixture
def requests(engine: Engine, table: Table) -> Iterator[Requests]:
    """The requests that are sent after the table was created, retries included."""
    with noted(engine.client) as sent_requests:
        yield sent_requests


@pytest.fixture
def submit() -> Iterator[Submit]:
    """Sends a request from another thread. Its answer is streamed to a sink."""
    with ThreadPoolExecutor(4) as pool:

        def send(sink: Sink, request: Callable[[], Answer]) -> Future[Answer]:
            def call() -> Answer:
                stream_opener.set(sink.open)
                return request()

            return pool.submit(call)

        yield send
