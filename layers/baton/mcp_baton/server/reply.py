"""The answer to one MCP request: one JSON object, or a stream that begins when there is something to say.

A stream is opened no earlier than its first event, so that a request which is refused still gets its HTTP status.
MCP basic/transports, Streamable HTTP.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType

from mcp_baton.protocol.http import ClientGone, Exchange, HttpResponse, StreamSink
from mcp_baton.protocol.json import Json, dumps
from mcp_baton.protocol.jsonrpc import notification_message

logger = logging.getLogger(__name__)

JSON_HEADERS: Mapping[str, str] = MappingProxyType({"Content-Type": "application/json", "Cache-Control": "no-store"})
STREAM_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Type": "text/event-stream",
        "Cache-Control": "no-cache, no-transform",
        "X-Accel-Buffering": "no",
    }
)


class Reply:
    """Writes the answer to one request. Used from the request's own thread only.

    Args:
        exchange: Where a stream can be opened.
        streams: Whether the client wants to hear of what happens before the result.
    """

    def __init__(self, exchange: Exchange, *, streams: bool) -> None:
        self._exchange = exchange
        self._streams = streams
        self._sink: StreamSink | None = None
        self._gone = False

    @property
    def gone(self) -> bool:
        """Whether the client has gone away."""
        return self._gone

    def notify(self, method: str, params: dict[str, Json]) -> None:
        """Send a notification, if the client listens to any."""
        if self._streams:
            self._write(_event(notification_message(method, params)))

    def keep_alive(self) -> None:
        """Send a comment line, so that nobody on the way takes the quiet for the end."""
        if self._streams:
            self._write(b": keep-alive\n\n")

    def result(self, message: Mapping[str, Json]) -> HttpResponse | None:
        """Send the result: on the stream if the client wants one, else whole."""
        if not self._streams:
            return whole(200, message)
        self._write(_event(message))
        return None

    def error(self, status: int, message: Mapping[str, Json]) -> HttpResponse | None:
        """Send an error: whole, with its HTTP status, unless a stream is open already."""
        if self._sink is None:
            return whole(status, message)
        self._write(_event(message))
        return None

    def _write(self, data: bytes) -> None:
        if self._gone:
            return
        try:
            if self._sink is None:
                self._sink = self._exchange.open_stream(200, STREAM_HEADERS)
            self._sink.write(data)
        except ClientGone:
            logger.info("request %s: the client went away before its answer was complete", self._exchange.request_id)
            self._gone = True


def whole(status: int, message: Mapping[str, Json]) -> HttpResponse:
    """A whole answer of one JSON object."""
    return HttpResponse(status, JSON_HEADERS, dumps(message).encode())


def _event(message: Mapping[str, Json]) -> bytes:
    return f"event: message\ndata: {dumps(message)}\n\n".encode()
