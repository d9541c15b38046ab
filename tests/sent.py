"""Records the requests that a test sends to DynamoDB and S3."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client


@dataclass(slots=True)
class Requests:
    """The names of all requests in order, including retries. Requests to S3 are `PutObject` and `GetObject`."""

    sent: list[str] = field(default_factory=list)

    def note(self, event_name: str, **_: object) -> None:
        self.sent.append(event_name.rpartition(".")[2])

    def take(self) -> list[str]:
        """Return the requests since the last call."""
        names, self.sent = self.sent, []
        return names


@contextmanager
def noted(dynamodb: "DynamoDBClient", s3: "S3Client") -> Iterator[Requests]:
    """Record the requests that these clients send."""
    requests = Requests()
    clients = (("dynamodb", dynamodb), ("s3", s3))
    for service, client in clients:
        client.meta.events.register_first(f"before-send.{service}", requests.note)
    yield requests
    for service, client in clients:
        client.meta.events.unregister(f"before-send.{service}", requests.note)
