"""What a test sends to DynamoDB and S3."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client


@dataclass(slots=True)
class Requests:
    """The names of the requests that were sent, repetitions included, in order; those to S3 are `PutObject` and
    `GetObject`."""

    sent: list[str] = field(default_factory=list)

    def note(self, event_name: str, **_: object) -> None:
        self.sent.append(event_name.rpartition(".")[2])

    def take(self) -> list[str]:
        """The requests since the last look."""
        taken, self.sent = self.sent, []
        return taken


@contextmanager
def noted(dynamodb: "DynamoDBClient", s3: "S3Client") -> Iterator[Requests]:
    """What is sent from here on."""
    requests = Requests()
    clients = (("dynamodb", dynamodb), ("s3", s3))
    for service, client in clients:
        client.meta.events.register_first(f"before-send.{service}", requests.note)
    yield requests
    for service, client in clients:
        client.meta.events.unregister(f"before-send.{service}", requests.note)
