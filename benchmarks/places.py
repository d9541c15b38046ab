"""Where the tasks of a measured workflow are kept, and what counts the requests."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.metering import Aside, Meter
from mcp_baton.local.dynamodb import embedded_client, http_client
from mcp_baton.local.embedded import EmbeddedEngine
from tests.buckets import embedded_s3, new_bucket
from tests.dynamodb_local import engine as dynamodb_local

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest, AWSResponse
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True, slots=True)
class Place:
    """Where tasks are kept, and what counts the requests.

    Attributes:
        name: How the units are known.
        dynamodb: A client whose requests are not counted.
        counted: A client for handlers.
        s3: The same for S3.
        bucket: A bucket there.
        meter: Counts.
    """

    name: str
    dynamodb: "DynamoDBClient"
    counted: "DynamoDBClient"
    s3: "S3Client"
    bucket: str
    meter: Meter


@contextmanager
def place(*, sizes: bool = False) -> Iterator[Place]:
    """DynamoDB Local; where it is missing, or `sizes` are asked for, an engine in this process and its items' sizes."""
    reason = dynamodb_local.left_out()
    if reason is None and not dynamodb_local.LIBRARY.exists():
        reason = "DynamoDB Local is not installed (make setup-tests installs it)"
    with ExitStack() as stack:
        s3 = stack.enter_context(closing(embedded_s3()))
        aside, bucket = Aside(), new_bucket(s3).name
        _time_s3(s3, aside)
        if sizes or reason is not None:
            engine = _Timed(aside)
            clients = [stack.enter_context(closing(embedded_client(engine))) for _ in range(2)]
            name = f"Units from item sizes: {reason or 'as asked for'}."
            yield Place(name, clients[0], clients[1], s3, bucket, Meter(clients[1], s3, aside, clients[0]))
            return
        folder = Path(stack.enter_context(TemporaryDirectory()))
        url = stack.enter_context(dynamodb_local.running(folder))
        clients = [stack.enter_context(closing(http_client(url))) for _ in range(2)]
        name = "Units as DynamoDB Local 2.6.1 tells them (ConsumedCapacity)."
        yield Place(name, clients[0], clients[1], s3, bucket, Meter(clients[1], s3, aside))


class _Timed(EmbeddedEngine):
    def __init__(self, aside: Aside) -> None:
        super().__init__("us-east-1")
        self._aside = aside

    def answer(self, request: "AWSPreparedRequest", **kwargs: object) -> "AWSResponse":
        with self._aside():
            return super().answer(request, **kwargs)


def _time_s3(s3: "S3Client", aside: Aside) -> None:
    """Take the time from a request's sending to its answer, which a stand-in for S3 needs, for not the handler's."""

    def begin(**_: object) -> None:
        aside.begin()

    def end(**_: object) -> None:
        aside.end()

    s3.meta.events.register_first("before-send.s3", begin)
    s3.meta.events.register_first("response-received.s3", end)
