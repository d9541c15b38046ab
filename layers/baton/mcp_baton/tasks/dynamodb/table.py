"""The DynamoDB requests that a task store makes, with the failures it must tell apart (docs/storage.md).

botocore makes one attempt at each. Requests are sent again here, where it is known how much time there is, and every
write carries a token that says whether an earlier attempt has landed.
"""

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from mcp_baton.exceptions import OutcomeUnknown, StoreBusy, StoreUnavailable
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.expressions import Update
from mcp_baton.tasks.dynamodb.failures import ItemTooLarge, Unreached, failure_of
from mcp_baton.tasks.dynamodb.items import system_ms
from mcp_baton.tasks.dynamodb.patience import CREATE, READ, WRITE, Patience, draw
from mcp_baton.tasks.dynamodb.tokens import has_token
from mcp_baton.telemetry import SILENT, STORE_ERRORS, Telemetry, timed

if TYPE_CHECKING:
    from botocore.exceptions import ClientError
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import QueryInputTypeDef, QueryOutputTypeDef

__all__ = ["ConditionFailed", "ItemTooLarge", "TaskTable"]


class ConditionFailed(Exception):
    """A conditional write was refused.

    Args:
        item: The item as it stands; `None` when there is none.
    """

    def __init__(self, item: Item | None) -> None:
        super().__init__("the condition of a write does not hold")
        self.item = item


class Connection:
    """A client that is made when it is first needed, once, whichever thread comes first."""

    def __init__(self, connect: "Callable[[], DynamoDBClient]") -> None:
        self._connect = connect
        self._client: DynamoDBClient | None = None
        self._connecting = Lock()

    def client(self) -> "DynamoDBClient":
        """The client."""
        if self._client is None:
            with self._connecting:
                if self._client is None:
                    self._client = self._connect()
        return self._client


