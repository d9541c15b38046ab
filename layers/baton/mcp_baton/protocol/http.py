"""HTTP requests and responses as values.

The transport turns an event into an `HttpRequest` and passes it, with an `Exchange`, to the application. That either
returns an `HttpResponse`, or opens a stream on the exchange, writes the response there and returns `None`.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Protocol

from msgspec import Struct, field

HEADER_NAME: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
"""The pattern of header names: tokens (RFC 9110, section 5.6.2)."""

ANONYMOUS: Final = "anonymous"
"""The owner of unauthenticated callers, if they are accepted."""

START_EVENT: Final = "batonStart"
"""The member of an asynchronous event that starts a workflow (docs/events.md)."""

SCOPE_CLAIMS: Final = ("scope", "scp", "scopes")
"""The claims with scopes: of RFC 8693 (section 4.2), of some issuers, and of authorizers."""

GROUPS_CLAIM: Final = "cognito:groups"
"""The claim with the user pool's groups of the caller."""


# The paths of the endpoints (docs/http.md)

MCP_PATH: Final = "/mcp"
CONSOLE_PATH: Final = "/console"
CONSOLE_CLIENT_PATH: Final = "/console/client.json"
APPROVALS_PATH: Final = "/approvals"
APPROVAL_LINKS_PATH: Final = "/approve/"
CALLBACKS_PATH: Final = "/callbacks/"


class HttpRequest(Struct, frozen=True):
    """One request.

    Attributes:
        path: The path below the stage, e.g. `/mcp`.
        headers: Names are in lower case. Values of a repeated header are joined by `", "`.
        owner: The authenticated identity; `None` for an unauthenticated caller.
        claims: The authorizer's claims about the caller. Scopes are a space-separated text or a list.
        query: The parameters of the query string.
        base_url: The public address of the API, from the host's own data; empty if it is not known.
        source: The address of the caller, in the same way.
        arrived_ms: When the host received the request, epoch milliseconds; `None` if it does not say.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    owner: str | None
    claims: Mapping[str, object] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    base_url: str = ""
    source: str | None = None
    arrived_ms: int | None = None

    @property
    def media_problem(self) -> str:
        """What to do about a body that is no JSON by its headers; empty if it is."""
        if self.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return "Unsupported media type: send application/json"
        return self.encoding_problem

    @property
    def encoding_problem(self) -> str:
        """What to do about a body that is compressed; empty if it is not."""
        encoding = self.headers.get("content-encoding", "").strip().lower()
        if encoding in ("", "identity"):
            return ""
        return f"Unsupported Content-Encoding {encoding[:100]}: send the body without it"

    def accepts(self, media_type: str) -> bool:
        """Whether the client accepts this type (RFC 9110, section 12.5.1). The most specific range of the header
        decides; without the header, all types are accepted."""
        return _accepts(self.headers.get("accept", "").strip() or "*/*", media_type)


@lru_cache(maxsize=64)  # clients repeat their headers
def _accepts(header: str, media_type: str) -> bool:
    accepted: dict[str, bool] = {}
    for item in header.lower().split(","):
        media_range, *parameters = (part.strip() for part in item.split(";"))
        weight = next((part[2:] for part in parameters if part.startswith("q=")), "1")
        is_accepted = not re.fullmatch(r"0(\.0*)?|\.0+", weight)
        accepted[media_range] = accepted.get(media_range, False) or is_accepted
    ranges = (media_type, f"{media_type.partition('/')[0]}/*", "*/*", "*")
    return next((accepted[name] for name in ranges if name in accepted), False)


class HttpResponse(Struct, frozen=True):
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def allowing(self, methods: str) -> "HttpResponse":
        """The response with the header `Allow`."""
        return HttpResponse(self.status, {**self.headers, "Allow": methods}, self.body)


class StreamSink(Protocol):
    """A streamed response. Used by one thread. The caller of the application closes it."""

    def write(self, data: bytes) -> None:
        """Send these bytes now. Raises `ClientGone` if the client disconnected."""


class ClientGone(Exception):
    """The client disconnected before its response was complete."""
