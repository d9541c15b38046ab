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

from emulators.s3 import Bucket, embedded_s3, http_s3, new_bucket
from mcp_baton import Server
from mcp_baton.aws import compose, dynamodb_store
from mcp_baton.local.dynamodb import create_table, http_client
from mcp_baton.settings import Settings
from mcp_baton.transport.stream import stream_opener
from tests.e2e.background_support import Background, MakeBackground
from tests.e2e.support import Answer, Client, Era, Script, Sink, Table
from tests.fakes import Pauses
from tests.memory_dynamodb import MemoryDynamoDB, memory_client, memory_database
from tests.sent import Requests, noted

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

TABLES = count(1)

ON_MINISTACK = pytest.mark.parametrize("engine", ["ministack"], indirect=True)
"""Runs a test against MiniStack, for races: it is a separate process and answers several requests at once. All other
tests here give the same result with any DynamoDB, because tests/store compares the engines."""

type Submit = Callable[[Sink, Callable[[], Answer]], Future[Answer]]


@dataclass(frozen=True, slots=True)
class Engine:
    """A DynamoDB and an S3.

    Attributes:
        url: The URL of both. `None` if they run in this process.
    """

    client: "DynamoDBClient"
    s3: "S3Client"
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
        bucket: Bucket | None = None,
        clock: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] | None = None,
        **settings: Any,
    ) -> Client:
        """Return a client of the server.

        Args:
            remaining_ms: Returns the function's remaining time.
            table_name: A table to use instead of the test's own.
            bucket: The bucket for values that do not fit into the table.
            clock: Returns seconds. The lengths of runs are measured with it.
            now_ms: Returns the wall clock in epoch milliseconds. The default is the machine's clock.
        """
        name = table_name or self.table.name
        server_settings = Settings(table=name, overflow_bucket=bucket.name if bucket else None, **settings)
        pauses = Pauses()
        store = dynamodb_store(
            name,
            server_settings,
            connect=lambda: self.table.client,
            connect_s3=lambda: self.engine.s3,
            now_ms=now_ms,
            monotonic=pauses.monotonic,
            sleep=pauses.sleep,
            random=lambda: 0.99,
        )
        return Client(compose(server, server_settings, store=store, clock=clock), owner, era, remaining_ms)


@pytest.fixture(autouse=True)
def _connected_to_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `mcp_baton.testing` use the DynamoDB in memory. The tests in tests/unit/testing use the one that users
    get."""
    monkeypatch.setattr("mcp_baton.testing.connecting._database", memory_database)


@pytest.fixture(scope="session")
def memory_engine() -> Iterator[Engine]:
    memory = MemoryDynamoDB()
    with closing(memory_client(memory)) as client, closing(embedded_s3()) as s3:
        yield Engine(client, s3, memory.create)


@pytest.fixture(scope="session")
def ministack_engine(ministack_url: str) -> Iterator[Engine]:
    with closing(http_client(ministack_url)) as client, closing(http_s3(ministack_url)) as s3:
        yield Engine(client, s3, partial(create_table, client), ministack_url)


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
    name = f"e2e-{next(TABLES)}"
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
def bucket(engine: Engine) -> Bucket:
    """An empty bucket for each test."""
    return new_bucket(engine.s3)


@pytest.fixture
def make_client(engine: Engine, table: Table) -> MakeClient:
    return MakeClient(engine, table)


@pytest.fixture
def requests(engine: Engine, table: Table) -> Iterator[Requests]:
    """The requests that are sent after the table was created, retries included."""
    with noted(engine.client, engine.s3) as sent_requests:
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
