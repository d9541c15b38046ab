"""One invocation of the function: its id, the time that is left, and its reply: one JSON object, or a stream.

A stream is opened with its first event, so a request that is refused before still gets its HTTP status. MCP
basic/transports, Streamable HTTP.
"""

import logging
import os
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Final, Protocol, cast

from msgspec import Struct, field
from msgspec.structs import replace

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.http import ClientGone, HttpRequest, HttpResponse, StreamSink
from mcp_baton.protocol.json import Json, JsonObject, dumps, escaped, json_size
from mcp_baton.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    RequestId,
    error_message,
    notification_message,
    request_message,
)

logger = logging.getLogger(__name__)

JSON_HEADERS: Mapping[str, str] = MappingProxyType({"Content-Type": "application/json", "Cache-Control": "no-store"})
STREAM_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Type": "text/event-stream",
        "Cache-Control": "no-cache, no-transform",
        "X-Accel-Buffering": "no",
    }
)

KEEP_ALIVE_S = 15.0
"""The longest silence of a stream, seconds (docs/http.md)."""

MAX_RESULT_EVENT_BYTES = 1_000_000
"""A longer result is not an event, if it can be one JSON object. By default, the official Python SDK 2 limits the lines
of an event to 1 MiB in total."""

MAX_WHOLE_BYTES = 6_200_000
"""The longest body of a response that is not streamed, as a JSON text: Lambda refuses a return value of more than
6,291,556 bytes, with the headers, and the caller gets a 502."""

PIECE_CHARS = 65_536
"""The characters of a long text that are written at once."""


TOO_LONG = (
    "The request was carried out, but its answer has more than 6 MB, which Lambda does not return without streaming. "
    "Return less, or a link; or deploy the server with streaming."
)

# The handler is an ordinary function of an event and a context. A caller that can stream (the runtime client on Lambda,
# the local server) sets `stream_opener` during the call. A caller that can run work after the response sets
# `after_answer`.

type StreamOpener = Callable[[int, Mapping[str, str]], StreamSink]
"""Begins a streamed response with a status and headers. The caller of the handler closes the stream afterwards."""

stream_opener: ContextVar[StreamOpener | None] = ContextVar("stream_opener", default=None)
"""Opens the stream of the current invocation; `None` if the response must be returned whole."""

type LaterWork = Callable[[], None]

after_answer: ContextVar[Callable[[LaterWork], None] | None] = ContextVar("after_answer", default=None)
"""Takes work to do after the response was sent; `None` if the caller cannot do this."""


def do_later(work: LaterWork) -> None:
    """Do this after the response, or now if the caller cannot do it later."""
    later = after_answer.get()
    if later is None:
        work()
    else:
        later(work)


def no_limit() -> None:
    return None