class TaskTable:
    """One table, reached through a client that is made when it is first needed.

    Args:
        name: The table's name.
        connect: Makes the client; called once, whichever thread comes first.
        telemetry: Takes each request's time, and failures.
        clock_ms: The wall clock, epoch milliseconds.
        monotonic: Seconds, from any moment on.
        sleep: Lets so many seconds pass.
        rng: Gives a number from 0 up to 1, for the pauses between attempts.
    """

    def __init__(
        self,
        name: str,
        connect: "Callable[[], DynamoDBClient]",
        telemetry: Telemetry = SILENT,
        *,
        clock_ms: Callable[[], int] = system_ms,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        rng: Callable[[], float] = draw,
    ) -> None:
        self.name = name
        self.clock_ms = clock_ms
        self._telemetry = telemetry
        self._connection = Connection(connect)
        self._monotonic = monotonic
        self._sleep = sleep
        self._rng = rng
        self._left_ms: Callable[[], int | None] = _for_ever

    def within(self, left_ms: Callable[[], int | None]) -> Self:
        """The same table for a function that is stopped in so many milliseconds; `None` where nothing stops it."""
        made = copy.copy(self)
        vars(made).update(_left_ms=left_ms)
        return made

    def put(self, item: Item, token: str, patience: Patience = CREATE) -> None:
        """Write a new item.

        Raises:
            ConditionFailed: there is one with this key already.
            ItemTooLarge: it is too large.
            OutcomeUnknown: it may have been written.
        """

        def send() -> "ClientError | None":
            with self._request("PutItem") as client:
                try:
                    client.put_item(
                        TableName=self.name,
                        Item=item,
                        ConditionExpression="attribute_not_exists(pk)",
                        ReturnValuesOnConditionCheckFailure="ALL_OLD",
                    )
                    return None
                except client.exceptions.ConditionalCheckFailedException as error:
                    return error

        failure = self._repeated(send, patience)
        if failure is not None:
            self._landed({"pk": item["pk"], "sk": item["sk"]}, failure, token)

    def update(self, key: Item, update: Update, patience: Patience = WRITE, *, whole: bool = True) -> Item:
        """Make one conditional write, however often it must be sent, and return the item after it.

        Where an attempt whose answer was lost had landed, the next one fails the condition that the token is not in
        the item yet: found there, it tells that apart from a lost race.

        Args:
            key: The item's primary key.
            update: The write.
            patience: For how long it is sent again.
            whole: Return all of the item; otherwise what was written of it may be all that is returned.

        Raises:
            ConditionFailed: a condition does not hold.
            ItemTooLarge: the item would become too large.
            OutcomeUnknown: it may have been written.
        """
        expression, condition = update.expression(), update.condition()

        def send() -> "Item | ClientError":
            with self._request("UpdateItem") as client:
                try:
                    answer = client.update_item(
                        TableName=self.name,
                        Key=key,
                        UpdateExpression=expression,
                        ConditionExpression=condition,
                        ExpressionAttributeNames=update.names,
                        ExpressionAttributeValues=update.values,
                        ReturnValues="ALL_NEW" if whole else "UPDATED_NEW",
                        ReturnValuesOnConditionCheckFailure="ALL_OLD",
                    )
                    return understood(answer, "Attributes", OutcomeUnknown)["Attributes"]
                except client.exceptions.ConditionalCheckFailedException as error:
                    return error

        answer = self._repeated(send, patience)
        return answer if isinstance(answer, dict) else self._landed(key, answer, update.token)

    def get(self, key: Item) -> Item | None:
        """Read one item, strongly consistent."""

        def send() -> Item | None:
            with self._request("GetItem") as client:
                return client.get_item(TableName=self.name, Key=key, ConsistentRead=True).get("Item")

        return self._repeated(send, READ)

    def glance(self, key: Item, attributes: Sequence[str]) -> Item | None:
        """Read some attributes of one item, eventually consistent: half the price of a consistent read."""
        names = {f"#{place}": name for place, name in enumerate(attributes)}

        def send() -> Item | None:
            with self._request("GetItem") as client:
                answer = client.get_item(
                    TableName=self.name,
                    Key=key,
                    ConsistentRead=False,
                    ProjectionExpression=",".join(names),
                    ExpressionAttributeNames=names,
                )
            return answer.get("Item")

        return self._repeated(send, READ)

    def delete(self, key: Item) -> None:
        """Delete an item, if there is one."""

        def send() -> None:
            with self._request("DeleteItem") as client:
                client.delete_item(TableName=self.name, Key=key)

        self._repeated(send, READ)

    def query(self, request: "QueryInputTypeDef", patience: Patience = READ) -> "QueryOutputTypeDef":
        """Read one page of a query."""

        def send() -> "QueryOutputTypeDef":
            with self._request("Query") as client:
                return understood(client.query(**request), "Count")

        return self._repeated(send, patience)

    def _landed(self, key: Item, failure: "ClientError", token: str) -> Item:
        # Not every engine returns the item that a condition failed on (dynalite does not).
        refused: Mapping[str, Any] = failure.response
        try:
            item = refused.get("Item") or self.get(key)
        except StoreUnavailable as error:
            raise OutcomeUnknown(f"whether it was written could not be read: {error}") from error
        if item is not None and has_token(item, token):
            return item
        raise ConditionFailed(item) from failure

    def _repeated[T](self, send: Callable[[], T], patience: Patience) -> T:
        """What a request gives, sent again as long as that can help and there is time.

        Raises:
            OutcomeUnknown: it did not succeed, and of one attempt nobody knows whether it did.
            StoreBusy: it was throttled to the end.
            StoreUnavailable: it was refused, or never reached DynamoDB.
        """
        begun_s, attempt = self._monotonic(), 0
        unknown: OutcomeUnknown | None = None
        while True:
            attempt += 1
            try:
                return send()
            except StoreUnavailable as error:
                unknown = error if isinstance(error, OutcomeUnknown) else unknown
                pause_s, told = self._pause_s(error, patience, attempt, begun_s), unknown or error
            if pause_s is None:
                self._telemetry.add(STORE_ERRORS)
                raise told
            self._sleep(pause_s)

    def _pause_s(self, error: StoreUnavailable, patience: Patience, attempt: int, begun_s: float) -> float | None:
        if not isinstance(error, StoreBusy | OutcomeUnknown | Unreached):
            return None
        left_ms = self._left_ms()
        left_s = None if left_ms is None else left_ms / 1000
        since_s, throttled = self._monotonic() - begun_s, isinstance(error, StoreBusy)
        return patience.pause_s(attempt, since_s, left_s, self._rng(), throttled=throttled)

    @contextmanager
    def _request(self, operation: str) -> "Iterator[DynamoDBClient]":
        """One attempt at a request, whose failures are raised as what they mean."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            client = self._connection.client()
            with timed(self._telemetry, "DynamoDB", operation, table_name=self.name):
                yield client
        except (BotoCoreError, ClientError) as error:
            raise failure_of(error, self._rng) from error


def _for_ever() -> int | None:
    return None


def understood[Answer: Mapping[str, Any]](
    answer: Answer, member: str, failure: type[StoreUnavailable] = StoreUnavailable
) -> Answer:
    """An answer that holds what DynamoDB always sends.

    Raises:
        StoreUnavailable: it does not. botocore reads a page that is not JSON, such as a proxy's, as an empty answer.
    """
    if member not in answer:
        raise failure(f"the answer is not DynamoDB's: it has no {member!r}")
    return answer
