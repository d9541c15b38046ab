"""A server as an AWS Lambda handler: the composition root (docs/deploying.md).

```python

lambda_handler = handler(server)
```
"""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from mcp_baton.clients import (
    LambdaDispatcher,
    TopicPublisher,
    client_factory,
    dynamodb_client,
    lambda_client,
    secrets_client,
    topic_client,
)
from mcp_baton.features import AllFeatures
from mcp_baton.protocol.http import HttpRequest, HttpResponse
from mcp_baton.protocol.state import seal_of
from mcp_baton.server.endpoint import Endpoint
from mcp_baton.server.methods import Method, call_method
from mcp_baton.server.server import Server
from mcp_baton.settings import CONNECT_AUTO, CONNECT_INIT, Settings, approver_warnings, unknown_settings
from mcp_baton.tasks.store import StoreAtFirstUse, TaskStore
from mcp_baton.telemetry import SILENT, Collector, Telemetry
from mcp_baton.transport.adapter import CALLBACK_EVENT, JOB_EVENT, SWEEP_EVENT, LambdaAdapter
from mcp_baton.transport.exchange import Application, Exchange, do_later
from mcp_baton.workflow.server_view import ServerView
from mcp_baton.workflow.services import Services

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from mcp_baton.observability import ObservedHandler
    from mcp_baton.protocol.state import Keys
    from mcp_baton.tasks.dynamodb.table import Connect
    from mcp_baton.tasks.jobs import Dispatcher

logger = logging.getLogger(__name__)
NO_TABLE = "BATON_TABLE is not set: workflows run without tasks. Set it to the DynamoDB table's name."
ANONYMOUS_ALLOWED = (
    "BATON_ALLOW_ANONYMOUS is on: unauthenticated callers are accepted, and they share all their tasks. "
    "To authenticate callers, deploy with another Auth than NONE."
)
NO_APPROVER = (
    "BATON_ALLOW_ANONYMOUS is on, and unauthenticated callers cannot approve calls: the tools with an approval do not "
    "run. Deploy with another Auth than NONE, or with ApprovalLinks=on."
)

type LambdaHandler = Callable[[dict[str, Any], "LambdaContext"], dict[str, Any]]


class LambdaContext(Protocol):
    """The part of Lambda's context object that Baton uses."""

    @property
    def aws_request_id(self) -> str:
        """The invocation's id."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda stops the function."""


def handler(
    server: Server,
    *,
    settings: Settings | None = None,
    store: TaskStore | None = None,
    dynamodb: "DynamoDBClient | None" = None,
    dispatcher: "Dispatcher | None" = None,
) -> LambdaHandler:
    """Make the Lambda handler of a server. It checks and closes the server: nothing can be added afterwards.

    Args:
        server: The server.
        settings: The settings; by default, those of the environment.
        store: Stores the tasks; by default, the DynamoDB table of the settings. Without a store and a table, workflows
            run without tasks, and the first request logs a warning.
        dynamodb: A boto3 client for that table. Its timeouts, retries, credentials and endpoint are used as they are.
            By default, Baton creates a client.
        dispatcher: Invokes the worker for background tasks; by default, the Lambda function of the settings. Without
            a dispatcher, tools with `task="optional"` run within the request.

    Raises:
        WorkflowError: a workflow is invalid; names the workflow, the step and the cause.
        SettingsError: an environment variable has an invalid value.
        TypeError: a client belongs to another service, or was passed with a store, which has its own clients.
    """
    connect = cast("Connect | None", client_factory("dynamodb", dynamodb))
    if store is not None and connect:
        raise TypeError("a store has a client of its own: pass either `store` or `dynamodb`")
    warnings = unknown_settings(os.environ) if settings is None else []
    settings = Settings.from_environment(os.environ) if settings is None else settings
    return compose(server, settings, store=store, connect=connect, dispatcher=dispatcher, warnings=warnings)


def compose(
    server: Server,
    settings: Settings,
    *,
    store: TaskStore | None = None,
    connect: "Connect | None" = None,
    dispatcher: "Dispatcher | None" = None,
    warnings: Iterable[str] = (),
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    call_method: Method = call_method,
) -> LambdaHandler:
    """Make a handler from its parts. Internal: for `handler`, the local server and tests.

    Args:
        connect: Creates the DynamoDB client.
        warnings: Logged with the first request.
        clock: Returns seconds; measures runs, questions and the age of keys.
        sleep: Waits for a number of seconds before a step is retried.
    """
    server.check(in_full=False)
    server.close()
    server.full_view.check_lifetimes(settings.max_ttl_ms)
    collector = _collector() if settings.observed else None
    telemetry = collector or SILENT
    if store is None and settings.table is not None:
        needs_store = settings.connect == CONNECT_INIT or (
            settings.connect == CONNECT_AUTO and server.full_view.needs_store
        )
        if connect is None and needs_store:
            connect = _connect_now()
        make_store = partial(dynamodb_store, settings.table, settings, connect, telemetry=telemetry)
        store = make_store() if needs_store else cast("TaskStore", StoreAtFirstUse(make_store))
    if dispatcher is None and settings.worker is not None:
        dispatcher = LambdaDispatcher(settings.worker, lambda_client, telemetry=telemetry)
    services = services_of(server, settings, store, dispatcher, telemetry, clock, sleep)
    endpoint = Endpoint(services, call_method=call_method)
    first_warnings = [*warnings, *_warnings_about(settings, server.full_view), *([NO_TABLE] if store is None else [])]
    adapter = LambdaAdapter(
        _with_warnings(endpoint, first_warnings) if first_warnings else endpoint,
        allow_anonymous=settings.allow_anonymous,
        streaming=settings.streaming,
        event_handlers={JOB_EVENT: endpoint.work, SWEEP_EVENT: endpoint.sweep, CALLBACK_EVENT: endpoint.callback},
        start=endpoint.start,
    )
    return adapter if collector is None else _observe(adapter, collector, settings)


