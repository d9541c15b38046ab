"""The DynamoDB requests that a task store makes, with the failures it must tell apart (docs/storage.md).

Most writes carry a token that says whether an earlier attempt at it has landed.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Self, cast

from mcp_baton.exceptions import OutcomeUnknown, StoreBusy, StoreUnavailable
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.expressions import SETS, Update, stored_token
from mcp_baton.tasks.dynamodb.retry_policy import (
    ATTEMPT_S,
    CREATE,
    READ,
    RENEW,
    REPLY_S,
    WRITE,
    RetryPolicy,
    race_pause_s,
    random_fraction,
)
from mcp_baton.telemetry import SILENT, STORE_ERRORS, Telemetry

if TYPE_CHECKING:
    from botocore.exceptions import ClientError
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import QueryInputTypeDef, QueryOutputTypeDef

CONDITION_FAILED = "ConditionalCheckFailedException"
TOO_LARGE = "maximum allowed size"
THROTTLED = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "ThrottlingException",
        "RequestLimitExceeded",
        "Throttling",
        "TooManyRequestsException",
    }
)
"""Error codes of throttled requests. DynamoDB did not apply them."""

FIRST_FAULT = 500
"""First HTTP status of DynamoDB's own faults. The request may have been applied."""

RETRY_AFTER_MS = 1_000


class ConditionFailed(Exception):
    """The condition of a write does not hold.

    Args:
        item: The current item; `None` if it does not exist or the engine did not return it.
        unsure: Whether an earlier attempt had no answer, so that this write may have been applied.
    """

    def __init__(self, item: Item | None, *, unsure: bool = False) -> None:
        super().__init__("the condition of a write does not hold")
        self.item = item
        self.unsure = unsure


class ItemTooLarge(Exception):
    """The item would exceed DynamoDB's size limit. Nothing was written."""


class Unreached(StoreUnavailable):
    """The request did not reach DynamoDB. Nothing was written."""


def failure_of(error: Exception, rng: Callable[[], float]) -> Exception | None:
    """Return the exception that says what a failed attempt means.

    Args:
        error: The error of an attempt.
        rng: Returns a number from 0 up to 1. It spreads the retries of throttled callers.

    Returns:
        `ConditionFailed`, `ItemTooLarge` or a `StoreUnavailable`; `None` if `error` is not an error of boto3.
    """
    from botocore import exceptions as botocore

    if isinstance(error, botocore.ClientError):
        return _refused(error, rng)
    cause = f"DynamoDB did not answer: {type(error).__name__}: {error}"
    if isinstance(error, botocore.ConnectTimeoutError | botocore.EndpointConnectionError):
        return Unreached(cause)
    if isinstance(error, botocore.HTTPClientError | botocore.IncompleteReadError | botocore.ResponseStreamingError):
        return OutcomeUnknown(cause)
    # boto3 could not send the request: no region, no credentials, or a parameter that it cannot serialise.
    return StoreUnavailable(cause) if isinstance(error, botocore.BotoCoreError) else None


def _refused(error: "ClientError", rng: Callable[[], float]) -> Exception:
    response = error.response
    details = response.get("Error", {})
    code, message = details.get("Code", ""), details.get("Message", "")
    if code == CONDITION_FAILED:
        item: Item | None = response.get("Item")  # type: ignore[assignment]  # not in the stubs' generic response
        return ConditionFailed(item)
    if code == "ValidationException" and TOO_LARGE in message:
        return ItemTooLarge()
    cause = f"DynamoDB refused: {code}: {message}"
    if code in THROTTLED:
        return StoreBusy(cause, RETRY_AFTER_MS + int(RETRY_AFTER_MS * rng()))
    if response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= FIRST_FAULT:
        return OutcomeUnknown(cause)
    return StoreUnavailable(cause)


def system_ms() -> int:
    """The time now, epoch milliseconds."""
    return time.time_ns() // 1_000_000


type Connect = Callable[[], DynamoDBClient]
"""Creates a boto3 client for DynamoDB."""

_METHODS: Final = {
    "PutItem": "put_item",
    "UpdateItem": "update_item",
    "GetItem": "get_item",
    "DeleteItem": "delete_item",
    "Query": "query",
}


class Connection:
    """A boto3 client that the first request creates. It is created once, by whichever thread needs it first."""

    def __init__(self, connect: Connect) -> None:
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


