"""Asynchronous invocations of the worker function (docs/background.md, When something fails).

Lambda API Reference, "Invoke": with `InvocationType=Event`, status 202 means that Lambda has queued the event.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from mcp_baton.exceptions import NotDispatched
from mcp_baton.protocol.json import JsonObject, dumps
from mcp_baton.telemetry import SILENT, Telemetry

if TYPE_CHECKING:
    from botocore.client import BaseClient

ACCEPTED: Final = 202
THROTTLED: Final = 429
FIRST_FAULT: Final = 500
"""Errors of Lambda itself have this HTTP status or a higher one."""

ATTEMPT_S: Final = 2.0
"""The longest time of one attempt, seconds: both timeouts of `mcp_baton.clients`."""
BUDGET_S: Final = 3.5
"""The longest time of both attempts, seconds. It is less than the write reserve of 5 s."""
LONGEST_PAUSE_S: Final = 0.3
"""The longest pause between them, seconds. It is random, so that throttled callers do not retry at the same time."""


class LambdaDispatcher:
    """Invokes the worker function asynchronously. Implements `tasks.jobs.Dispatcher`.

    An event that Lambda did not accept is sent once more: the connection was refused, closed or not established in
    time, or Lambda throttled or failed. After a read timeout it is not sent again, because Lambda may have accepted it.
    If such an event is lost, a poll of the task dispatches it again.

    Args:
        worker: The function and its alias: an ARN, or `name:alias`.
        connect: Creates the Lambda client at first use.
        telemetry: Records invocations as spans.
        clock: Seconds.
        sleep: Waits for a number of seconds.
        random: Returns a number from 0 to 1.
    """

    def __init__(
        self,
        worker: str,
        connect: "Callable[[], BaseClient]",
        *,
        telemetry: Telemetry = SILENT,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        random: Callable[[], float] | None = None,
    ) -> None:
        self._worker = worker
        self._connect = connect
        self._telemetry = telemetry
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._client: Any = None

    def dispatch(self, event: JsonObject) -> None:
        """Send the event. When this returns, Lambda has accepted it; the worker has not run yet.

        Raises:
            NotDispatched: Lambda did not accept the event, or the outcome is unknown.
        """
        began = self._clock()
        try:
            self._invoke(event)
        except Exception as error:
            pause_s = self._pause_s()
            if not _is_retryable(error) or self._clock() - began + pause_s + ATTEMPT_S > BUDGET_S:
                raise self._failure(error) from error
            self._sleep(pause_s)
            try:
                self._invoke(event)
            except Exception as last:
                raise self._failure(last) from last

    def _invoke(self, event: JsonObject) -> None:
        if self._client is None:
            self._client = self._connect()
        with self._telemetry.span("Lambda", operation="Invoke", function_name=self._worker):
            answer = self._client.invoke(
                FunctionName=self._worker, InvocationType="Event", Payload=dumps(event).encode()
            )
            status = answer["StatusCode"]
            if status != ACCEPTED:
                raise NotDispatched(f"Lambda answered {status} instead of {ACCEPTED}")

    def _pause_s(self) -> float:
        if self._random is None:
            from random import random

            self._random = random
        return LONGEST_PAUSE_S * self._random()

    def _failure(self, error: Exception) -> NotDispatched:
        return NotDispatched(f"BATON_WORKER={self._worker} could not be invoked: {type(error).__name__}: {error}")


def _is_retryable(error: Exception) -> bool:
    """Return whether Lambda did not accept the event and may accept it later."""
    from botocore import exceptions as botocore

    if isinstance(error, botocore.ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return status == THROTTLED or status >= FIRST_FAULT
    return isinstance(
        error, botocore.ConnectTimeoutError | botocore.EndpointConnectionError | botocore.ConnectionClosedError
    )
