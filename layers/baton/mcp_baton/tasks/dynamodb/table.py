"""The requests to a DynamoDB table, and what their failures mean (docs/storage.md).

Most writes carry a token, which shows whether an earlier attempt at the same write was applied.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from mcp_baton.exceptions import OutcomeUnknown, StoreBusy, StoreError, StoreUnavailable
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.expressions import TOKEN_SETS, Update, first_token, stored_token
from mcp_baton.tasks.dynamodb.retries import (
    ATTEMPT_S,
    CREATE,
    FIRST_RACE_PAUSE_S,
    MAX_RACE_PAUSE_S,
    READ,
    RENEW,
    REPLY_S,
    WRITE,
    ConditionFailed,
    RequestNotSent,
    RetryPolicy,
    failure_of,
)
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.store import random_fraction
from mcp_baton.telemetry import SILENT, STORE_ERRORS, Telemetry

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def system_ms() -> int:
    return time.time_ns() // 1_000_000


type Connect = Callable[[], DynamoDBClient]

_METHODS: Final = {
    "PutItem": "put_item",
    "UpdateItem": "update_item",
    "GetItem": "get_item",
    "DeleteItem": "delete_item",
    "Query": "query",
    "Scan": "scan",
}


class LazyClient[Client]:
    """A boto3 client that is created once, by the first thread that needs it."""

    def __init__(self, connect: Callable[[], Client]) -> None:
        self._connect = connect
        self._client: Client | None = None
        self._connecting = Lock()

    def client(self) -> Client:
        if self._client is None:
            with self._connecting:
                if self._client is None:
                    self._client = self._connect()
        return self._client


class TaskTable(Struct, frozen=True, eq=False):
    """Sends requests to one table, and retries them while that can help.

    Attributes:
        clock_ms: The wall clock, epoch milliseconds.
        monotonic: Seconds. Retries are measured by it.
        rng: Returns a number from 0 up to 1, for the pauses between attempts.
        left_ms: Milliseconds until the function is stopped; `None` if nothing stops it.
    """

    name: str
    connection: "LazyClient[DynamoDBClient]"
    telemetry: Telemetry = SILENT
    clock_ms: Callable[[], int] = system_ms
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    rng: Callable[[], float] = random_fraction
    left_ms: Callable[[], int | None] = lambda: None

    def put(self, item: Item) -> Item:
        """Write a new item, and return it with its token. Raises `ConditionFailed` if an item with this key exists,
        `ItemTooLarge`, or `OutcomeUnknown`."""
        token = new_token()
        item = item | first_token(self.clock_ms(), token)
        request = {
            "TableName": self.name,
            "Item": item,
            "ConditionExpression": "attribute_not_exists(pk)",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        began_s = self.monotonic()
        try:
            self._send_with_retries(lambda: self._send("PutItem", request), CREATE, began_s)
        except ConditionFailed as failure:
            self._written_item({"pk": item["pk"], "sk": item["sk"]}, failure, token, CREATE, began_s)
        return item

    def create(self, item: Item, error_text: str) -> Item:
        """Write a new item whose key is random. Raises as `put`, but `StoreError`, with this text, if the item
        exists."""
        try:
            return self.put(item)
        except ConditionFailed as failure:
            raise StoreError(error_text) from failure

    def update(self, key: Item, update: Update, retry_policy: RetryPolicy = WRITE, *, complete: bool = True) -> Item:
        """Make one write, and return the item after it, or with `complete=False` at least the attributes that were
        written. Raises as `put`.

        If an attempt was applied but its response was lost, the next one fails. The token in the item distinguishes
        this from a lost race.
        """
        request = {
            "TableName": self.name,
            "Key": key,
            "ReturnValues": "ALL_NEW" if complete else "UPDATED_NEW",
            **update.request(),
        }

        def send() -> Item:
            item: Item = checked(self._send("UpdateItem", request), "Attributes", OutcomeUnknown)["Attributes"]
            return item

        began_s = self.monotonic()
        try:
            return self._send_with_retries(send, retry_policy, began_s)
        except ConditionFailed as failure:
            return self._written_item(key, failure, update.token, retry_policy, began_s)

    def get(
        self,
        key: Item,
        retry_policy: RetryPolicy = READ,
        *,
        attributes: Sequence[str] = (),
        consistent: bool = True,
        began_s: float | None = None,
    ) -> Item | None:
        """Read one item. A strongly consistent read costs twice as much. `began_s` is when the retries began, on
        `monotonic`; `None` for now."""
        request: dict[str, Any] = {"TableName": self.name, "Key": key, "ConsistentRead": consistent}
        if attributes:
            names = {f"#{number}": name for number, name in enumerate(attributes)}
            request |= {"ProjectionExpression": ",".join(names), "ExpressionAttributeNames": names}
        item: Item | None = self._read(lambda: self._send("GetItem", request), retry_policy, began_s).get("Item")
        return item

    def delete(self, key: Item) -> None:
        """Delete an item, if it exists."""
        self._read(lambda: self._send("DeleteItem", {"TableName": self.name, "Key": key}), READ)

    def query(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Read one page. The request does not name the table."""
        query = {"TableName": self.name, **request}
        return self._read(lambda: checked(self._send("Query", query), "Count"), READ)

    def pages(self, request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Read all pages of a query."""
        start: Mapping[str, Any] | None = {}
        while start is not None:
            page = self.query({**request, **({"ExclusiveStartKey": start} if start else {})})
            yield page
            start = page.get("LastEvaluatedKey")

    def items(self, request: Mapping[str, Any]) -> Iterator[Item]:
        """Read the items on all pages of a query."""
        for page in self.pages(request):
            yield from page["Items"]

    def scan(self, request: Mapping[str, Any], retry_policy: RetryPolicy = READ) -> Mapping[str, Any]:
        """Read one page. The request does not name the table."""
        scan = {"TableName": self.name, **request}
        return self._read(lambda: checked(self._send("Scan", scan), "Count"), retry_policy)

    def put_value(self, item: Item) -> None:
        """Write a piece of a value, unless the same piece exists and expires no earlier. Sent once."""
        with suppress(ConditionFailed):
            self._replace(item, "expires_at", "<")

    def put_once(self, item: Item) -> None:
        """Write a piece of a chunk, unless another writer has taken its key: `ConditionFailed`. Sent once."""
        self._replace(item, "by", "=")

    def _replace(self, item: Item, name: str, operator: str) -> None:
        """Write an item. If one exists, its attribute of this name must compare so with the new one."""
        request = {
            "TableName": self.name,
            "Item": item,
            "ConditionExpression": f"attribute_not_exists(pk) OR #name{operator}:new",
            "ExpressionAttributeNames": {"#name": name},
            "ExpressionAttributeValues": {":new": item[name]},
        }
        self._read(lambda: self._send("PutItem", request), RENEW)

    def keep_value(self, key: Item, until_s: int) -> None:
        """Keep a piece of a value until a later time, epoch seconds, if it exists. Sent once."""
        request = {
            "TableName": self.name,
            "Key": key,
            "UpdateExpression": "SET expires_at=:until",
            "ConditionExpression": "expires_at<:until",
            "ExpressionAttributeValues": {":until": {"N": str(until_s)}},
        }
        with suppress(ConditionFailed):
            self._read(lambda: self._send("UpdateItem", request), RENEW)

    def wait_after_race(self, races: int) -> bool:
        """Wait before a write is decided again, after its condition has failed `races` times. Returns whether there is
        time to try again."""
        left_ms = self.left_ms()
        pause_s = self.rng() * min(FIRST_RACE_PAUSE_S * 2.0 ** min(races - 1, 16), MAX_RACE_PAUSE_S)
        if left_ms is not None and left_ms / 1000 - pause_s < ATTEMPT_S + REPLY_S:
            return False
        self.sleep(pause_s)
        return True

    def _written_item(
        self, key: Item, failure: ConditionFailed, token: str | None, retry_policy: RetryPolicy, began_s: float
    ) -> Item:
        """Return the item if an earlier attempt at this write was applied; otherwise raise `failed` with the item."""
        # A failed condition returns no item if there is none, and dynalite never returns one. The read that settles
        # this is part of the write, so it has what is left of the write's time.
        try:
            item = failure.item or self.get(key, retry_policy, began_s=began_s)
        except StoreUnavailable as error:
            raise OutcomeUnknown(f"whether it was written could not be read: {error}") from error
        if item is not None and token is not None and has_token(item, token):
            return item
        raise ConditionFailed(item, unsure=failure.unsure) from failure

    def _read[T](self, send: Callable[[], T], retry_policy: RetryPolicy, began_s: float | None = None) -> T:
        """Send a request that changes nothing, or changes nothing more if it is sent again."""
        try:
            return self._send_with_retries(send, retry_policy, began_s)
        except OutcomeUnknown as error:
            raise StoreUnavailable(str(error)) from error.__cause__

    def _send_with_retries[T](
        self, send: Callable[[], T], retry_policy: RetryPolicy, began_s: float | None = None
    ) -> T:
        """Send a request, and retry it while that can help and there is time, counted from `began_s`; `None` for now.

        Raises:
            ConditionFailed: a condition does not hold.
            OutcomeUnknown: no attempt is known to have succeeded, but one may have.
            StoreBusy: every attempt was throttled.
            StoreUnavailable: it was refused, or never reached DynamoDB, or there was no time for an attempt.
        """
        began_s, attempt = self.monotonic() if began_s is None else began_s, 0
        unknown: OutcomeUnknown | None = None
        left_ms = self.left_ms()
        if left_ms is not None and left_ms / 1000 < ATTEMPT_S + REPLY_S:
            self.telemetry.add(STORE_ERRORS)
            raise StoreUnavailable(f"nothing was sent: the function is stopped in {left_ms} ms")
        while True:
            attempt += 1
            try:
                return send()
            except ConditionFailed as failure:
                failure.unsure = unknown is not None
                raise
            except StoreUnavailable as error:
                unknown = error if isinstance(error, OutcomeUnknown) else unknown
                pause_s, last_error = self._pause_s(error, retry_policy, attempt, began_s), unknown or error
            if pause_s is None:
                self.telemetry.add(STORE_ERRORS)
                raise last_error
            self.sleep(pause_s)

    def _pause_s(
        self, error: StoreUnavailable, retry_policy: RetryPolicy, attempt: int, began_s: float
    ) -> float | None:
        if not isinstance(error, StoreBusy | OutcomeUnknown | RequestNotSent):
            return None
        left_ms = self.left_ms()
        left_s = None if left_ms is None else left_ms / 1000
        since_s, throttled = self.monotonic() - began_s, isinstance(error, StoreBusy)
        return retry_policy.pause_s(attempt, since_s, left_s, self.rng(), throttled=throttled)

    def _send(self, operation: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Make one attempt at a request. Raises as `failure_of` says."""
        began_s: float | None = None
        failed = True
        try:
            send = getattr(self.connection.client(), _METHODS[operation])
            began_s = time.perf_counter()
            response: Mapping[str, Any] = send(**parameters)
            failed = False
        except Exception as error:
            failure = failure_of(error, self.rng)
            # A failed condition is a response, not a failed request.
            failed = not isinstance(failure, ConditionFailed)
            if failure is None:
                raise
            raise failure from error
        finally:
            if began_s is not None:
                duration_s = time.perf_counter() - began_s
                self.telemetry.add_request("DynamoDB", operation, duration_s, failed=failed, table_name=self.name)
        return response


def checked[Response: Mapping[str, Any]](
    response: Response, member: str, failure: type[StoreUnavailable] = StoreUnavailable
) -> Response:
    """The response, if it has the member that DynamoDB always sends. botocore parses a page that is not JSON, such as a
    proxy's, as an empty response."""
    if member not in response:
        raise failure(f"the answer is not DynamoDB's: it has no {member!r}")
    return response


def has_token(item: Item, token: str) -> bool:
    data = stored_token(token)
    return any(data in map(bytes, item[name]["BS"]) for name in TOKEN_SETS if name in item)