class Sender:
    """Sends requests about one table, through a client that is made when it is first needed.

    Args:
        name: The table's name.
        connect: Makes what asks DynamoDB; called once, whichever thread comes first.
        telemetry: Takes each request's time, and failures.
        clock_ms: The wall clock, epoch milliseconds.
        monotonic: Seconds, from any moment on.
        sleep: Lets so many seconds pass.
        rng: Gives a number from 0 up to 1, for the pauses between attempts.
    """

    def __init__(
        self,
        name: str,
        connect: Connect,
        telemetry: Telemetry = SILENT,
        *,
        clock_ms: Callable[[], int] = system_ms,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        rng: Callable[[], float] = random_fraction,
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
        made: Self = object.__new__(type(self))
        vars(made).update(vars(self), _left_ms=left_ms)
        return made

    def wait_after_race(self, races: int) -> bool:
        """Let some time pass before a write is decided on again whose condition failed.

        Args:
            races: How often it has failed.

        Returns:
            Whether there is time to try again.
        """
        pause_s, left_ms = race_pause_s(races, self._rng()), self._left_ms()
        if left_ms is not None and left_ms / 1000 - pause_s < ATTEMPT_S + REPLY_S:
            return False
        self._sleep(pause_s)
        return True

    def _read[T](self, send: Callable[[], T], retry_policy: RetryPolicy, began_s: float | None = None) -> T:
        """Send a request that changes nothing, or that changes nothing more when it is sent again.

        Args:
            send: Makes one attempt.
            retry_policy: For how long it is sent again.
            began_s: The moment on `monotonic` from which that is counted; `None` for now.

        Raises:
            StoreUnavailable: it did not succeed.
        """
        try:
            return self._repeated(send, retry_policy, began_s)
        except OutcomeUnknown as error:
            raise StoreUnavailable(str(error)) from error.__cause__

    def _repeated[T](self, send: Callable[[], T], retry_policy: RetryPolicy, began_s: float | None = None) -> T:
        """Send a request, again as long as that can help and there is time. The arguments are those of `_read`.

        Raises:
            ConditionFailed: a condition does not hold.
            OutcomeUnknown: it did not succeed, and it is not known whether one of the attempts did.
            StoreBusy: it was throttled to the end.
            StoreUnavailable: it was refused, or never reached DynamoDB, or there is no time left for an attempt.
        """
        began_s, attempt = self._monotonic() if began_s is None else began_s, 0
        unknown: OutcomeUnknown | None = None
        left_ms = self._left_ms()
        if left_ms is not None and left_ms / 1000 < ATTEMPT_S + REPLY_S:
            self._telemetry.add(STORE_ERRORS)
            raise StoreUnavailable(f"nothing was sent: the function is stopped in {left_ms} ms")
        while True:
            attempt += 1
            try:
                return send()
            except ConditionFailed as failed:
                failed.unsure = unknown is not None
                raise
            except StoreUnavailable as error:
                unknown = error if isinstance(error, OutcomeUnknown) else unknown
                pause_s, told = self._pause_s(error, retry_policy, attempt, began_s), unknown or error
            if pause_s is None:
                self._telemetry.add(STORE_ERRORS)
                raise told
            self._sleep(pause_s)

    def _pause_s(
        self, error: StoreUnavailable, retry_policy: RetryPolicy, attempt: int, began_s: float
    ) -> float | None:
        if not isinstance(error, StoreBusy | OutcomeUnknown | Unreached):
            return None
        left_ms = self._left_ms()
        left_s = None if left_ms is None else left_ms / 1000
        since_s, throttled = self._monotonic() - began_s, isinstance(error, StoreBusy)
        return retry_policy.pause_s(attempt, since_s, left_s, self._rng(), throttled=throttled)

    def _ask(self, operation: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Make one attempt at a request and return the response.

        Raises:
            ConditionFailed: the condition does not hold.
            ItemTooLarge: the item would exceed DynamoDB's size limit.
            StoreUnavailable: the attempt failed.
        """
        began_s: float | None = None
        failed = True
        try:
            send = getattr(self._connection.client(), _METHODS[operation])
            began_s = time.perf_counter()
            response: Mapping[str, Any] = send(**parameters)
            failed = False
        except Exception as error:
            failure = failure_of(error, self._rng)
            # A failed condition is an answer, not a failed request.
            failed = not isinstance(failure, ConditionFailed)
            if failure is None:
                raise
            raise failure from error
        finally:
            if began_s is not None:
                took_s = time.perf_counter() - began_s
                self._telemetry.add_request("DynamoDB", operation, took_s, failed=failed, table_name=self.name)
        return response


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


class TaskTable(Sender):
    """One table: see `Sender` for what it is made of."""

    def put(self, item: Item, token: str, retry_policy: RetryPolicy = CREATE) -> None:
        """Write a new item.

        Raises:
            ConditionFailed: there is one with this key already.
            ItemTooLarge: it is too large.
            OutcomeUnknown: it may have been written.
        """

        request = {
            "TableName": self.name,
            "Item": item,
            "ConditionExpression": "attribute_not_exists(pk)",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        began_s = self._monotonic()
        try:
            self._repeated(lambda: self._ask("PutItem", request), retry_policy, began_s)
        except ConditionFailed as failed:
            self._landed({"pk": item["pk"], "sk": item["sk"]}, failed, token, retry_policy, began_s)

    def update(self, key: Item, update: Update, retry_policy: RetryPolicy = WRITE, *, whole: bool = True) -> Item:
        """Make one write, however often it must be sent, and return the item after it.

        Where an attempt whose answer was lost had landed, the next one fails the condition that the token is not in
        the item yet: found there, it tells that apart from a lost race.

        Args:
            key: The item's primary key.
            update: The write.
            retry_policy: For how long it is sent again.
            whole: Return all of the item; otherwise what was written of it may be all that is returned.

        Raises:
            ConditionFailed: a condition does not hold.
            ItemTooLarge: the item would become too large.
            OutcomeUnknown: it may have been written.
        """
        request: dict[str, Any] = {
            "TableName": self.name,
            "Key": key,
            "UpdateExpression": update.expression(),
            "ExpressionAttributeNames": update.names,
            "ExpressionAttributeValues": update.values,
            "ReturnValues": "ALL_NEW" if whole else "UPDATED_NEW",
        }
        if condition := update.condition():
            request["ConditionExpression"] = condition
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"

        def send() -> Item:
            item: Item = understood(self._ask("UpdateItem", request), "Attributes", OutcomeUnknown)["Attributes"]
            return item

        began_s = self._monotonic()
        try:
            return self._repeated(send, retry_policy, began_s)
        except ConditionFailed as failed:
            return self._landed(key, failed, update.token, retry_policy, began_s)

    def get(self, key: Item, retry_policy: RetryPolicy = READ, began_s: float | None = None) -> Item | None:
        """Read one item, strongly consistent.

        Args:
            key: The item's primary key.
            retry_policy: For how long the request is sent again.
            began_s: The moment on `monotonic` from which that is counted; `None` for now.
        """
        return self._got({"TableName": self.name, "Key": key, "ConsistentRead": True}, retry_policy, began_s)

    def glance(self, key: Item, attributes: Sequence[str]) -> Item | None:
        """Read some attributes of one item, eventually consistent: half the price of a consistent read."""
        names = {f"#{place}": name for place, name in enumerate(attributes)}
        projection = {"ProjectionExpression": ",".join(names), "ExpressionAttributeNames": names}
        return self._got({"TableName": self.name, "Key": key, "ConsistentRead": False, **projection}, READ)

    def delete(self, key: Item) -> None:
        """Delete an item, if there is one."""
        self._read(lambda: self._ask("DeleteItem", {"TableName": self.name, "Key": key}), READ)

    def query(self, request: "QueryInputTypeDef", retry_policy: RetryPolicy = READ) -> "QueryOutputTypeDef":
        """Read one page of a query."""
        page = self._read(lambda: understood(self._ask("Query", request), "Count"), retry_policy)
        return cast("QueryOutputTypeDef", page)

    def put_value(self, item: Item) -> None:
        """Write a piece of a value, unless it is there and is kept as long. Nothing else is written under its key."""
        request = {
            "TableName": self.name,
            "Item": item,
            "ConditionExpression": "attribute_not_exists(pk) OR expires_at<:until",
            "ExpressionAttributeValues": {":until": item["expires_at"]},
        }
        with suppress(ConditionFailed):
            self._read(lambda: self._ask("PutItem", request), RENEW)

    def get_value(self, key: Item, *, consistent: bool) -> Item | None:
        """Read a piece of a value; an eventually consistent read is half the price, and may miss a new one."""
        return self._got({"TableName": self.name, "Key": key, "ConsistentRead": consistent}, READ)

    def _got(self, request: Mapping[str, Any], retry_policy: RetryPolicy, began_s: float | None = None) -> Item | None:
        item: Item | None = self._read(lambda: self._ask("GetItem", request), retry_policy, began_s).get("Item")
        return item

    def _landed(
        self, key: Item, failed: ConditionFailed, token: str | None, retry_policy: RetryPolicy, began_s: float
    ) -> Item:
        # A refusal shows no item where there is none, and some engines never show it (dynalite). The read that tells
        # these apart is part of the write: it has what is left of the write's time.
        try:
            item = failed.item or self.get(key, retry_policy, began_s)
        except StoreUnavailable as error:
            raise OutcomeUnknown(f"whether it was written could not be read: {error}") from error
        if item is not None and token is not None and has_token(item, token):
            return item
        raise ConditionFailed(item, unsure=failed.unsure) from failed


def has_token(item: Item, token: str) -> bool:
    """Whether the write with this token has been applied to the item."""
    stored = stored_token(token)
    return any(stored in map(bytes, item[name]["BS"]) for name in SETS if name in item)
