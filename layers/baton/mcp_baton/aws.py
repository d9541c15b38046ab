"""A server as an AWS Lambda handler: the composition root (docs/deploying.md).

```python
from mcp_baton.aws import handler

lambda_handler = handler(server)
```
"""

import logging
import os
import time
from collections.abc import Callable
from functools import partial, reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from mcp_baton.clients import WorkerDispatcher, dynamodb_client, given_client, s3_client, secrets_client
from mcp_baton.exceptions import SettingsError
from mcp_baton.protocol.http import Application, Exchange, HttpRequest, HttpResponse
from mcp_baton.protocol.state import seal_of
from mcp_baton.server.endpoint import Endpoint
from mcp_baton.server.methods import Method, call_method
from mcp_baton.server.server import Server
from mcp_baton.server.services import Services
from mcp_baton.settings import AUTO, INIT, Settings, unknown_settings
from mcp_baton.tasks.store import TaskStore
from mcp_baton.telemetry import SILENT, Collector, Telemetry
from mcp_baton.transport.adapter import LambdaAdapter
from mcp_baton.transport.request_context import resolve_owner
from mcp_baton.transport.stream import do_later

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

    from mcp_baton.observability.observed import ObservedHandler
    from mcp_baton.protocol.state import Keys
    from mcp_baton.tasks.dynamodb.overflow import ObjectStore
    from mcp_baton.tasks.dynamodb.table import Connect
    from mcp_baton.tasks.jobs import Dispatcher

logger = logging.getLogger(__name__)
NO_TABLE = "BATON_TABLE is not set: workflows run without tasks. Set it to the DynamoDB table's name."
ANYBODY = (
    "BATON_ALLOW_ANONYMOUS is on: whoever has no identity may call, and all of them see and change each other's tasks. "
    "Deploy with another Auth than NONE to know callers apart."
)


class LambdaContext(Protocol):
    """What Baton uses of the context object that Lambda hands to a handler."""

    @property
    def aws_request_id(self) -> str:
        """The invocation's id."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the function is stopped."""


def handler(
    server: Server,
    *,
    settings: Settings | None = None,
    store: TaskStore | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    dynamodb: "DynamoDBClient | None" = None,
    s3: "S3Client | None" = None,
    dispatcher: "Dispatcher | None" = None,
    call_method: Method = call_method,
) -> Callable[[dict[str, Any], LambdaContext], dict[str, Any]]:
    """Make the Lambda handler of a server. The server is checked and closed: nothing can be added to it afterwards.

    Args:
        server: What it serves.
        settings: From the environment when not given.
        store: Keeps the tasks. When not given: the DynamoDB table that the settings name. Without either, workflows
            run without tasks, and the first request logs that.
        clock: Seconds, from any moment on; how long runs and questions take, and the age of keys, is measured by it.
        sleep: Lets so many seconds pass, between two attempts at a step.
        dynamodb: A boto3 client for DynamoDB, used for that table as it is: its timeouts, retries, credentials and
            endpoint are the caller's. When not given, Baton connects when it first needs to. It brings no table: where
            the settings name none, workflows run without tasks all the same.
        s3: The same for S3, used for the bucket that the settings name, if they name one.
        dispatcher: Invokes the worker for background work. When not given: one for the Lambda function that the
            settings name. Without either, tools that may run in the background run in the request.
        call_method: Gives a request's result; see `Endpoint`.

    Raises:
        WorkflowError: a workflow of the server's cannot work; names workflow, step and cause.
        SettingsError: an environment variable holds a value that cannot be used.
        TypeError: a client is not of its service, or comes with a store, which has its own.
    """
    server.check(in_full=False)
    server.close()
    connect, connect_s3 = cast("Connect | None", given_client("dynamodb", dynamodb)), given_client("s3", s3)
    if store is not None and (connect or connect_s3):
        raise TypeError("a store has clients of its own: pass either `store`, or `dynamodb` and `s3`")
    warnings = unknown_settings(os.environ) if settings is None else []
    settings = Settings.from_environment(os.environ) if settings is None else settings
    collector = Collector() if settings.observed else None
    telemetry = collector or SILENT
    if store is None and settings.table is not None:
        if connect is None and (settings.connect == INIT or (settings.connect == AUTO and server.needs_store)):
            connect = _connected()
        store = dynamodb_store(settings.table, settings, connect, connect_s3, telemetry=telemetry)
    if dispatcher is None and settings.worker is not None:
        dispatcher = WorkerDispatcher(settings.worker, telemetry)
    services = Services(
        server=server,
        store=store,
        settings=settings,
        seal=seal_of(settings, _state_keys(settings, telemetry, clock)),
        telemetry=telemetry,
        clock=clock,
        sleep=sleep,
        dispatcher=dispatcher,
    )
    endpoint = Endpoint(services, call_method=call_method)
    app: Application = _Warning(endpoint, NO_TABLE) if store is None else endpoint
    if settings.allow_anonymous and settings.observed and not settings.sam_local:
        warnings.append(ANYBODY)
    app = reduce(_Warning, warnings, app)
    owner = partial(resolve_owner, trust_session_names=settings.trust_session_names)
    adapter = LambdaAdapter(
        app, allow_anonymous=settings.allow_anonymous, streaming=settings.streaming, owner=owner, work=endpoint.work
    )
    return adapter if collector is None else _observed(adapter, collector, settings)


