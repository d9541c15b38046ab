"""A server as an AWS Lambda handler: the composition root (contract sections 2 and 9).

```python
from mcp_baton.aws import handler

lambda_handler = handler(server)
```
"""

import gc
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, cast

from mcp_baton.protocol.http import Application, Exchange, HttpRequest, HttpResponse
from mcp_baton.server.endpoint import Endpoint
from mcp_baton.server.server import Server
from mcp_baton.settings import Settings
from mcp_baton.tasks.store import TaskStore
from mcp_baton.transport.adapter import LambdaAdapter

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

logger = logging.getLogger(__name__)

# A DynamoDB that hangs must leave the write reserve (5 s) something to answer with. An attempt that is accepted and
# never answered costs the read timeout, one that is never accepted the connect timeout, and standard mode waits up to
# 1 s between the two attempts: 2 x 1.5 s + 1 s. An answer from within the region takes milliseconds.
CONNECT_TIMEOUT_S = 1.0
READ_TIMEOUT_S = 1.5
ATTEMPTS = 2


class LambdaContext(Protocol):
    """What Baton uses of the context object that Lambda hands to a handler."""

    @property
    def aws_request_id(self) -> str:
        """The invocation's id."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the function is stopped."""


def handler(
    server: Server, *, settings: Settings | None = None, store: TaskStore | None = None
) -> Callable[[dict[str, Any], LambdaContext], dict[str, Any]]:
    """Make the Lambda handler of a server.

    Args:
        server: What it serves.
        settings: From the environment when not given.
        store: Keeps the tasks. When not given: the DynamoDB table that the settings name. Without either, workflows
            run without tasks, and the first request logs that.

    Raises:
        SettingsError: an environment variable holds a value that cannot be used.
    """
    if settings is None:
        settings = Settings.from_environment(os.environ)
    if store is None and settings.table is not None:
        store = dynamodb_store(settings.table, settings)
    app: Application = Endpoint(server, store=store, settings=settings)
    return LambdaAdapter(
        app if store is not None else _WithoutTasks(app),
        allow_anonymous=settings.allow_anonymous,
        streaming=settings.streaming,
    )


def dynamodb_store(table: str, settings: Settings, connect: "Callable[[], DynamoDBClient] | None" = None) -> TaskStore:
    """The tasks in this DynamoDB table. `connect` makes the client when it is first needed; boto3's by default."""
    from mcp_baton.tasks.dynamodb import DynamoDBTaskStore
    from mcp_baton.tasks.items import Limits

    limits = Limits(
        default_ttl_ms=settings.default_ttl_ms,
        max_ttl_ms=settings.max_ttl_ms,
        max_tasks_per_owner=settings.max_tasks_per_owner,
    )
    return DynamoDBTaskStore(table, dynamodb_client if connect is None else connect, limits=limits)


def dynamodb_client() -> "DynamoDBClient":
    """A client for DynamoDB where AWS's own configuration says it is.

    botocore's, which is what boto3 would give out: importing boto3 too would cost a tenth more. What is imported here
    stays, and looking for garbage among it in between costs a twentieth.
    """
    with _without_collecting():
        from botocore.config import Config
        from botocore.session import get_session

        config = Config(
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            tcp_keepalive=True,
        )
        return cast("DynamoDBClient", get_session().create_client("dynamodb", config=config))


@contextmanager
def _without_collecting() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _WithoutTasks:
    """An application that says, once, that there is nowhere to keep tasks.

    With the first request rather than at import: a file that makes a handler may be imported by something else, such
    as `baton serve`, which then makes its own handler with a store.
    """

    def __init__(self, app: Application) -> None:
        self._app = app
        self._warned = False

    def __call__(self, request: HttpRequest, exchange: Exchange) -> HttpResponse | None:
        if not self._warned:
            self._warned = True
            logger.warning("BATON_TABLE is not set: workflows run without tasks. Set it to the DynamoDB table's name.")
        return self._app(request, exchange)