class Exchange:
    """One invocation and its reply. Used from the request's own thread only.

    Args:
        request_id: The correlation id, for logs and error messages.
        remaining_ms: Returns the milliseconds until the function is stopped; `None` without a limit.
        opener: Opens the stream. Without one, a stream is collected and sent whole.

    Attributes:
        streamed: Whether a part of the reply was sent as a stream.
        gone: Whether the client disconnected.
        takes_stream: Whether the client accepts a stream.
    """

    __slots__ = (
        *("_collected", "_headers", "_id", "_long_text", "_may_stream", "_opener", "_quiet_s", "_sink", "_streams"),
        *("_takes_json", "gone", "remaining_ms", "request_id", "streamed", "takes_stream"),
    )

    remaining_ms: Callable[[], int | None]

    def __init__(
        self,
        request_id: str,
        remaining_ms: Callable[[], int | None] = no_limit,
        opener: StreamOpener | None = None,
    ) -> None:
        self.request_id = request_id
        self.remaining_ms = remaining_ms
        self.streamed = self.gone = self.takes_stream = False
        self._opener = opener
        self._headers: Mapping[str, str] = {}
        self._streams = self._may_stream = False
        self._takes_json = True
        self._long_text: tuple[str, str] | None = None
        self._id: RequestId | None = None
        self._collected: _CollectedStream | None = None
        self._sink: StreamSink | None = None
        self._quiet_s = 0.0

    def choose_form(self, *, streams: bool, may_stream: bool, takes_stream: bool, takes_json: bool) -> None:
        """Choose the form of the reply to an MCP request.

        Args:
            streams: Whether the client wants messages before the result.
            may_stream: Whether a stream may be opened anyway, for logs and questions: requests of the handshake era do
                not say whether they want them.
            takes_stream: Whether the client accepts a stream.
            takes_json: Whether the client accepts a JSON object. Otherwise the result is an event.
        """
        self.takes_stream = takes_stream
        self._streams, self._may_stream = streams and takes_stream, may_stream and takes_stream
        self._takes_json = takes_json or not takes_stream

    @property
    def can_stream(self) -> bool:
        """Whether the client receives a stream while it is written."""
        return self.takes_stream and self._opener is not None

    @property
    def silent(self) -> bool:
        return not (self._streams and self._opener is not None)

    @property
    def may_ask(self) -> bool:
        return self._may_stream and self._opener is not None

    # The response

    def add_headers(self, headers: Mapping[str, str]) -> None:
        """Add headers to the response: whole, streamed, or an error of the transport. The response's own headers have
        priority."""
        self._headers = {**self._headers, **headers}

    def with_added_headers(self, response: HttpResponse) -> HttpResponse:
        return replace(response, headers={**self._headers, **response.headers}) if self._headers else response

    def open_stream(self, status: int, headers: Mapping[str, str]) -> StreamSink:
        """Begin the response: as a stream if the caller of the handler supports it, otherwise in memory. At most once;
        the application must then return `None`."""
        if self._opener is None:
            self._collected = _CollectedStream(status, headers)
            return self._collected
        sink = self._opener(status, {**self._headers, **headers} if self._headers else headers)
        self.streamed = True
        return sink

    def finish(self, response: HttpResponse | None) -> HttpResponse | None:
        """Return the whole response; `None` if it was streamed. `response` is what the application returned."""
        collected = self._collected
        whole = HttpResponse(collected.status, collected.headers, bytes(collected.body)) if collected else response
        if whole is None or self._opener is not None or len(whole.body) <= MAX_WHOLE_BYTES // 2:
            return whole
        length = json_size(whole.body.decode(errors="replace"))
        if length <= MAX_WHOLE_BYTES:
            return whole
        logger.error("request %s: its answer of %d bytes is too long without streaming", self.request_id, length)
        message = error_message(self._id, ProtocolError(INTERNAL_ERROR, TOO_LONG))
        return json_response(200, message) if self._takes_json else HttpResponse(200, STREAM_HEADERS, _event(message))

    # The messages of an MCP reply

    def in_pieces(self, text: str) -> str:
        """Write a long text in pieces, as a part of the result. Returns the placeholder for it in the result."""
        placeholder = os.urandom(16).hex()
        self._long_text = (placeholder, text)
        return placeholder

    def notify(self, method: str, params: dict[str, Json]) -> None:
        if self._streams or self._may_stream:
            self._write(_event(notification_message(method, params)))

    def request(self, identifier: str, method: str, params: JsonObject) -> None:
        self._write(_event(request_message(identifier, method, params)))

    def keep_alive(self) -> None:
        """Send a comment line, so that no proxy closes a quiet connection."""
        if self._streams or self._sink is not None:
            self._write(b": keep-alive\n\n")

    def pause(self, seconds: float, sleep: Callable[[float], None]) -> None:
        """Wait, unless the client is gone. Sends a comment line after each `KEEP_ALIVE_S`, and opens the stream for it
        if the client accepts one."""
        while seconds > 0 and not self.gone:
            part_s = min(seconds, KEEP_ALIVE_S - self._quiet_s)
            sleep(part_s)
            seconds -= part_s
            self._quiet_s += part_s
            if self._quiet_s < KEEP_ALIVE_S:
                continue
            self._quiet_s = 0.0
            # Without a stream, the comments would be collected for nothing.
            if self._sink is not None or ((self._streams or self._may_stream) and self._opener is not None):
                self._write(b": keep-alive\n\n")

    def result(self, message: Mapping[str, Json]) -> HttpResponse | None:
        is_free = self._sink is None and self._takes_json
        self._id = cast("RequestId | None", message.get("id"))
        if self._long_text is not None:
            self._write_long(_json_text(message), *self._long_text, as_json=is_free)
            return None
        if is_free and not self._streams:
            return json_response(200, message)
        event = _event(message)
        if is_free and len(event) > MAX_RESULT_EVENT_BYTES:
            # Written as a stream is, because Lambda limits a whole response to 6 MB.
            self._write(_json_text(message).encode(), JSON_HEADERS)
        else:
            self._write(event)
        return None

    def error(self, status: int, message: Mapping[str, Json]) -> HttpResponse | None:
        if self._sink is None and (self._takes_json or status != 200):
            return json_response(status, message)
        self._write(_event(message))
        return None

    def _write_long(self, message: str, placeholder: str, text: str, *, as_json: bool) -> None:
        head, _, tail = _on_one_line(message).partition(placeholder)
        headers, begin, end = (JSON_HEADERS, "", "") if as_json else (STREAM_HEADERS, "event: message\ndata: ", "\n\n")
        self._write(f"{begin}{head}".encode(), headers)
        for start in range(0, len(text), PIECE_CHARS):
            self._write(_on_one_line(_without_halves(escaped(text[start : start + PIECE_CHARS]))).encode())
        self._write(f"{tail}{end}".encode())

    def _write(self, data: bytes, headers: Mapping[str, str] = STREAM_HEADERS) -> None:
        if self.gone:
            return
        try:
            if self._sink is None:
                self._sink = self.open_stream(200, headers)
            self._sink.write(data)
        except ClientGone:
            logger.info("request %s: the client went away before its answer was complete", self.request_id)
            self.gone = True


