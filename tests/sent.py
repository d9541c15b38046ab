"""Records the requests that a test sends to DynamoDB."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@dataclass(slots=True)
class Requests:
    """The names of all requests in order, including retries."""

    sent: list[str] = field(default_factory=list)

    def note(self, event_name: str, **_: object) -> None:
        self.sent.append(event_name.rpartition(".")[2])

    def take(self) -> list[str]:
        """Return the requests since the last call."""
        names, self.sent = self.sent, []
        return names


@contextmanager
def noted(dynamodb: "DynamoDBClient") -> Iterator[Requests]:
    """Record the requests that this client sends."""
    requests = Requests()
    dynamodb.meta.events.register_first("before-send.dynamodb", requests.note)
    yield requests
    dynamodb.meta.events.unregister("before-send.dynamodb", requests.note)
