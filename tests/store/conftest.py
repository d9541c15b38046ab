"""Fixtures: task stores over every engine, with a clock that tests set."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from botocore.awsrequest import AWSPreparedRequest
from botocore.exceptions import ConnectionClosedError
from botocore.httpsession import URLLib3Session
from msgspec.structs import replace

from costs.places import Place, by_consumed_capacity, by_sizes
from mcp_baton.local.dynamodb import create_table, embedded_client, http_client
from mcp_baton.protocol.json import Json
from mcp_baton.stores import DynamoDBStore
from mcp_baton.tasks.dynamodb.items import Limits
from mcp_baton.tasks.dynamodb.table import LazyClient, TaskTable
from mcp_baton.tasks.record import LEASE_MS, PROGRESS, Claim, JobSpec, NewTask, TaskRecord
from tests.dynamodb_local.engine import unavailable_reason
from tests.fakes import Pauses
from tests.memory_dynamodb import MemoryDynamoDB, memory_client
from tests.sent import Requests, noted
from tests.store.fixture_types import Begin, HeldJob, MakeClaim, Rounds, Store, Stores

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TABLE = "tasks"
OWNERS = count(1)
WORK = JobSpec(
    tool="report",
    request_id="r-1",
    scopes=("orders:read", "orders:write"),
    capabilities={"elicitation": {"form": {}}},
    revision="2026-07-28",
    attempts=2,
    key="k-1",
    workflow_task="t-1",
    answers={"name": {"action": "accept", "content": {"n": 30.0, "": "\ud800"}}},
)


@dataclass(slots=True)
class Clock:
    """A clock that a test sets. It shows 2096, so that no engine deletes items by its own TTL."""

    ms: int = 4_000_000_000_000

    def __call__(self) -> int:
        return self.ms


@dataclass(frozen=True, slots=True)
class Engine:
    """A DynamoDB with the task table."""

    name: str
    client: "DynamoDBClient"
    url: str | None = None


@dataclass(slots=True)
class LostReplies:
    """Applies requests, but loses their responses.

    Attributes:
        url: Where to send them; `None` if an engine in this process has applied them already.
        times: How many more responses are lost.
        meanwhile: Runs once, between the applied request and its retry.
    """

    url: str | None
    times: int = 0
    meanwhile: Callable[[], object] | None = None

    def lose(self, request: AWSPreparedRequest, **_: object) -> None:
        if self.times == 0:
            return
        self.times -= 1
        if self.url is not None:
            with closing(URLLib3Session()) as session:
                session.send(request)
        if self.meanwhile is not None:
            run, self.meanwhile, times, self.times = self.meanwhile, None, self.times, 0
            run()
            self.times = times
        raise ConnectionClosedError(endpoint_url=request.url)


@pytest.fixture(scope="session")
def embedded_engine() -> Iterator[Engine]:
    """moto in this process."""
    with closing(embedded_client()) as client:
        create_table(client, TABLE)
        yield Engine("embedded", client)


@pytest.fixture(scope="session")
def ministack_engine(ministack_url: str) -> Iterator[Engine]:
    with closing(http_client(ministack_url)) as client:
        create_table(client, TABLE)
        yield Engine("ministack", client, ministack_url)


@pytest.fixture(scope="session")
def dynamodb_local_engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """DynamoDB Local over HTTP. MiniStack instead if the machine cannot run DynamoDB Local."""
    if unavailable_reason() is not None:
        yield request.getfixturevalue("ministack_engine")
        return
    url = request.getfixturevalue("dynamodb_local_url")
    with closing(http_client(url)) as client:
        create_table(client, TABLE)
        yield Engine("dynamodb_local", client, url)


@pytest.fixture(scope="session")
def memory_engine() -> Iterator[Engine]:
    """The in-memory DynamoDB that the end-to-end tests use."""
    memory = MemoryDynamoDB()
    memory.create(TABLE)
    with closing(memory_client(memory)) as client:
        yield Engine("memory", client)


@pytest.fixture(scope="session")
def dynamodb_place(dynamodb_local_url: str) -> Iterator[Place]:
    """Units that DynamoDB Local reports."""
    with by_consumed_capacity(dynamodb_local_url) as place:
        yield place


@pytest.fixture(scope="session")
def size_place() -> Iterator[Place]:
    """Units computed from item sizes."""
    with by_sizes() as place:
        yield place


@pytest.fixture(params=["dynamodb_place", "size_place"])
def place(request: pytest.FixtureRequest) -> Place:
    """Both ways of counting, in turn."""
    selected_place: Place = request.getfixturevalue(request.param)
    return selected_place


@pytest.fixture(params=["memory", "embedded", "dynamodb_local"])
def engine(request: pytest.FixtureRequest) -> Engine:
    selected_engine: Engine = request.getfixturevalue(f"{request.param}_engine")
    return selected_engine


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def owner() -> str:
    return f"owner-{next(OWNERS)}"


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
def stores(engine: Engine, clock: Clock, pauses: Pauses) -> Stores:
    """Creates stores on the engine. Keyword arguments are passed to the constructor."""

    def make(**options: Any) -> Store:
        # Generous time limits, because the machine may be slow. Tests of time limits set their own.
        options.setdefault("limits", Limits(zip_ms=60_000, values_ms=60_000))
        times: dict[str, Any] = {"clock_ms": clock, "monotonic": pauses.monotonic, "sleep": pauses.sleep}
        for name in TaskTable.__struct_fields__:
            if name in options:
                times[name] = options.pop(name)
        return DynamoDBStore(TaskTable(TABLE, LazyClient(lambda: engine.client), **times), **options)

    return make


@pytest.fixture
def store(stores: Stores) -> Store:
    return stores()


@pytest.fixture
def uncompressed_store(stores: Stores) -> Store:
    return stores(limits=Limits(compress_over_bytes=10**9, values_ms=60_000))


@pytest.fixture
def begin(store: Store, owner: str) -> Begin:
    """Creates a task with that many pending steps, named `s0`, `s1` and so on."""

    def create(steps: int = 1, **options: Any) -> TaskRecord:
        step_list: list[Json] = [{"name": f"s{index}", "tool": "work", "status": "pending"} for index in range(steps)]
        progress: Json = {"goal": "flow: do the work", "steps": step_list, "schemaVersion": 1}
        return store.create(NewTask(owner, {PROGRESS: progress}, **options))

    return create


@pytest.fixture
def requests(engine: Engine) -> Iterator[Requests]:
    """The requests sent since the fixture was created, including retries."""
    with noted(engine.client) as sent_requests:
        yield sent_requests


@pytest.fixture
def losses(engine: Engine) -> Iterator[LostReplies]:
    replies = LostReplies(engine.url)
    events = engine.client.meta.events
    events.register_last("before-send", replies.lose)
    yield replies
    events.unregister("before-send", replies.lose)


@dataclass(slots=True)
class AfterRead:
    """Runs another writer once, between the next read of an item and the write that depends on it."""

    run: Callable[[], object] | None = None

    def run_writer(self, **_: object) -> None:
        run, self.run = self.run, None
        if run is not None:
            run()


@pytest.fixture
def after_read(engine: Engine) -> Iterator[AfterRead]:
    hook = AfterRead()
    engine.client.meta.events.register("after-call.dynamodb.GetItem", hook.run_writer)
    yield hook
    engine.client.meta.events.unregister("after-call.dynamodb.GetItem", hook.run_writer)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


@pytest.fixture
def rounds(engine: Engine) -> Rounds:
    """How many rounds a race test runs: the most in memory, which is fast; one on moto, which handles requests in
    turn."""
    return lambda maximum: range({"memory": maximum, "embedded": 1}.get(engine.name, maximum // 4))


@pytest.fixture
def create_job(store: Store, owner: str) -> Begin:
    """Creates a job. Keyword arguments change its `JobSpec`."""
    return lambda **work: store.create(NewTask(owner, {}, arguments={"month": 3}, work=replace(WORK, **work)))


@pytest.fixture
def worker(clock: Clock) -> MakeClaim:
    return lambda name: Claim(name, clock.ms + LEASE_MS)


@pytest.fixture
def held_job(store: Store, create_job: Begin, worker: MakeClaim) -> HeldJob:
    """Creates a job that the worker `a` has started."""

    def begin(**work: Any) -> tuple[TaskRecord, Claim]:
        task = create_job(**work)
        claimed_task = store.jobs.claim(task.owner, task.task_id, worker("a"), 1)
        assert claimed_task.claim
        return claimed_task, claimed_task.claim

    return begin
