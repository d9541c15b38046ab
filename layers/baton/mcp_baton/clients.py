"""Clients of AWS with timeouts that leave time for a reply. botocore is imported with the first client."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from mcp_baton.exceptions import NotDispatched
from mcp_baton.protocol.json import JsonObject, dumps
from mcp_baton.telemetry import SILENT, Telemetry

if TYPE_CHECKING:
    from botocore.awsrequest import AWSRequest
    from botocore.client import BaseClient
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

# If DynamoDB does not answer, part of the write reserve (5 s) must remain for the reply. An attempt costs the connect
# timeout if DynamoDB does not accept the connection, and the read timeout if it does not answer. botocore makes one
# attempt. The store retries by itself: it knows how much time is left and whether an earlier attempt was applied
# (docs/storage.md, Lost answers).
CONNECT_TIMEOUT_S = 1.0
READ_TIMEOUT_S = 1.0
ATTEMPTS = 1

# botocore retries requests to S3 and Secrets Manager once.
OTHER_ATTEMPTS = 2

# The write reserve also covers an S3 that does not answer, followed by one DynamoDB timeout: 2 x 1 s + 1 s, and 1.5 s.
# After one failure of S3, a write does not use S3 again.
S3_TIMEOUT_S = 1.0

# Statuses of Lambda.
ACCEPTED: Final = 202
THROTTLED: Final = 429
FIRST_FAULT: Final = 500

ATTEMPT_S: Final = CONNECT_TIMEOUT_S + READ_TIMEOUT_S
"""The longest time of one invocation of the worker, seconds."""
BUDGET_S: Final = 3.5
"""The longest time of both attempts to invoke it, seconds. It is less than the write reserve of 5 s."""
LONGEST_PAUSE_S: Final = 0.3
"""The longest pause between them, seconds. It is random, so that throttled callers do not retry at the same time."""


def dynamodb_client() -> "DynamoDBClient":
    """A client for DynamoDB, configured by the environment like every boto3 client."""
    # DynamoDB validates parameters itself.
    client = _client("dynamodb", CONNECT_TIMEOUT_S, READ_TIMEOUT_S, ATTEMPTS, parameter_validation=False)
    return cast("DynamoDBClient", client)


def s3_client() -> "S3Client":
    """A client for S3."""
    client = _client("s3", S3_TIMEOUT_S, S3_TIMEOUT_S, OTHER_ATTEMPTS)
    # With `Expect: 100-continue`, botocore first waits up to one second for S3 to accept the upload.
    client.meta.events.register("request-created.s3.PutObject", _send_at_once)
    return cast("S3Client", client)


def secrets_client() -> "BaseClient":
    """A client for Secrets Manager."""
    return _client("secretsmanager", CONNECT_TIMEOUT_S, READ_TIMEOUT_S, OTHER_ATTEMPTS)


def lambda_client() -> "BaseClient":
    """A client for Lambda. It makes one attempt; `LambdaDispatcher` decides about retries."""
    return _client("lambda", CONNECT_TIMEOUT_S, READ_TIMEOUT_S, ATTEMPTS)


def _client(
    service: str, connect_timeout_s: float, read_timeout_s: float, attempts: int, *, parameter_validation: bool = True
) -> "BaseClient":
    from botocore.config import Config
    from botocore.session import Session

    config = Config(
        connect_timeout=connect_timeout_s,
        read_timeout=read_timeout_s,
        retries={"mode": "standard", "total_max_attempts": attempts},
        tcp_keepalive=True,
        parameter_validation=parameter_validation,
    )
    # boto3 would make the same client, and import s3transfer and multiprocessing for it. A session of its own, because
    # a session must not create clients in two threads at once.
    connect: Callable[..., BaseClient] = Session().create_client
    return connect(service, config=config)


def _send_at_once(request: "AWSRequest", **_: object) -> None:
    del request.headers["Expect"]


def given_client[Client](service: str, client: Client | None) -> Callable[[], Client] | None:
    """Return a function that returns the caller's client, or `None` if the caller passed none.

    Raises:
        TypeError: the argument is not a client of this service.
    """
    if client is None:
        return None
    model = getattr(getattr(client, "meta", None), "service_model", None)
    if model is None or model.service_name != service:
        raise TypeError(
            f"handler({service}=…) takes a client, boto3.client({service!r}), and got {type(client).__name__!r}; "
            "a boto3 resource has its client at `.meta.client`"
        )
    return lambda: client


class LambdaDispatcher:
    """Invokes the worker function asynchronously (docs/background.md, When something fails). Implements
    `tasks.jobs.Dispatcher`.

    Lambda API Reference, "Invoke": with `InvocationType=Event`, status 202 means that Lambda has queued the event. An
    event that Lambda did not accept is sent once more: the connection was refused, closed or not established in time,
    or Lambda throttled or failed. After a read timeout it is not sent again, because Lambda may have accepted it. If
    such an event is lost, a poll of the task dispatches it again.

    Args:
        worker: The function and its alias: an ARN, or `name:alias`.
        connect: Creates the Lambda client with the first event, because few requests start background work.
        random: Returns a number from 0 to 1.
    """

    def __init__(
        self,
        worker: str,
        connect: "Callable[[], BaseClient]",
        *,
        telemetry: Telemetry = SILENT,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        random: Callable[[], float] | None = None,
    ) -> None:
        self._worker = worker
        self._connect = connect
        self._telemetry = telemetry
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._client: Any = None

    def dispatch(self, event: JsonObject) -> None:
        """Send the event. When this returns, Lambda has accepted it; the worker has not run yet.

        Raises:
            NotDispatched: Lambda did not accept the event, or the outcome is unknown.
        """
        began = self._clock()
        try:
            self._invoke(event)
        except Exception as error:
            pause_s = self._pause_s()
            if not _is_retryable(error) or self._clock() - began + pause_s + ATTEMPT_S > BUDGET_S:
                raise self._failure(error) from error
            self._sleep(pause_s)
            try:
                self._invoke(event)
            except Exception as last:
                raise self._failure(last) from last

    def _invoke(self, event: JsonObject) -> None:
        if self._client is None:
            self._client = self._connect()
        with self._telemetry.span("Lambda", operation="Invoke", function_name=self._worker):
            answer = self._client.invoke(
                FunctionName=self._worker, InvocationType="Event", Payload=dumps(event).encode()
            )
            status = answer["StatusCode"]
            if status != ACCEPTED:
                raise NotDispatched(f"Lambda answered {status} instead of {ACCEPTED}")

    def _pause_s(self) -> float:
        if self._random is None:
            from random import random

            self._random = random
        return LONGEST_PAUSE_S * self._random()

    def _failure(self, error: Exception) -> NotDispatched:
        return NotDispatched(f"BATON_WORKER={self._worker} could not be invoked: {type(error).__name__}: {error}")


def _is_retryable(error: Exception) -> bool:
    """Return whether Lambda did not accept the event and may accept it later."""
    from botocore import exceptions as botocore

    if isinstance(error, botocore.ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return status == THROTTLED or status >= FIRST_FAULT
    return isinstance(
        error, botocore.ConnectTimeoutError | botocore.EndpointConnectionError | botocore.ConnectionClosedError
    )
