"""The items of values outside the heads of tasks, as tests read, change and break them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from mcp_baton.exceptions import StoreUnavailable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@dataclass(frozen=True, slots=True)
class ValueItems:
    """The values in a table. Tests read and change them directly, without the code under test."""

    client: "DynamoDBClient"
    table: str

    @property
    def keys(self) -> list[dict[str, Any]]:
        items = self.client.scan(TableName=self.table)["Items"]
        return [{"pk": item["pk"], "sk": item["sk"]} for item in items if item["pk"]["S"].startswith("VALUE#")]

    def item(self, key: dict[str, Any]) -> dict[str, Any]:
        return self.client.get_item(TableName=self.table, Key=key, ConsistentRead=True)["Item"]

    def put(self, item: dict[str, Any]) -> None:
        self.client.put_item(TableName=self.table, Item=item)

    def expire(self, key: dict[str, Any]) -> None:
        """Delete a value, as its expiry does."""
        self.client.delete_item(TableName=self.table, Key=key)

    @contextmanager
    def refusing(self, operation: str) -> Iterator[None]:
        """Let DynamoDB refuse this operation of values."""

        def refuse(request: Any, event_name: str, **_: object) -> None:
            if event_name.endswith(operation) and b"VALUE#" in request.body:
                raise StoreUnavailable("DynamoDB refused: ServiceUnavailable")

        event, handler = "before-send.dynamodb", cast("Callable[..., Any]", refuse)
        self.client.meta.events.register(event, handler)
        try:
            yield
        finally:
            self.client.meta.events.unregister(event, handler)
