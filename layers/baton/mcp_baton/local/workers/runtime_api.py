"""The Lambda Runtime API, as one worker process sees it, and Lambda's `Invoke` for that worker's own events.

https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html and
https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html. A container of Lambda's has a Runtime API of its own; so
has a worker process: what it polls can be nobody else's.
"""

import json
import logging
import re
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Lock

from mcp_baton.exceptions import NotDispatched
from mcp_baton.local.loopback import Call, LoopbackServer, Reply
from mcp_baton.local.workers.queue import Delivery
from mcp_baton.protocol.json import JsonObject, dumps

logger = logging.getLogger(__name__)

RUNTIME = "/2018-06-01/runtime"
INVOCATIONS = "/2015-03-31/functions/baton/invocations"
ARN = "arn:aws:lambda:local:000000000000:function:baton"
_DONE = re.compile(rf"{RUNTIME}/invocation/(?P<id>[^/]+)/(?P<kind>response|error)")


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that failed, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Invocation:
    """A delivery that a worker process works on, or is about to.

    Attributes:
        deadline_ms: When its time is over, epoch milliseconds.
        outcome: `None` for a handler that returned.
    """

    delivery: Delivery
    deadline_ms: int
    outcome: "Future[Failure | None]" = field(default_factory=Future)


class RuntimeApi:
    """The Runtime API of one worker process, on a port of its own.

    Attributes:
        ready: Done when the process asks for its first event, or says why it cannot.

    Args:
        dispatch: Takes the events that the worker sends.
    """

    def __init__(self, dispatch: Callable[[JsonObject], None]) -> None:
        self.ready: Future[Failure | None] = Future()
        self._dispatch = dispatch
        self._offered: SimpleQueue[Invocation | None] = SimpleQueue()
        self._running: Invocation | None = None
        self._lock = Lock()
        self._ended: Failure | None = None
        self._server = LoopbackServer(self._answer)

    @property
    def address(self) -> str:
        """For `AWS_LAMBDA_RUNTIME_API`: `host:port`."""
        return self._server.address

    def offer(self, delivery: Delivery, timeout_s: float) -> Invocation:
        """Give the process its next event."""
        invocation = Invocation(delivery, int((time.time() + timeout_s) * 1000))
        with self._lock:
            if self._ended is None:
                self._running = invocation
                self._offered.put(invocation)
            else:
                settle(invocation.outcome, self._ended)
        return invocation

    def process_ended(self, why: str) -> None:
        """The process is no more: what it has not answered has failed, and its port is free."""
        with self._lock:
            self._ended = Failure(why)
        settle(self.ready, self._ended)
        if self._running is not None:
            settle(self._running.outcome, self._ended)
        self._offered.put(None)
        self._server.close()

    def _answer(self, call: Call) -> Reply | None:
        if call.method == "GET" and call.path == f"{RUNTIME}/invocation/next":
            return self._next()
        if call.method == "POST" and call.path == f"{RUNTIME}/init/error":
            settle(self.ready, Failure(f"it could not be started: {_error(call.body)}"))
            return Reply(202)
        if call.method == "POST" and call.path == INVOCATIONS:
            return self._invoke(call)
        done = _DONE.fullmatch(call.path) if call.method == "POST" else None
        return Reply(404, body=b"the Runtime API has no such path\n") if done is None else self._done(done, call)

    def _next(self) -> Reply | None:
        settle(self.ready, None)
        invocation = self._offered.get()
        if invocation is None:
            return None
        headers = {
            "Lambda-Runtime-Aws-Request-Id": invocation.delivery.request_id,
            "Lambda-Runtime-Deadline-Ms": str(invocation.deadline_ms),
            "Lambda-Runtime-Invoked-Function-Arn": ARN,
            "Lambda-Runtime-Trace-Id": trace_id(),
            "Content-Type": "application/json",
        }
        return Reply(200, headers, dumps(invocation.delivery.event).encode())

    def _done(self, done: re.Match[str], call: Call) -> Reply:
        running = self._running
        if running is None or running.delivery.request_id != done["id"]:
            return Reply(400, body=b"that invocation is not under way\n")
        settle(running.outcome, None if done["kind"] == "response" else Failure(_error(call.body)))
        return Reply(202)

    def _invoke(self, call: Call) -> Reply:
        if call.headers.get("x-amz-invocation-type") != "Event":
            return Reply(400, body=b"the worker is invoked asynchronously: send X-Amz-Invocation-Type: Event\n")
        try:
            self._dispatch(json.loads(call.body))
        except NotDispatched as error:
            return Reply(503, body=f"{error}\n".encode())
        except ValueError:
            return Reply(400, body=b"the event is not JSON\n")
        return Reply(202)


def settle(future: "Future[Failure | None]", outcome: Failure | None) -> None:
    """The first outcome counts."""
    try:
        future.set_result(outcome)
    except InvalidStateError:
        logger.debug("a worker was through already when it %s", outcome or "returned")


def trace_id() -> str:
    """A trace header whose trace nobody keeps (https://docs.aws.amazon.com/xray/latest/devguide/xray-api-sendingdata.html)."""
    root = f"1-{int(time.time()):08x}-{secrets.token_hex(12)}"
    return f"Root={root};Parent={secrets.token_hex(8)};Sampled=0"


def _error(body: bytes) -> str:
    """An error as a runtime reports it, `{"errorMessage", "errorType", "stackTrace"}`, in a line."""
    try:
        told = json.loads(body)
        return f"{told['errorType']}: {told['errorMessage']}"
    except (ValueError, KeyError, TypeError):
        return "an error without a description"
