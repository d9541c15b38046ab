"""The Lambda handler around an application: an event in, a response or a stream out. It knows nothing of MCP."""

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from mcp_baton.protocol.http import START_EVENT, ClientGone, HttpResponse
from mcp_baton.protocol.json import JsonObject, dumps
from mcp_baton.transport.events import EventFormat, UnreadableBody, format_of, http_request, request_context_of
from mcp_baton.transport.exchange import Application, Exchange, StreamOpener, no_limit, stream_opener
from mcp_baton.transport.request_context import correlation_id

logger = logging.getLogger(__name__)

JOB_EVENT: Final = "batonTask"
"""The member of an asynchronous event that names a background task (docs/background.md)."""

SWEEP_EVENT: Final = "batonSweep"
"""The member of the clock's event (docs/background.md, The clock)."""

CALLBACK_EVENT: Final = "batonCallback"
"""The member of an event with a callback (docs/waiting.md, Other senders)."""

type StartHandler = Callable[[object, Exchange], JsonObject]

type EventHandler = Callable[[JsonObject, Exchange], JsonObject]
"""Works on the member of an asynchronous event, and returns a report."""


class LambdaAdapter(Struct, frozen=True, eq=False):
    """An application as a Lambda handler (docs/deploying.md).

    Attributes:
        allow_anonymous: As for `resolve_owner`.
        streaming: Whether responses may be streamed if the caller of the handler supports it (`stream_opener`).
            Otherwise they are returned whole.
        event_handlers: Handle asynchronous events, by the name of their member.
        start: Handles the events that start workflows: a whole event, or an array of events.
    """

    app: Application
    allow_anonymous: bool
    streaming: bool
    event_handlers: Mapping[str, EventHandler] = MappingProxyType({})
    start: StartHandler | None = None

    def __call__(self, event: object, context: object, request_id: str | None = None) -> dict[str, Any]:
        """Handle an event. By default, the correlation id is the id of the event or of the context.

        Returns:
            The response in the format of the event; an empty object after a stream, which callers ignore.

        Raises:
            EventError: the event is not an HTTP request.
            Exception: the application failed while it streamed. The caller must abort the stream, so that it does not
                look complete.
        """
        for name, work in self.event_handlers.items():
            if isinstance(event, Mapping) and isinstance(event.get(name), Mapping):
                return dict(work(event[name], _exchange(request_id or correlation_id({}, context), context)))
        if self.start is not None and _starts_workflows(event):
            return dict(self.start(event, _exchange(request_id or correlation_id({}, context), context)))
        form, http_event = format_of(event)
        request_id = request_id or correlation_id(request_context_of(http_event), context)
        exchange = _exchange(request_id, context, stream_opener.get() if self.streaming else None)
        response = self._respond(http_event, form, exchange)
        return {} if response is None else form.result(exchange.with_added_headers(response))

    def _respond(self, event: Mapping[str, object], form: EventFormat, exchange: Exchange) -> HttpResponse | None:
        """Call the application. Return its response; `None` if it was streamed."""
        try:
            request = http_request(event, form, allow_anonymous=self.allow_anonymous)
        except UnreadableBody as error:
            return _error(400, str(error), exchange.request_id)
        try:
            return exchange.finish(self.app(request, exchange))
        except ClientGone:
            logger.info("request %s: the client disconnected before the response was complete", exchange.request_id)
            return None
        except Exception:
            if exchange.streamed:
                raise  # the caller of the handler logs it
            logger.exception("request %s failed", exchange.request_id)
            return _error(500, "internal error", exchange.request_id)


def _exchange(request_id: str, context: object, opener: StreamOpener | None = None) -> Exchange:
    # Tests and other callers of the handler may pass no context.
    clock = getattr(context, "get_remaining_time_in_millis", None)
    return Exchange(request_id, clock if callable(clock) else no_limit, opener)


def _starts_workflows(event: object) -> bool:
    """Whether an event, or a member of an array of events, starts a workflow."""
    members = event if isinstance(event, list) else [event]
    return any(isinstance(member, Mapping) and START_EVENT in member for member in members)


def _error(status: int, error: str, request_id: str) -> HttpResponse:
    body = dumps({"error": error, "requestId": request_id}).encode()
    return HttpResponse(status, {"Content-Type": "application/json"}, body)
