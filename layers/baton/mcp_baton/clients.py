"""Clients for AWS, with timeouts that leave a request something to answer with. The SDK is imported with the first."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from botocore.awsrequest import AWSRequest
    from botocore.client import BaseClient
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

# A DynamoDB that hangs must leave the write reserve (5 s) something to answer with. An attempt that is accepted and
# never answered costs the read timeout, one that is never accepted the connect timeout. An answer from within the
# region takes milliseconds. botocore makes one attempt: the store sends again by itself, where it is known how much
# time there is and what a token in the item says (docs/storage.md).
CONNECT_TIMEOUT_S = 1.0
READ_TIMEOUT_S = 1.0
ATTEMPTS = 1

# What is asked of S3 and Secrets Manager is asked once more by botocore.
OTHER_ATTEMPTS = 2

# The same reserve pays for an S3 that hangs and for a DynamoDB that hangs once after it: 2 x 1 s + 1 s, and 1.5 s. One
# failure is all that S3 can cost a write, which then asks it for nothing more.
S3_TIMEOUT_S = 1.0


def dynamodb_client() -> "DynamoDBClient":
    """A client for DynamoDB where AWS's own configuration says it is."""
    return cast("DynamoDBClient", _client("dynamodb", CONNECT_TIMEOUT_S, READ_TIMEOUT_S, ATTEMPTS))


def s3_client() -> "S3Client":
    """A client for S3 where AWS's own configuration says it is."""
    client = _client("s3", S3_TIMEOUT_S, S3_TIMEOUT_S, OTHER_ATTEMPTS)
    # Asking S3 before sending an object costs a round trip, and where S3 hangs a second more than the timeout.
    client.meta.events.register("request-created.s3.PutObject", _send_at_once)
    return cast("S3Client", client)


def secrets_client() -> "BaseClient":
    """A client for Secrets Manager where AWS's own configuration says it is."""
    return _client("secretsmanager", CONNECT_TIMEOUT_S, READ_TIMEOUT_S, OTHER_ATTEMPTS)


def _client(service: str, connect_timeout_s: float, read_timeout_s: float, attempts: int) -> "BaseClient":
    """botocore's client, which is what boto3 would give out, without the imports around it (docs/performance.md).

    What is imported here stays, and looking for garbage among it in between costs a twentieth.
    """
    with _without_collecting():
        from botocore.config import Config
        from botocore.session import get_session

        config = Config(
            connect_timeout=connect_timeout_s,
            read_timeout=read_timeout_s,
            retries={"mode": "standard", "total_max_attempts": attempts},
            tcp_keepalive=True,
        )
        return get_session().create_client(service, config=config)


@contextmanager
def _without_collecting() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _send_at_once(request: "AWSRequest", **_: object) -> None:
    del request.headers["Expect"]


def given_client[Client](service: str, client: Client | None) -> Callable[[], Client] | None:
    """What gives out a client that the caller made; `None` where they made none.

    Raises:
        TypeError: it is no client, or another service's.
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
