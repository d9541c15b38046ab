"""`connect`: the composition root of a server under test."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mcp_baton import Server
from mcp_baton.aws import compose, dynamodb_store
from mcp_baton.local.dynamodb import create_table, embedded_client
from mcp_baton.settings import Settings
from mcp_baton.testing.answers import Answers
from mcp_baton.testing.client import Client
from mcp_baton.testing.function import Clock, Function, Invocations
from mcp_baton.testing.mcp_client import ERA_REVISIONS, Era
from mcp_baton.testing.overrides import Overrides
from mcp_baton.testing.script import Script
from mcp_baton.testing.store import TABLE, Store
from mcp_baton.testing.wire import Stage
from mcp_baton.testing.workers import WORKERS, Events, Worker, Workers
from mcp_baton.transport.adapter import SWEEP_EVENT
from mcp_baton.workflow.steps.question import Question

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from mcp_baton.testing.async_client import AsyncClient
    from mcp_baton.testing.function import Handler


@contextmanager
def connect(
    server: Server,
    *,
    owner: str | None = "tester",
    era: Era = "2026",
    settings: Settings | None = None,
    workers: Workers = "at once",
) -> Iterator[Client]:
    """Connect a client to a server in this process, through the real Lambda handler and a new DynamoDB.

    Args:
        server: The server in its current form. It is not changed.
        owner: The owner of the client's tasks; `None` for an unauthenticated caller.
        era: `2026` or `2025` (docs/http.md).
        settings: The operator's settings, by default the defaults. The environment is not read.
        workers: When background work is done: after each request, or when the test calls `run_worker` or waits.

    Raises:
        SettingsError: moto is not installed.
        WorkflowError: a workflow cannot work; the check is complete (docs/workflows.md, "What is checked").
    """
    if not isinstance(server, Server):
        raise TypeError(f"connect({server!r}): give it the Server, which handler(…) gets, too")
    if era not in ERA_REVISIONS:
        raise ValueError(f"era={era!r}: it is '2026' or '2025'")
    if workers not in WORKERS:
        raise ValueError(f"workers={workers!r}: it is 'at once' or 'by hand'")
    settings = settings or Settings()
    # A fixed key, as for a deployed server: states stay valid in other processes.
    key, base_url = settings.state_key or os.urandom(32), settings.base_url or "https://server.test"
    settings = replace(settings, table=TABLE, state_key=key, base_url=base_url)
    with closing(_database()) as database:
        yield Client(_stage(server, settings, database, workers), owner, era)


@asynccontextmanager
async def aconnect(
    server: Server,
    *,
    owner: str | None = "tester",
    era: Era = "2026",
    settings: Settings | None = None,
    workers: Workers = "at once",
) -> "AsyncIterator[AsyncClient]":
    """As `connect`, for `async with`: the client's requests are awaited."""
    from mcp_baton.testing.async_client import AsyncClient

    with connect(server, owner=owner, era=era, settings=settings, workers=workers) as client:
        yield AsyncClient(client.stage, client.owner, client.era)


def _database() -> "DynamoDBClient":
    client = embedded_client()
    create_table(client, TABLE)
    return client


def _stage(server: Server, settings: Settings, database: "DynamoDBClient", workers: Workers) -> Stage:
    clock, answers = Clock(), Answers()
    invocations, events = Invocations(clock), Events(clock)
    store, workflow_of_task = Store(database, invocations), dict[str, str]()

    def deploy(version: Server) -> Stage:
        script = Script(frozenset(version.tools), answers, invocations)
        instrumented = script.instrument(version)
        instrumented.check()
        steps = [step for workflow in version.workflows.values() for step in workflow.steps]
        users = [(step.name, step.question) for step in steps if isinstance(step, Question) and step.of == "user"]
        answers.workflow_questions += tuple(users)

        def make() -> "Handler":
            return _handler(instrumented, settings, database, clock, events)

        function, worker = Function(make, invocations), Worker(make, invocations, events, workers)

        def sweep() -> None:
            function.invoke({SWEEP_EVENT: {}}, None)
            worker.process_due()

        if settings.sweep and workers == "at once":
            clock.next_sweep_s, clock.sweep = lambda: store.next_sweep_s(clock.now_ms()), sweep
        shared = (invocations, store, clock, script, answers, workflow_of_task)
        return Stage(instrumented, function, worker, *shared, Overrides(instrumented), sweep, deploy)

    return deploy(server)


def _handler(server: Server, settings: Settings, database: "DynamoDBClient", clock: Clock, events: Events) -> "Handler":
    times: Any = {"now_ms": clock.now_ms, "monotonic": clock.monotonic_s, "sleep": clock.sleep}
    tasks = dynamodb_store(TABLE, settings, connect=lambda: database, **times)
    return compose(server, settings, store=tasks, clock=clock.monotonic_s, sleep=clock.sleep, dispatcher=events)
