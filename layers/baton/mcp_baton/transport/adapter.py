"""The Lambda handler: an event in, an answer out, whole or streamed. Knows HTTP and Lambda, nothing of MCP."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from msgspec.structs import replace

from mcp_baton.protocol.http import Application, ClientGone, Exchange, HttpRequest, HttpResponse, StreamSink
from mcp_baton.protocol.json import JsonObject, dumps
from mcp_baton.transport.events import Incoming, parse_event
from mcp_baton.transport.request_context import claims_in, correlation_id, resolve_owner
from mcp_baton.transport.stream import StreamOpener, stream_opener

logger = logging.getLogger(__name__)

JOB: Final = "batonTask"
"""The member of an event that sends for a worker (docs/background.md)."""

type Work = Callable[[JsonObject, Exchange], JsonObject]
"""Works on the task that an event names; what became of it."""


class OwnerResolver(Protocol):
    """Who a request belongs to, by what its sender vouches for."""

    def __call__(self, request_context: Mapping[str, object], *, allow_anonymous: bool) -> str | None:
        """The identity; `None` when there is none."""


class LambdaAdapter:
    """An application as a Lambda handler (docs/deploying.md).

    Args:
        app: Answers the requests.
        allow_anonymous: Whether a request without an identity belongs to the owner `"anonymous"`.
        streaming: Whether a stream may be used where the caller of the handler offers one (`stream_opener`). Without
            one the same answer is returned whole.
        owner: Resolves the owner of a request.
        work: Takes the event of an asynchronous invocation that names a task; `None` where there are no tasks.
    """

    def __init__(
        self,
        app: Application,
        *,
        allow_anonymous: bool,
        streaming: bool,
        owner: OwnerResolver = resolve_owner,
        work: Work | None = None,
    ) -> None:
        self._app = app
        self._allow_anonymous = allow_anonymous
        self._streaming = streaming
        self._owner = owner
        self._work = work

    def __call__(self, event: object, context: object, request_id: str | None = None) -> dict[str, Any]:
        """Answer one event; an empty answer after a stream, whose caller ignores it.

        Args:
            event: What the function was invoked with.
            context: What Lambda hands to a handler beside the event.
            request_id: The id to find the request by; `None` for the one that event and context say.

        Raises:
            EventError: the event is not an HTTP request.
            Exception: the application failed after its stream had begun. Whoever took the stream must break it off, so
                that it does not look complete.
        """
        if self._work is not None and isinstance(event, Mapping) and isinstance(event.get(JOB), Mapping):
            known = correlation_id({}, context) if request_id is None else request_id
            return dict(self._work(event[JOB], Invocation(known, _clock(context), None)))
        incoming = parse_event(event)
        opener = stream_opener.get() if self._streaming else None
        known = correlation_id(incoming.request_context, context) if request_id is None else request_id
        invocation = Invocation(known, _clock(context), opener)
        response = self._respond(incoming, invocation)
        return {} if response is None else incoming.answer(invocation.complete(response))

    def _respond(self, incoming: Incoming, invocation: "Invocation") -> HttpResponse | None:
        if incoming.body is None:
            return _problem(400, "the body is not valid base64 or UTF-8", invocation.request_id)
        owner = self._owner(incoming.request_context, allow_anonymous=self._allow_anonymous)
        claims = claims_in(incoming.request_context)
        request = HttpRequest(incoming.method, incoming.path, incoming.headers, incoming.body, owner, claims)
        try:
            return invocation.settle(self._app(request, invocation))
        except ClientGone:
            logger.info("request %s: the client went away before its answer was complete", invocation.request_id)
            return None
        except Exception:
            if invocation.streamed:
                raise  # whoever called the handler logs it
            logger.exception("request %s failed", invocation.request_id)
            return _problem(500, "internal error", invocation.request_id)


class Invocation:
    """One request's surroundings (`Exchange`), and what has become of its answer."""

    __slots__ = ("_added", "_collected", "_opener", "remaining_ms", "request_id", "streamed")

    remaining_ms: Callable[[], int | None]
    """Milliseconds until the function is stopped; `None` when nothing stops it."""

    def __init__(self, request_id: str, clock: Callable[[], int] | None, opener: StreamOpener | None) -> None:
        self.request_id = request_id
        self.remaining_ms = clock or _unlimited
        self.streamed = False
        self._added: Mapping[str, str] = {}
        self._opener = opener
        self._collected: _Collected | None = None

    @property
    def can_stream(self) -> bool:
        """Whether a stream reaches the client as it is written."""
        return self._opener is not None

    def add_headers(self, headers: Mapping[str, str]) -> None:
        """Put headers on the answer, whatever becomes of it."""
        self._added = {**self._added, **headers}

    def complete(self, response: HttpResponse) -> HttpResponse:
        """A whole answer with the headers that were put on it."""
        return replace(response, headers={**self._added, **response.headers}) if self._added else response

    def open_stream(self, status: int, headers: Mapping[str, str]) -> StreamSink:
        """Begin the answer, on the wire where there is a stream, otherwise in memory.

        Raises:
            RuntimeError: it has begun already.
        """
        if self.streamed or self._collected is not None:
            raise RuntimeError("the answer's stream is open already")
        if self._opener is None:
            self._collected = _Collected(status, headers)
            return self._collected
        sink = self._opener(status, {**self._added, **headers} if self._added else headers)
        self.streamed = True
        return sink

    def settle(self, response: HttpResponse | None) -> HttpResponse | None:
        """What is left to return: the whole answer, or `None` when it was streamed.

        Raises:
            RuntimeError: the application answered twice, or not at all.
        """
        opened = self.streamed or self._collected is not None
        if opened == (response is not None):
            raise RuntimeError("an application must either return a response or open a stream")
        return response if self._collected is None else self._collected.response()


class _Collected:
    """A stream's parts where the caller takes no stream: collected into a whole answer."""

    __slots__ = ("_body", "_headers", "_status")

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        self._status = status
        self._headers = headers
        self._body = bytearray()

    def write(self, data: bytes) -> None:
        self._body += data

    def response(self) -> HttpResponse:
        return HttpResponse(self._status, self._headers, bytes(self._body))


def _unlimited() -> None:
    return None


def _clock(context: object) -> Callable[[], int] | None:
    clock = getattr(context, "get_remaining_time_in_millis", None)
    return clock if callable(clock) else None


def _problem(status: int, error: str, request_id: str) -> HttpResponse:
    body = dumps({"error": error, "requestId": request_id}).encode()
    return HttpResponse(status, {"Content-Type": "application/json"}, body)
