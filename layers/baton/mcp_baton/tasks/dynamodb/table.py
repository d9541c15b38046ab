"""The DynamoDB requests that a task store makes, with the failures it must tell apart (docs/storage.md)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from mcp_baton.exceptions import StoreUnavailable
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.expressions import Update
from mcp_baton.tasks.dynamodb.items import members
from mcp_baton.telemetry import SILENT, STORE_ERRORS, Telemetry, timed

if TYPE_CHECKING:
    from botocore.exceptions import ClientError
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import QueryInputTypeDef, QueryOutputTypeDef


TOO_LARGE = "maximum allowed size"


class ConditionFailed(Exception):
    """A conditional write was refused.

    Args:
        item: The item as it stands; `None` when there is none.
    """

    def __init__(self, item: Item | None) -> None:
        super().__init__("the condition of a write does not hold")
        self.item = item


class ItemTooLarge(Exception):
    """The item would have outgrown what DynamoDB takes. Nothing was written."""


class TaskTable:
    """One table, reached through a client that is made when it is first needed.

    Args:
        name: The table's name.
        connect: Makes the client; called once, whichever thread comes first.
        telemetry: Takes each request's time, and failures.
    """

    def __init__(self, name: str, connect: "Callable[[], DynamoDBClient]", telemetry: Telemetry = SILENT) -> None:
        self.name = name
        self._telemetry = telemetry
        self._connect = connect
        self._client: DynamoDBClient | None = None
        self._connecting = Lock()

    def put(self, item: Item, token: str) -> None:
        """Write a new item.

        Raises:
            ConditionFailed: there is one with this key already.
            ItemTooLarge: it is too large.
        """
        with self._request("PutItem") as client:
            try:
                client.put_item(
                    TableName=self.name,
                    Item=item,
                    ConditionExpression="attribute_not_exists(pk)",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
                return
            except client.exceptions.ConditionalCheckFailedException as error:
                failure = error
        self._landed({"pk": item["pk"], "sk": item["sk"]}, failure, token)

    def update(self, key: Item, update: Update) -> Item:
        """Make one conditional write and return the item after it.

        botocore repeats a request whose answer was lost. Where the first one had landed, the second fails the
        condition that the first made untrue: the token in the item tells that apart from a lost race.

        Raises:
            ConditionFailed: a condition does not hold.
            ItemTooLarge: the item would become too large.
        """
        expression, condition = update.expression(), update.condition()
        with self._request("UpdateItem") as client:
            try:
                answer = client.update_item(
                    TableName=self.name,
                    Key=key,
                    UpdateExpression=expression,
                    ConditionExpression=condition,
                    ExpressionAttributeNames=update.names,
                    ExpressionAttributeValues=update.values,
                    ReturnValues="ALL_NEW",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
                return understood(answer, "Attributes")["Attributes"]
            except client.exceptions.ConditionalCheckFailedException as error:
                failure = error
        return self._landed(key, failure, update.token)

    def get(self, key: Item) -> Item | None:
        """Read one item, strongly consistent."""
        with self._request("GetItem") as client:
            return client.get_item(TableName=self.name, Key=key, ConsistentRead=True).get("Item")

    def glance(self, key: Item, attributes: Sequence[str]) -> Item | None:
        """Read some attributes of one item, eventually consistent: half the price of a consistent read."""
        names = {f"#{place}": name for place, name in enumerate(attributes)}
        with self._request("GetItem") as client:
            answer = client.get_item(
                TableName=self.name,
                Key=key,
                ConsistentRead=False,
                ProjectionExpression=",".join(names),
                ExpressionAttributeNames=names,
            )
        return answer.get("Item")

    def delete(self, key: Item) -> None:
        """Delete an item, if there is one."""
        with self._request("DeleteItem") as client:
            client.delete_item(TableName=self.name, Key=key)

    def query(self, request: "QueryInputTypeDef") -> "QueryOutputTypeDef":
        """Read one page of a query."""
        with self._request("Query") as client:
            return understood(client.query(**request), "Count")

    def put_value(self, item: Item) -> None:
        """Write a piece of a value, whatever was there: under its key nothing else is ever written."""
        with self._request("PutItem") as client:
            client.put_item(TableName=self.name, Item=item)

    def get_value(self, key: Item, *, consistent: bool) -> Item | None:
        """Read a piece of a value; an eventually consistent read is half the price, and may miss a new one."""
        with self._request("GetItem") as client:
            return client.get_item(TableName=self.name, Key=key, ConsistentRead=consistent).get("Item")

    def _landed(self, key: Item, failure: "ClientError", token: str) -> Item:
        # Not every engine returns the item that a condition failed on (dynalite does not).
        refused: Mapping[str, Any] = failure.response
        item = refused.get("Item") or self.get(key)
        if item is not None and token in members(item, "writes"):
            return item
        raise ConditionFailed(item) from failure

    @contextmanager
    def _request(self, operation: str) -> "Iterator[DynamoDBClient]":
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            client = self._connected()
            with timed(self._telemetry, "DynamoDB", operation, table_name=self.name):
                yield client
        except ClientError as error:
            code, message = error.response["Error"]["Code"], error.response["Error"]["Message"]
            if code == "ValidationException" and TOO_LARGE in message:
                raise ItemTooLarge from error
            self._telemetry.add(STORE_ERRORS)
            raise StoreUnavailable(f"DynamoDB refused: {code}: {message}") from error
        except BotoCoreError as error:
            self._telemetry.add(STORE_ERRORS)
            raise StoreUnavailable(f"DynamoDB did not answer: {type(error).__name__}: {error}") from error

    def _connected(self) -> "DynamoDBClient":
        if self._client is None:
            with self._connecting:
                if self._client is None:
                    self._client = self._connect()
        return self._client


def understood[Answer: Mapping[str, Any]](answer: Answer, member: str) -> Answer:
    """An answer that holds what DynamoDB always sends.

    Raises:
        StoreUnavailable: it does not. botocore reads a page that is not JSON, such as a proxy's, as an empty answer.
    """
    if member not in answer:
        raise StoreUnavailable(f"the answer is not DynamoDB's: it has no {member!r}")
    return answer
