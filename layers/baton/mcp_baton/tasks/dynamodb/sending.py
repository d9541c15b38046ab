"""Requests to DynamoDB with retries, where a retry can help and time is left (docs/storage.md, Lost answers).

boto3 makes one attempt. `Sender` knows how much time is left, and whether an earlier attempt may have been applied.
"""

import time
from collections.abc import Callable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Self

from mcp_baton.exceptions import OutcomeUnknown, StoreBusy, StoreUnavailable
from mcp_baton.tasks.dynamodb.clock import system_ms
from mcp_baton.tasks.dynamodb.failures import ConditionFailed, Unreached, failure_of
from mcp_baton.tasks.dynamodb.patience import ATTEMPT_S, REPLY_S, Patience, draw, race_pause_s
from mcp_baton.telemetry import SILENT, STORE_ERRORS, Telemetry

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

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

    def _read[T](self, send: Callable[[], T], patience: Patience, begun_s: float | None = None) -> T:
        """Send a request that changes nothing, or that changes nothing more when it is sent again.

        Args:
            send: Makes one attempt.
            patience: For how long it is sent again.
            begun_s: The moment on `monotonic` from which that is counted; `None` for now.

        Raises:
            StoreUnavailable: it did not succeed.
        """
        try:
            return self._repeated(send, patience, begun_s)
        except OutcomeUnknown as error:
            raise StoreUnavailable(str(error)) from error.__cause__

    def _repeated[T](self, send: Callable[[], T], patience: Patience, begun_s: float | None = None) -> T:
        """Send a request, again as long as that can help and there is time. The arguments are those of `_read`.

        Raises:
            ConditionFailed: a condition does not hold.
            OutcomeUnknown: it did not succeed, and it is not known whether one of the attempts did.
            StoreBusy: it was throttled to the end.
            StoreUnavailable: it was refused, or never reached DynamoDB, or there is no time left for an attempt.
        """
        begun_s, attempt = self._monotonic() if begun_s is None else begun_s, 0
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
