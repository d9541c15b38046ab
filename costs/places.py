"""Where the tasks of a measured workflow are kept, and what counts the requests."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from costs.metering import Aside, Meter
from emulators.s3 import embedded_s3, new_bucket
from mcp_baton.local.dynamodb import embedded_client, http_client
from mcp_baton.local.embedded import EmbeddedEngine

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest, AWSResponse
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True, slots=True)
class Place:
    """Where tasks are kept, and what counts the requests.

    Attributes:
        dynamodb: A client whose requests are not counted.
        counted: A client for handlers.
        s3: The same for S3.
        bucket: A bucket there.
        meter: Counts.
    """

    dynamodb: "DynamoDBClient"
    counted: "DynamoDBClient"
    s3: "S3Client"
    bucket: str
    meter: Meter


@contextmanager
def by_consumed_capacity(url: str) -> Iterator[Place]:
    """A DynamoDB that tells its units, at a URL."""
    aside = Aside()
    with _s3(aside) as s3, closing(http_client(url)) as own, closing(http_client(url)) as counted:
        bucket, meter = new_bucket(s3).name, Meter(counted, s3, aside)
        yield Place(own, counted, s3, bucket, meter)


@contextmanager
def by_sizes() -> Iterator[Place]:
    """A DynamoDB in this process, whose items are looked at."""
    aside = Aside()
    engine = _Timed(aside)
    with _s3(aside) as s3, closing(embedded_client(engine)) as own, closing(embedded_client(engine)) as counted:
        bucket, meter = new_bucket(s3).name, Meter(counted, s3, aside, looking=own)
        yield Place(own, counted, s3, bucket, meter)


class _Timed(EmbeddedEngine):
    def __init__(self, aside: Aside) -> None:
        super().__init__()
        self._aside = aside

    def answer(self, request: "AWSPreparedRequest", **kwargs: object) -> "AWSResponse":
        with self._aside():
            return super().answer(request, **kwargs)


@contextmanager
def _s3(aside: Aside) -> "Iterator[S3Client]":
    """An S3 in this process. The time from a request's sending to its answer is the stand-in's, not the handler's."""

    def begin(**_: object) -> None:
        aside.begin()

    def end(**_: object) -> None:
        aside.end()

    with closing(embedded_s3()) as s3:
        s3.meta.events.register_first("before-send.s3", begin)
        s3.meta.events.register_first("response-received.s3", end)
        yield s3
