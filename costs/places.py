"""The storage of measured workflows, with a meter."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from costs.metering import EmulatorTime, Meter
from mcp_baton.local.dynamodb import embedded_client, http_client
from mcp_baton.local.embedded import EmbeddedEngine

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest, AWSResponse
    from mypy_boto3_dynamodb import DynamoDBClient


@dataclass(frozen=True, slots=True)
class Place:
    """The storage for tasks, and the meter of the requests to it.

    Attributes:
        dynamodb: A client whose requests are not counted.
        counted: The client for handlers, whose requests are counted.
        meter: Counts the requests.
    """

    dynamodb: "DynamoDBClient"
    counted: "DynamoDBClient"
    meter: Meter


@contextmanager
def by_consumed_capacity(url: str) -> Iterator[Place]:
    """Use the DynamoDB at a URL, which returns consumed units."""
    with closing(http_client(url)) as uncounted, closing(http_client(url)) as counted:
        yield Place(uncounted, counted, Meter(counted, EmulatorTime()))


@contextmanager
def by_sizes() -> Iterator[Place]:
    """Use a DynamoDB in this process, and compute units from the sizes of items."""
    timer = EmulatorTime()
    engine = _TimedEngine(timer)
    with closing(embedded_client(engine)) as uncounted, closing(embedded_client(engine)) as counted:
        yield Place(uncounted, counted, Meter(counted, timer, reader=uncounted))


class _TimedEngine(EmbeddedEngine):
    def __init__(self, timer: EmulatorTime) -> None:
        super().__init__()
        self._emulator_time = timer

    def answer(self, request: "AWSPreparedRequest", **kwargs: object) -> "AWSResponse":
        with self._emulator_time():
            return super().answer(request, **kwargs)