def _warnings_about(settings: Settings, view: ServerView) -> Iterator[str]:
    if settings.allow_anonymous and settings.observed and not settings.sam_local:
        yield ANONYMOUS_ALLOWED
        if not settings.approval_links and view.tools_with_approval:
            yield NO_APPROVER
    if (settings.approvers or settings.local_only) and not settings.approval_links:
        yield from approver_warnings(settings.approvers, view.approval_groups)


def services_of(
    server: Server,
    settings: Settings,
    store: TaskStore | None,
    dispatcher: "Dispatcher | None" = None,
    telemetry: Telemetry = SILENT,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Services:
    """Make the services of a process. Internal: for `compose` and for commands that run workflows without a handler."""
    return Services(
        server=server.full_view,
        store=store,
        settings=settings,
        seal=seal_of(settings, _state_keys(settings, telemetry, clock)),
        features=AllFeatures(),
        telemetry=telemetry,
        clock=clock,
        sleep=sleep,
        dispatcher=dispatcher,
        later=do_later,
        publisher=None if settings.approval_topic is None else TopicPublisher(settings.approval_topic, topic_client),
    )


def _observe(adapter: LambdaAdapter, collector: Collector, settings: Settings) -> "ObservedHandler":
    """Add logs, metrics and traces to the handler. Powertools is imported when there is something to write."""
    from mcp_baton.observability import EmbeddedMetrics, ObservedHandler, XRayTraces, install

    return ObservedHandler(
        adapter,
        collector,
        logs=install(settings.service),
        metrics=EmbeddedMetrics(settings.metrics_namespace, settings.service, settings.lambda_log_level),
        traces=XRayTraces(settings.service),
        sampled=_sampled,
        later=do_later,
        cold_start=not settings.provisioned,
    )


def _collector() -> Collector:
    """Make the collector, for OpenTelemetry if its SDK is set up. Setting it up has imported its API already."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None or isinstance(api.get_tracer_provider(), api.ProxyTracerProvider):
        return Collector()
    from mcp_baton.open_telemetry import OpenTelemetry

    return OpenTelemetry()


def _sampled() -> bool:
    """Return whether X-Ray samples the current invocation. Lambda sets the variable for each invocation."""
    return "Sampled=1" in os.environ.get("_X_AMZN_TRACE_ID", "")


def dynamodb_store(
    table: str,
    settings: Settings,
    connect: "Connect | None" = None,
    *,
    telemetry: Telemetry = SILENT,
    now_ms: Callable[[], int] | None = None,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    random: Callable[[], float] | None = None,
) -> TaskStore:
    """Make the store of a DynamoDB table.

    Args:
        table: The table's name.
        settings: The settings.
        connect: Creates the DynamoDB client, with the first request to the table; by default, `dynamodb_client`.
        telemetry: Records the latency of requests, and errors.
        now_ms: The wall clock, epoch milliseconds; by default, the system clock.
        monotonic: Seconds; limits the retries of a request.
        sleep: Waits for a number of seconds between two attempts.
        random: Returns a number from 0 to 1 for the length of these pauses.
    """
    from mcp_baton.stores import DynamoDBStore
    from mcp_baton.tasks.dynamodb.items import Limits, values_ms
    from mcp_baton.tasks.dynamodb.table import LazyClient, TaskTable, system_ms
    from mcp_baton.tasks.store import random_fraction

    limits = Limits(
        default_ttl_ms=settings.default_ttl_ms,
        max_ttl_ms=settings.max_ttl_ms,
        max_tasks_per_owner=settings.max_tasks_per_owner,
        values_ms=values_ms(settings.write_reserve_ms),
        audit_days=settings.audit_days,
    )
    requests = TaskTable(
        table,
        LazyClient(dynamodb_client if connect is None else connect),
        telemetry,
        clock_ms=system_ms if now_ms is None else now_ms,
        monotonic=monotonic,
        sleep=sleep,
        rng=random_fraction if random is None else random,
    )
    return DynamoDBStore(requests, limits)


def _connect_now() -> "Connect":
    """Create the DynamoDB client now and import the engine, so that no request waits for them (docs/performance.md)."""
    from botocore.exceptions import BotoCoreError

    import_module("mcp_baton.server.methods.prompts")
    try:
        client = dynamodb_client()
    except BotoCoreError:
        # No region, for example. The first request that needs the store tries again and reports the error.
        return dynamodb_client
    return lambda: client


def _state_keys(settings: Settings, telemetry: Telemetry, clock: Callable[[], float]) -> "Keys | None":
    if settings.state_key_secret is None:
        return None
    from mcp_baton.state_keys import SecretKeys

    return SecretKeys(settings.state_key_secret, secrets_client, telemetry=telemetry, clock=clock)


def _with_warnings(app: Application, warnings: list[str]) -> Application:
    """Log warnings about settings with the first request, after its response.

    Not at import: another program, such as `baton serve`, may import a file that makes a handler.
    """

    def call(request: HttpRequest, exchange: Exchange) -> HttpResponse | None:
        while warnings:
            do_later(partial(logger.warning, warnings.pop(0)))
        return app(request, exchange)

    return call
