"""The storage of measured workflows, with a meter."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from costs.metering import EmulatorTime, Meter
from emulators.s3 import embedded_s3, new_bucket
from mcp_baton.local.dynamodb import embedded_client, http_client
from mcp_baton.local.embedded import EmbeddedEngine

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest, AWSResponse
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True, slots=True)
class Place:
    """The storage for tasks, and the meter of the requests to it.

    Attributes:
        dynamodb: A client whose requests are not counted.
        counted: The client for handlers, whose requests are counted.
        s3: The S3 client for handlers, whose requests are counted.
        bucket: The name of a bucket.
        meter: Counts the requests.
    """

    dynamodb: "DynamoDBClient"
    counted: "DynamoDBClient"
    s3: "S3Client"
    bucket: str
    meter: Meter


@contextmanager
def by_consumed_capacity(url: str) -> Iterator[Place]:
    """Use the DynamoDB at a URL, which returns consumed units."""
    timer = EmulatorTime()
    with _s3(timer) as s3, closing(http_client(url)) as uncounted, closing(http_client(url)) as counted:
        bucket, meter = new_bucket(s3).name, Meter(counted, s3, timer)
        yield Place(uncounted, counted, s3, bucket, meter)


@contextmanager
def by_sizes() -> Iterator[Place]:
    """Use a DynamoDB in this process, and compute units from the sizes of items."""
    timer = EmulatorTime()
    engine = _TimedEngine(timer)
    with _s3(timer) as s3, closing(embedded_client(engine)) as uncounted, closing(embedded_client(engine)) as counted:
        bucket, meter = new_bucket(s3).name, Meter(counted, s3, timer, reader=uncounted)
        yield Place(uncounted, counted, s3, bucket, meter)


class _TimedEngine(EmbeddedEngine):
    def __init__(self, timer: EmulatorTime) -> None:
        super().__init__()
        self._emulator_time = timer

    def answer(self, request: "AWSPreparedRequest", **kwargs: object) -> "AWSResponse":
        with self._emulator_time():
            return super().answer(request, **kwargs)


@contextmanager
def _s3(timer: EmulatorTime) -> "Iterator[S3Client]":
    """Emulate S3 in this process. The time between a request and its response is the emulator's, not the handler's."""

    def begin(**_: object) -> None:
        timer.begin()

    def end(**_: object) -> None:
        timer.end()

    with closing(embedded_s3()) as s3:
        s3.meta.events.register_first("before-send.s3", begin)
        s3.meta.events.register_first("response-received.s3", end)
        yield s3
