"""Sending a request to DynamoDB, again where that can help and there is time (docs/storage.md, Lost answers).

`mcp_baton.dynamodb` makes one attempt. How much time there is, and whether an attempt may have landed, is known here.
"""

import time
from collections.abc import Callable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from mcp_baton.dynamodb.requests import Refused, RequestFailed, Requests
from mcp_baton.exceptions import OutcomeUnknown, StoreBusy, StoreUnavailable
from mcp_baton.tasks.dynamodb.clock import system_ms
from mcp_baton.tasks.dynamodb.failures import ConditionFailed, Unreached, failure_of
from mcp_baton.tasks.dynamodb.patience import ATTEMPT_S, REPLY_S, Patience, draw, race_pause_s
from mcp_baton.telemetry import SILENT, STORE_ERRORS, Telemetry

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

CONDITION_FAILED = "ConditionalCheckFailedException"

type Connect = Callable[[], DynamoDBClient | Requests]
"""Makes a client of botocore's, or what asks DynamoDB in another way."""


class Connection:
    """What asks DynamoDB, made when it is first needed, once, whichever thread comes first."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._made: Requests | None = None
        self._connecting = Lock()

    def requests(self) -> Requests:
        """What asks DynamoDB.

        Raises:
            RequestFailed: it cannot be made.
        """
        if self._made is None:
            with self._connecting:
                if self._made is None:
                    self._made = _connected(self._connect)
        return self._made


def _connected(connect: Connect) -> Requests:
    try:
        made = connect()
    except Exception as error:
        from mcp_baton.dynamodb import by_botocore

        if failure := by_botocore.failure_of(error):
            raise failure from error
        raise
    if isinstance(made, Requests):
        return made
    from mcp_baton.dynamodb.by_botocore import BotocoreClient

    return BotocoreClient(made)


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
            except Refused as refused:
                raise ConditionFailed(refused.item, unsure=unknown is not None) from refused
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
        """The answer to one attempt at a request, whose failures are raised as what they mean.

        Raises:
            Refused: a condition does not hold.
        """
        try:
            requests = self._connection.requests()
            began_s, failed = time.perf_counter(), True
            try:
                answer = requests.request(operation, parameters)
                failed = False
            except Refused as refused:
                # An answer like others, not a failure of the request.
                failed = refused.code != CONDITION_FAILED
                raise
            finally:
                took_s = time.perf_counter() - began_s
                self._telemetry.add_request("DynamoDB", operation, took_s, failed=failed, table_name=self.name)
        except RequestFailed as error:
            if isinstance(error, Refused) and error.code == CONDITION_FAILED:
                raise
            raise failure_of(error, self._rng) from error.__cause__ or error
        return answer


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
