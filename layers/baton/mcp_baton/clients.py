"""Clients of AWS with timeouts that leave time for a reply. botocore is imported with the first client."""

import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from mcp_baton.exceptions import NotDispatched
from mcp_baton.protocol.json import JsonObject, dumps
from mcp_baton.telemetry import SILENT, Telemetry

if TYPE_CHECKING:
    from botocore.client import BaseClient
    from mypy_boto3_dynamodb import DynamoDBClient

# If DynamoDB does not answer, part of the write reserve (5 s) must remain for the reply. An attempt costs the connect
# timeout if DynamoDB does not accept the connection, and the read timeout if it does not answer. botocore makes one
# attempt. The store retries by itself: it knows how much time is left and whether an earlier attempt was applied
# (ARCHITECTURE.md, Lost answers).
CONNECT_TIMEOUT_S = 1.0
READ_TIMEOUT_S = 1.0
DYNAMODB_ATTEMPTS = 1

# botocore retries requests to Secrets Manager and Lambda once.
OTHER_AWS_ATTEMPTS = 2

UNREACHABLE_S: Final = 30.0
"""How long nothing is published after SNS has not answered. Otherwise, each approval of a list delays the reply."""

ACCEPTED_STATUS: Final = 202
"""Lambda's status for an event that it has queued."""


def dynamodb_client(region: str | None = None) -> "DynamoDBClient":
    """Create a client for DynamoDB. The environment configures it, like every boto3 client.

    Args:
        region: A region that replaces the one of the environment. On Lambda, boto3 finds its region by itself.
    """
    # DynamoDB validates parameters itself.
    client = _client("dynamodb", DYNAMODB_ATTEMPTS, region=region, parameter_validation=False)
    return cast("DynamoDBClient", client)


def secrets_client() -> "BaseClient":
    return _client("secretsmanager")


def lambda_client() -> "BaseClient":
    return _client("lambda")


def topic_client(topic: str) -> "BaseClient":
    """Create a client for the region of an SNS topic: the APIs of other regions do not find it."""
    return _client("sns", region=topic.split(":")[3])


def _client(
    service: str,
    attempts: int = OTHER_AWS_ATTEMPTS,
    *,
    region: str | None = None,
    parameter_validation: bool = True,
) -> "BaseClient":
    from botocore.config import Config
    from botocore.session import Session

    config = Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        retries={"mode": "standard", "total_max_attempts": attempts},
        tcp_keepalive=True,
        parameter_validation=parameter_validation,
    )
    # boto3 would create the same client, but it imports s3transfer and multiprocessing. Each client has its own
    # session, because a session must not create clients in two threads at once.
    connect: Callable[..., BaseClient] = Session().create_client
    return connect(service, region_name=region, config=config)


def client_factory[Client](service: str, client: Client | None) -> Callable[[], Client] | None:
    """Return a function that returns the caller's client, or `None` if the caller passed none. Raises `TypeError` if
    the argument is not a client of this service."""
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
    event that is sent twice is harmless. If it is lost, a poll or a sweep dispatches the task again.

    Args:
        worker: The function and its alias: an ARN, or `name:alias`.
        connect: Creates the Lambda client with the first event, because few requests start background work.
    """

    def __init__(self, worker: str, connect: "Callable[[], BaseClient]", *, telemetry: Telemetry = SILENT) -> None:
        self._worker = worker
        self._client: Callable[[], Any] = cache(connect)
        self._telemetry = telemetry

    def dispatch(self, event: JsonObject) -> None:
        """Send the event. When this returns, Lambda has accepted it; the worker has not run yet. Raises `NotDispatched`
        if Lambda did not accept the event, or the outcome is unknown."""
        try:
            client = self._client()
            with self._telemetry.span("Lambda", operation="Invoke", function_name=self._worker):
                payload = dumps(event).encode()
                response = client.invoke(FunctionName=self._worker, InvocationType="Event", Payload=payload)
                if response["StatusCode"] != ACCEPTED_STATUS:
                    raise NotDispatched(f"Lambda answered {response['StatusCode']} instead of {ACCEPTED_STATUS}")
        except Exception as error:
            cause = f"{type(error).__name__}: {error}"
            raise NotDispatched(f"BATON_WORKER={self._worker} could not be invoked: {cause}") from error


class TopicPublisher:
    """Publishes to an SNS topic (docs/approvals.md, Notifications). Implements `tasks.approvals.Publisher`.

    Args:
        topic: The topic's ARN.
        connect: Creates the SNS client with the first message.
    """

    def __init__(self, topic: str, connect: "Callable[[str], BaseClient]") -> None:
        self._topic = topic
        self._client: Callable[[str], Any] = cache(connect)
        self._next_attempt_s = 0.0

    def publish(self, message: str) -> None:
        """Publish the message. Raises an error of botocore, or `TimeoutError` if SNS has not answered a moment ago."""
        if time.monotonic() < self._next_attempt_s:
            raise TimeoutError(f"SNS did not answer; the next attempt is {UNREACHABLE_S:.0f} s after the last one")
        try:
            self._client(self._topic).publish(TopicArn=self._topic, Message=message)
        except Exception as error:
            from botocore.exceptions import ClientError

            if not isinstance(error, ClientError):  # a refusal, which is fast
                self._next_attempt_s = time.monotonic() + UNREACHABLE_S
            raise
