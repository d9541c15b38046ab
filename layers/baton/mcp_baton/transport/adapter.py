"""The Lambda handler around an application: an event in, a response or a stream out. It knows nothing of MCP."""

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from mcp_baton.protocol.http import (
    START_EVENT,
    Application,
    ClientGone,
    Exchange,
    HttpRequest,
    HttpResponse,
    StreamSink,
)
from mcp_baton.protocol.json import JsonObject, dumps
from mcp_baton.transport.events import HttpEvent, parse_event
from mcp_baton.transport.request_context import (
    arrival_ms,
    base_url,
    claims_in,
    correlation_id,
    resolve_owner,
    source_address,
)
from mcp_baton.transport.stream import StreamOpener, stream_opener

logger = logging.getLogger(__name__)

JOB: Final = "batonTask"
"""The member of an asynchronous event that names a background task (docs/background.md)."""

SWEEP: Final = "batonSweep"
"""The member of the clock's event (docs/background.md, The clock)."""

CALLBACK: Final = "batonCallback"
"""The member of an event with a callback (docs/waiting.md, Other senders)."""

type StartHandler = Callable[[object, Exchange], JsonObject]

type EventHandler = Callable[[JsonObject, Exchange], JsonObject]
"""Works on the member of an asynchronous event, and returns a report."""


class LambdaAdapter:
    """An application as a Lambda handler (docs/deploying.md).

    Args:
        allow_anonymous: As for `resolve_owner`.
        streaming: Whether responses may be streamed if the caller of the handler supports it (`stream_opener`).
            Otherwise they are returned whole.
        event_handlers: Handle asynchronous events, by the name of their member.
        start: Handles the events that start workflows: a whole event, or an array of events.
    """

    def __init__(
        self,
        app: Application,
        *,
        allow_anonymous: bool,
        streaming: bool,
        event_handlers: Mapping[str, EventHandler] = MappingProxyType({}),
        start: StartHandler | None = None,
    ) -> None:
        self._app = app
        self._allow_anonymous = allow_anonymous
        self._streaming = streaming
        self._event_handlers = event_handlers
        self._start = start

    def __call__(self, event: object, context: object, request_id: str | None = None) -> dict[str, Any]:
        """Handle an event. By default, the correlation id is the id of the event or of the context.

        Returns:
            The response in the format of the event; an empty object after a stream, which callers ignore.

        Raises:
            EventError: the event is not an HTTP request.
            Exception: the application failed while it streamed. The caller must abort the stream, so that it does not
                look complete.
        """
        for name, work in self._event_handlers.items():
            if isinstance(event, Mapping) and isinstance(event.get(name), Mapping):
                return dict(work(event[name], LambdaExchange(request_id or correlation_id({}, context), context)))
        if self._start is not None and _starts_workflows(event):
            return dict(self._start(event, LambdaExchange(request_id or correlation_id({}, context), context)))
        http = parse_event(event)
        exchange = LambdaExchange(
            request_id or correlation_id(http.request_context, context),
            context,
            stream_opener.get() if self._streaming else None,
        )
        response = self._respond(http, exchange)
        return {} if response is None else http.result(exchange.with_added_headers(response))

    def _respond(self, http: HttpEvent, exchange: "LambdaExchange") -> HttpResponse | None:
        """Call the application. Return its response; `None` if it was streamed."""
        if http.body is None:
            return _error(400, "the body is not valid base64 or UTF-8", exchange.request_id)
        request = HttpRequest(
            http.method,
            http.path,
            http.headers,
            http.body,
            resolve_owner(http.request_context, allow_anonymous=self._allow_anonymous),
            claims_in(http.request_context),
            http.query,
            base_url(http.request_context),
            source_address(http.request_context),
            arrival_ms(http.request_context),
        )
        try:
            return exchange.finish(self._app(request, exchange))
        except ClientGone:
            logger.info("request %s: the client disconnected before the response was complete", exchange.request_id)
            return None
        except Exception:
            if exchange.streamed:
                raise  # the caller of the handler logs it
            logger.exception("request %s failed", exchange.request_id)
            return _error(500, "internal error", exchange.request_id)


class LambdaExchange:
    """The `Exchange` of an invocation."""

    __slots__ = ("_collected", "_headers", "_opener", "remaining_ms", "request_id", "streamed")

    remaining_ms: Callable[[], int | None]

    def __init__(self, request_id: str, context: object, opener: StreamOpener | None = None) -> None:
        clock = getattr(context, "get_remaining_time_in_millis", None)
        self.request_id = request_id
        self.remaining_ms = clock if callable(clock) else lambda: None
        self.streamed = False
        self._headers: Mapping[str, str] = {}
        self._opener = opener
        self._collected: _CollectedStream | None = None

    @property
    def can_stream(self) -> bool:
        return self._opener is not None

    def add_headers(self, headers: Mapping[str, str]) -> None:
        """Add headers to the response, even if the application fails. The response's own headers have priority."""
        self._headers = {**self._headers, **headers}

    def with_added_headers(self, response: HttpResponse) -> HttpResponse:
        return replace(response, headers={**self._headers, **response.headers}) if self._headers else response

    def open_stream(self, status: int, headers: Mapping[str, str]) -> StreamSink:
        """Begin the response: as a stream if the caller supports it, otherwise in memory."""
        if self._opener is None:
            self._collected = _CollectedStream(status, headers)
            return self._collected
        sink = self._opener(status, {**self._headers, **headers} if self._headers else headers)
        self.streamed = True
        return sink

    def finish(self, response: HttpResponse | None) -> HttpResponse | None:
        """Return the whole response; `None` if it was streamed. `response` is what the application returned."""
        collected = self._collected
        return HttpResponse(collected.status, collected.headers, bytes(collected.body)) if collected else response


def _starts_workflows(event: object) -> bool:
    """Whether an event, or a member of an array of events, starts a workflow."""
    members = event if isinstance(event, list) else [event]
    return any(isinstance(member, Mapping) and START_EVENT in member for member in members)


class _CollectedStream(Struct):
    status: int
    headers: Mapping[str, str]
    body: bytearray = field(default_factory=bytearray)

    def write(self, data: bytes) -> None:
        self.body += data


def _error(status: int, error: str, request_id: str) -> HttpResponse:
    body = dumps({"error": error, "requestId": request_id}).encode()
    return HttpResponse(status, {"Content-Type": "application/json"}, body)