class _CollectedStream(Struct):
    status: int
    headers: Mapping[str, str]
    body: bytearray = field(default_factory=bytearray)

    def write(self, data: bytes) -> None:
        self.body += data


class Application(Protocol):
    """The MCP endpoint as the transport sees it."""

    def __call__(self, request: HttpRequest, exchange: Exchange) -> HttpResponse | None:
        """Return the response, or `None` after a stream."""


def json_response(status: int, message: Mapping[str, Json]) -> HttpResponse:
    return HttpResponse(status, JSON_HEADERS, _json_text(message).encode())


def _event(message: Mapping[str, Json]) -> bytes:
    return f"event: message\ndata: {_on_one_line(_json_text(message))}\n\n".encode()


def _json_text(message: Mapping[str, Json]) -> str:
    """The message as JSON. Lone surrogates become U+FFFD: the official Python SDKs cannot read a message with one, and
    the older one waits for another forever. A client whose request id has one gets them as they are."""
    text = dumps(message)
    return text if "\\ud" not in text or "\\ud" in escaped(str(message.get("id"))) else _without_halves(text)


def _without_halves(text: str) -> str:
    """Replace the escaped lone surrogates in a JSON text. Two halves of a pair, one after the other, are its character:
    `dumps` escapes no others."""
    return _SURROGATES.sub(lambda match: match[1] + (match[2] or "\ufffd"), text)


_HEX: Final = "[0-9a-f]{2}"
_SURROGATES: Final = re.compile(rf"(?<!\\)((?:\\\\)*)(?:(\\ud[89ab]{_HEX}\\ud[c-f]{_HEX})|\\ud[89a-f]{_HEX})")

_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
"""Characters of JSON strings at which some clients split the lines of a stream."""


def _on_one_line(text: str) -> str:
    """Escape the line ends in a JSON text."""
    return text if text.isascii() else text.translate(_LINE_ENDS)


def refusal(status: int, message: str) -> HttpResponse:
    return json_response(status, error_message(None, ProtocolError(INVALID_REQUEST, message)))
