"""The Lambda Runtime API of one worker process, and Lambda's `Invoke` for the events that this worker sends.

https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html and
https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html. As in Lambda, where each container has a Runtime API of
its own, each worker process has a port of its own.
"""

import json
import logging
import re
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from queue import SimpleQueue
from threading import Lock

from werkzeug.wrappers import Request, Response

from mcp_baton.exceptions import NotDispatched
from mcp_baton.local.http_server import LOOPBACK, LocalServer, may_be_page
from mcp_baton.local.workers.event_queue import Delivery
from mcp_baton.protocol.json import JsonObject, dumps

logger = logging.getLogger(__name__)

RUNTIME = "/2018-06-01/runtime"
INVOCATIONS = "/2015-03-31/functions/baton/invocations"
ARN = "arn:aws:lambda:local:000000000000:function:baton"
TIMEOUT_S = 10.0
_DONE = re.compile(rf"{RUNTIME}/invocation/(?P<id>[^/]+)/(?P<kind>response|error)")


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why an attempt failed."""

    why: str


@dataclass(frozen=True, slots=True)
class Invocation:
    """A delivery that a worker process works on or will work on.

    Attributes:
        deadline_ms: The end of its time, epoch milliseconds.
        outcome: `None` if the handler returned.
    """

    delivery: Delivery
    deadline_ms: int
    outcome: "Future[Failure | None]" = field(default_factory=Future)


class RuntimeApi:
    """The Runtime API of one worker process, on a port of its own.

    Attributes:
        ready: Done when the process asks for its first event, or reports that it cannot start.

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
        self._server = LocalServer(LOOPBACK, 0, Request.application(self._answer)).start()

    @property
    def address(self) -> str:
        """`host:port`, for `AWS_LAMBDA_RUNTIME_API`."""
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
        """Fail the invocation that the process has not answered, and close the port."""
        with self._lock:
            self._ended = Failure(why)
        settle(self.ready, self._ended)
        if self._running is not None:
            settle(self._running.outcome, self._ended)
        self._offered.put(None)
        self._server.close()

    def _answer(self, request: Request) -> Response:
        if may_be_page(request):
            return Response("for the processes of baton serve\n", 403)
        done = _DONE.fullmatch(request.path)
        match request.method, request.path:
            case "GET", path if path == f"{RUNTIME}/invocation/next":
                return self._next()
            case "POST", path if path == f"{RUNTIME}/init/error":
                settle(self.ready, Failure(f"it could not be started: {_error(request.get_data())}"))
                return Response(status=202)
            case "POST", path if path == INVOCATIONS:
                return self._invoke(request)
            case "POST", _ if done is not None:
                return self._done(done, request.get_data())
            case _:
                return Response("the Runtime API has no such path\n", 404)

    def _next(self) -> Response:
        settle(self.ready, None)
        invocation = self._offered.get()
        if invocation is None:
            return Response("the process has ended\n", 410)
        headers = {
            "Lambda-Runtime-Aws-Request-Id": invocation.delivery.request_id,
            "Lambda-Runtime-Deadline-Ms": str(invocation.deadline_ms),
            "Lambda-Runtime-Invoked-Function-Arn": ARN,
            "Lambda-Runtime-Trace-Id": trace_id(),
        }
        return Response(dumps(invocation.delivery.event), 200, headers, content_type="application/json")

    def _done(self, done: re.Match[str], body: bytes) -> Response:
        running = self._running
        if running is None or running.delivery.request_id != done["id"]:
            return Response("this invocation is not running\n", 400)
        settle(running.outcome, None if done["kind"] == "response" else Failure(_error(body)))
        return Response(status=202)

    def _invoke(self, request: Request) -> Response:
        if request.headers.get("X-Amz-Invocation-Type") != "Event":
            return Response("the worker is invoked asynchronously: send X-Amz-Invocation-Type: Event\n", 400)
        try:
            self._dispatch(json.loads(request.get_data()))
        except NotDispatched as error:
            return Response(f"{error}\n", 503)
        except ValueError:
            return Response("the event is not JSON\n", 400)
        return Response(status=202)


class Invoker:
    """Sends the events of a worker process to the queue. Implements `tasks.jobs.Dispatcher`.

    Args:
        address: `host:port` of the Runtime API, which also accepts events.
    """

    def __init__(self, address: str) -> None:
        self._address = address

    def dispatch(self, event: JsonObject) -> None:
        """Send an event.

        Raises:
            NotDispatched: the local server did not accept it.
        """
        connection = HTTPConnection(self._address, timeout=TIMEOUT_S)
        try:
            connection.request("POST", INVOCATIONS, dumps(event).encode(), {"X-Amz-Invocation-Type": "Event"})
            reply = connection.getresponse()
            reason = reply.read().decode().strip()
        except (OSError, HTTPException) as error:
            raise NotDispatched(f"the local server does not answer: {error}") from error
        finally:
            connection.close()
        if reply.status != 202:
            raise NotDispatched(f"the local server answered {reply.status}: {reason}")


def settle(future: "Future[Failure | None]", outcome: Failure | None) -> None:
    """Set the outcome unless there already is one."""
    try:
        future.set_result(outcome)
    except InvalidStateError:
        logger.debug("a worker had already finished when it %s", outcome or "returned")


def trace_id() -> str:
    """Return the header of a trace that is not sampled
    (https://docs.aws.amazon.com/xray/latest/devguide/xray-api-sendingdata.html)."""
    root = f"1-{int(time.time()):08x}-{secrets.token_hex(12)}"
    return f"Root={root};Parent={secrets.token_hex(8)};Sampled=0"


def _error(body: bytes) -> str:
    """Return the error of a runtime, `{"errorMessage", "errorType", "stackTrace"}`, in one line."""
    try:
        error = json.loads(body)
        return f"{error['errorType']}: {error['errorMessage']}"
    except (ValueError, KeyError, TypeError):
        return "an error without a description"
