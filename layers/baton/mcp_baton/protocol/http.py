"""An HTTP request and its answer, as values; what lies between the transport and the MCP endpoint.

The transport makes a `HttpRequest` of whatever event it was given and hands it, with an `Exchange`, to the
application. The application either returns a `HttpResponse`, or opens a stream on the exchange, writes its reply
there and returns `None`.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from msgspec import Struct, field

HEADER_NAME: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
"""The pattern of a header's name: a token (RFC 9110, section 5.6.2)."""

SCOPE_CLAIMS: Final = ("scope", "scp", "scopes")
"""The claims that hold scopes: RFC 8693 section 4.2, what some issuers write, and what authorizers call them."""


class HttpRequest(Struct, frozen=True):
    """One request.

    Attributes:
        method: `POST`, `GET`, …
        path: The path below the stage, e.g. `/mcp`.
        headers: Names in lower case; a repeated header's values joined by `", "`.
        body: The body's bytes, decoded from base64 where the event had it so.
        owner: The authenticated identity; `None` for a caller without one.
        claims: What the authorizer says of the caller, by the claim's name; empty where there is no authorizer.
            Scopes are a text with blanks between them, or a list.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    owner: str | None
    claims: Mapping[str, object] = field(default_factory=dict)


class HttpResponse(Struct, frozen=True):
    """A whole answer. Header names are written as they are sent."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class StreamSink(Protocol):
    """An answer that is being written. Used from one thread; closed by whoever opened it for the application."""

    def write(self, data: bytes) -> None:
        """Send these bytes now.

        Raises:
            ClientGone: the client has gone away.
        """


class ClientGone(Exception):
    """The client closed the connection while its answer was being written."""


class Exchange(Protocol):
    """What surrounds one request."""

    @property
    def request_id(self) -> str:
        """The invocation's id, for logs and for error messages that a client can quote."""

    @property
    def can_stream(self) -> bool:
        """Whether a stream reaches the client as it is written; otherwise it is collected and sent whole."""

    def remaining_ms(self) -> int | None:
        """Milliseconds until the function is stopped; `None` when nothing stops it."""

    def add_headers(self, headers: Mapping[str, str]) -> None:
        """Put headers on the answer, whoever gives it and however: whole, streamed, or the transport for an application
        that failed. Headers that the answer has of its own stay as they are."""

    def open_stream(self, status: int, headers: Mapping[str, str]) -> StreamSink:
        """Begin the answer. At most once; nothing else may be returned afterwards."""


class Application(Protocol):
    """The MCP endpoint as the transport sees it."""

    def __call__(self, request: HttpRequest, exchange: Exchange) -> HttpResponse | None:
        """Answer whole, or `None` when the answer went to `exchange.open_stream`."""
