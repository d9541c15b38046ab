"""Starting a worker: an asynchronous invocation of another Lambda function (docs/background.md, When something fails).

Lambda API Reference, "Invoke": with `InvocationType=Event` the answer is 202 when the event stands in Lambda's queue.
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
"""Lambda's own faults begin at this HTTP status."""

ATTEMPT_S: Final = 2.0
"""What one attempt may take, seconds: a second to connect and one for the answer (`mcp_baton.clients`)."""
BUDGET_S: Final = 3.5
"""What both attempts may take, seconds: less than the 5 s that are kept for writing and answering."""
LONGEST_PAUSE_S: Final = 0.3
"""Between the two, drawn from all up to this: those who were turned away together do not come back together."""


class LambdaDispatcher:
    """Invokes the worker function asynchronously. Implements `tasks.jobs.Dispatcher`.

    An event that was certainly or most likely not taken is sent once more: the connection was refused, closed or not
    made in time, Lambda throttled or had a fault. After an answer that did not come in time it is not: the event may
    have been taken, and a task whose event is lost is dispatched again by a poll.

    Args:
        worker: The function and its alias: an ARN, or `name:alias`.
        connect: Makes the Lambda client when it is first needed.
        telemetry: Where invocations are noted as spans.
        clock: Seconds, from any moment on.
        sleep: Lets so many seconds pass.
        random: Gives a number from 0 up to 1.
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
        """Hand the event over. It was taken, not worked on, when this returns.

        Raises:
            NotDispatched: it was not taken, or that is not known; says why.
        """
        began = self._clock()
        try:
            self._invoke(event)
        except Exception as error:
            pause_s = self._pause_s()
            if not _worth_another(error) or self._clock() - began + pause_s + ATTEMPT_S > BUDGET_S:
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


def _worth_another(error: Exception) -> bool:
    """Whether the event was not taken, for all that is known, and may be the next time."""
    from botocore import exceptions as botocore

    if isinstance(error, botocore.ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return status == THROTTLED or status >= FIRST_FAULT
    return isinstance(
        error, botocore.ConnectTimeoutError | botocore.EndpointConnectionError | botocore.ConnectionClosedError
    )
