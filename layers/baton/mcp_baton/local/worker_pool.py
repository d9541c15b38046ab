"""The workers and the clock of `baton serve`, in threads.

Failed events are retried as Lambda does: after one minute and after two more
(https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html).
"""

import logging
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Condition, Event, Thread, Timer
from typing import Any, Final

from mcp_baton.exceptions import NotDispatched
from mcp_baton.local.gateway import InvocationContext
from mcp_baton.protocol.json import JsonObject, dumps
from mcp_baton.transport.adapter import SWEEP_EVENT

logger = logging.getLogger(__name__)

MINUTE_S: Final = 60.0
RETRY_AFTER_S: Final = (60.0, 120.0)
"""The time before each retry of a failed event."""

WORKER_THREADS: Final = 2

type LambdaHandler = Callable[[dict[str, Any], InvocationContext], dict[str, Any]]


class Pool:
    """Invokes a handler for events (`tasks.jobs.Dispatcher`)."""

    def __init__(
        self,
        handler: Callable[[dict[str, Any], InvocationContext], object],
        timeout_s: float = 900.0,
        retry_after_s: Sequence[float] = RETRY_AFTER_S,
    ) -> None:
        self._handler = handler
        self._timeout_s = timeout_s
        self._retry_after_s = retry_after_s
        self._threads = ThreadPoolExecutor(WORKER_THREADS, "worker")
        self._changed = Condition()
        self._waiting = self._busy = 0
        self._stopping = False

    def dispatch(self, event: JsonObject) -> None:
        """Accept an event. Raises `NotDispatched` if the server is stopping."""
        if self._stopping:
            raise NotDispatched("the local server is stopping: it accepts no more events")
        self._count(waiting=1)
        self._submit(event, str(uuid.uuid4()), 1)

    def stop(self, grace_s: float) -> None:
        """Start no more invocations, and wait for running ones at most for the grace period."""
        with self._changed:
            self._stopping = True
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._changed.wait_for(lambda: not self._busy, grace_s)
            if self._busy or self._waiting:
                text = "the local server stopped too early for running workers: %d, and for waiting events: %d"
                logger.warning(text, self._busy, self._waiting)

    def _count(self, *, waiting: int = 0, busy: int = 0) -> None:
        with self._changed:
            self._waiting += waiting
            self._busy += busy
            self._changed.notify_all()

    def _submit(self, event: JsonObject, request_id: str, attempt: int) -> None:
        with suppress(RuntimeError):  # the pool has been stopped
            self._threads.submit(self._work, event, request_id, attempt)

    def _work(self, event: JsonObject, request_id: str, attempt: int) -> None:
        """Make one attempt at an event. All attempts have the same request id."""
        self._count(waiting=-1, busy=1)
        try:
            self._handler(dict(event), InvocationContext(self._timeout_s, request_id))
        except Exception as error:
            logger.exception("invocation %s failed", request_id)
            self._retry(event, request_id, attempt, f"{type(error).__name__}: {error}")
        finally:
            self._count(busy=-1)

    def _retry(self, event: JsonObject, request_id: str, attempt: int, failure: str) -> None:
        if attempt > len(self._retry_after_s):
            # On AWS, the dead-letter queue would get this event. The task stays: a poll or a sweep dispatches it
            # (docs/background.md).
            logger.error("an event was discarded after %d attempts (%s): %s", attempt, failure, dumps(event))
            return
        wait_s = self._retry_after_s[attempt - 1]
        logger.warning("attempt %d of an event failed (%s): retry in %.3g s", attempt, failure, wait_s)
        timer = Timer(wait_s, self._submit, (event, request_id, attempt + 1))
        timer.daemon = True
        self._count(waiting=1)
        timer.start()


class LocalClock:
    """Invokes a handler for a sweep once a minute until it is stopped, as a stack's schedule does
    (docs/background.md)."""

    def __init__(self, handler: LambdaHandler, timeout_s: float, minute_s: float = MINUTE_S) -> None:
        self._handler = handler
        self._timeout_s = timeout_s
        self._minute_s = minute_s
        self._stopped = Event()
        Thread(target=self._run, name="clock", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._minute_s):
            try:
                self._handler({SWEEP_EVENT: {}}, InvocationContext(self._timeout_s, str(uuid.uuid4())))
            except Exception:
                logger.exception("the sweep failed; the next one is in a minute")