def _observed(adapter: LambdaAdapter, collector: Collector, settings: Settings) -> "ObservedHandler":
    """The handler with its logs, metrics and traces. Powertools is imported when there is something to write."""
    from mcp_baton.observability.logs import install
    from mcp_baton.observability.metrics import EmbeddedMetrics
    from mcp_baton.observability.observed import ObservedHandler
    from mcp_baton.observability.traces import XRayTraces

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


def _sampled() -> bool:
    """Whether X-Ray keeps the trace of the invocation that is running, as Lambda says anew for each one."""
    return "Sampled=1" in os.environ.get("_X_AMZN_TRACE_ID", "")


def dynamodb_store(
    table: str,
    settings: Settings,
    connect: "Connect | None" = None,
    connect_s3: "Callable[[], S3Client] | None" = None,
    *,
    telemetry: Telemetry = SILENT,
    now_ms: Callable[[], int] | None = None,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    random: Callable[[], float] | None = None,
) -> TaskStore:
    """The tasks in this DynamoDB table, and large values in the settings' bucket where they name one.

    Args:
        settings: The operator's choices.
        connect: Creates a boto3 client at the first request; `dynamodb_client` by default.
        connect_s3: The same for S3.
        telemetry: Takes the requests' times, and failures.
        now_ms: The wall clock, epoch milliseconds; the machine's by default.
        monotonic: Seconds, from any moment on: how long a request has been sent again is measured by it.
        sleep: Lets so many seconds pass, between two attempts at a request.
        random: Gives a number from 0 up to 1, for those pauses.

    Raises:
        SettingsError: tasks may live longer than objects in the bucket.
    """
    from mcp_baton.tasks.dynamodb.items import Limits, values_ms
    from mcp_baton.tasks.dynamodb.retry_policy import random_fraction
    from mcp_baton.tasks.dynamodb.store import DynamoDBTaskStore
    from mcp_baton.tasks.dynamodb.table import Connection, TaskTable, system_ms
    from mcp_baton.tasks.dynamodb.task_items import TaskItems

    limits = Limits(
        default_ttl_ms=settings.default_ttl_ms,
        max_ttl_ms=settings.max_ttl_ms,
        max_tasks_per_owner=settings.max_tasks_per_owner,
        values_ms=values_ms(settings.write_reserve_ms),
        shards=settings.shards,
    )
    requests = TaskTable(
        table,
        Connection(dynamodb_client if connect is None else connect),
        telemetry,
        clock_ms=system_ms if now_ms is None else now_ms,
        monotonic=monotonic,
        sleep=sleep,
        rng=random_fraction if random is None else random,
    )
    objects = _overflow(settings, s3_client if connect_s3 is None else connect_s3, telemetry)
    return DynamoDBTaskStore(TaskItems(requests, limits, objects))


def _connected() -> "Connect":
    """Create the DynamoDB client now and import the engine, so that no request waits for them (docs/performance.md)."""
    from botocore.exceptions import BotoCoreError

    import_module("mcp_baton.server.methods.prompts")
    try:
        client = dynamodb_client()
    except BotoCoreError:
        # No region, for example. The first request that needs the store tries again and reports the error.
        return dynamodb_client
    return lambda: client


def _overflow(settings: Settings, connect: "Callable[[], S3Client]", telemetry: Telemetry) -> "ObjectStore | None":
    if settings.overflow_bucket is None:
        return None
    from mcp_baton.tasks.dynamodb.overflow import LONGEST_TTL_MS
    from mcp_baton.tasks.dynamodb.s3 import S3ObjectStore

    if settings.max_ttl_ms > LONGEST_TTL_MS:
        raise SettingsError(
            f"BATON_MAX_TTL_MS={settings.max_ttl_ms} is more than {LONGEST_TTL_MS}, for which objects in "
            "BATON_OVERFLOW_BUCKET are sure to be kept: lower it or set no bucket"
        )
    return S3ObjectStore(settings.overflow_bucket, connect, telemetry)


def _state_keys(settings: Settings, telemetry: Telemetry, clock: Callable[[], float]) -> "Keys | None":
    if settings.state_key_secret is None:
        return None
    from mcp_baton.state_keys import SecretKeys

    return SecretKeys(settings.state_key_secret, secrets_client, telemetry=telemetry, clock=clock)


class _Warning:
    """An application that warns of a setting, once.

    With the first request rather than at import: a file that makes a handler may be imported by something else, such
    as `baton serve`, which makes its own with a store. And when that is answered: it need not wait for the Logger.
    """

    def __init__(self, app: Application, warning: str) -> None:
        self._app = app
        self._warning: str | None = warning

    def __call__(self, request: HttpRequest, exchange: Exchange) -> HttpResponse | None:
        warning, self._warning = self._warning, None
        if warning:
            do_later(lambda: logger.warning(warning))
        return self._app(request, exchange)
