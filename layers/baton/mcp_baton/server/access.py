"""Access checks before a request is read: origin, identity, path, method and size (docs/http.md). Pure."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mcp_baton.protocol.http import (
    APPROVAL_LINKS_PATH,
    APPROVALS_PATH,
    CALLBACKS_PATH,
    CONSOLE_CLIENT_PATH,
    CONSOLE_PATH,
    HEADER_NAME,
    MCP_PATH,
    HttpRequest,
    HttpResponse,
)
from mcp_baton.settings import Settings
from mcp_baton.tasks.texts import MAX_OWNER_BYTES, to_text
from mcp_baton.transport.exchange import refusal

LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")
PAGE_METHODS: Final = "POST"
"""The methods that a page may use. `GET` needs no permission: the page can read the 405."""

EXPOSED_HEADERS: Final = "Allow, Mcp-Session-Id, WWW-Authenticate, X-Amzn-ErrorType, X-Amzn-RequestId, X-Amzn-Trace-Id"
"""Headers that a page may read, including those of API Gateway."""

PREFLIGHT_AGE_S: Final = 7_200
"""How long a browser may cache the reply to a preflight, seconds: the maximum of Chromium."""

_LOCAL = re.compile(rf"({'|'.join(map(re.escape, LOCAL_HOSTS))})(:[0-9]+)?")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")


class AllowedPage(Struct, frozen=True):
    """A web page that may call the server, identified by its origin."""

    origin: str

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of each reply to the page. Without them, the browser hides the reply from the page."""
        return MappingProxyType(
            {
                "Access-Control-Allow-Origin": self.origin,
                "Access-Control-Expose-Headers": EXPOSED_HEADERS,
                "Vary": "Origin",
            }
        )

    def preflight(self, headers: Mapping[str, str]) -> HttpResponse:
        """Reply to a preflight. It allows each header that the page asks for, because `*` does not include
        `Authorization`."""
        requested_names = [name.strip() for name in headers.get("access-control-request-headers", "").split(",")]
        names = ", ".join(name for name in requested_names if re.fullmatch(HEADER_NAME, name))
        allow_headers = {"Access-Control-Allow-Headers": names} if names else {}
        return HttpResponse(
            204,
            {
                **self.headers,
                "Access-Control-Allow-Methods": PAGE_METHODS,
                **allow_headers,
                "Access-Control-Max-Age": str(PREFLIGHT_AGE_S),
                "Vary": "Origin, Access-Control-Request-Headers",
            },
        )


class ForeignPage(Struct, frozen=True):
    """A page that may not call the server, or a request to this machine under a foreign host name."""


def caller_of(headers: Mapping[str, str], settings: Settings) -> AllowedPage | ForeignPage | None:
    """Return the page that sends a request with these headers; `None` without an `Origin`, which each page sends.

    With `local_only`, pages of this machine may call, too, and only this machine's host names are accepted.
    """
    if settings.local_only and not is_local_host(headers.get("host", "localhost")):
        return ForeignPage()
    origin = headers.get("origin")
    if origin is None:
        return None
    # API Gateway has certificates only for its own names, so a foreign name does not reach it.
    is_own_page = (settings.console or settings.approval_links) and origin == f"https://{headers.get('host', '')}"
    is_allowed = origin in settings.allowed_origins or (settings.local_only and is_local(origin)) or is_own_page
    return AllowedPage(origin) if is_allowed else ForeignPage()


def is_local(origin: str) -> bool:
    """Whether an origin names this machine, by a name that public DNS cannot assign."""
    scheme, _, authority = origin.partition("://")
    return bool(_SCHEME.fullmatch(scheme)) and is_local_host(authority)


def is_local_host(host: str) -> bool:
    """Whether a `Host` header, or the authority of an origin, names this machine, with or without a port."""
    return _LOCAL.fullmatch(host) is not None


def is_preflight(request: HttpRequest) -> bool:
    return request.method == "OPTIONS" and "access-control-request-method" in request.headers


NO_IDENTITY: Final = (
    "Forbidden: this call has no identity, so nothing was run. For the operator: give the API an authorizer (template "
    "parameter Auth), or let everybody in with BATON_ALLOW_ANONYMOUS=on"
)
NO_HEADER: Final = (
    "Forbidden: this call has no identity, so nothing was run. Send the header that --owner-header names, once and "
    "with a value"
)


def forbidden(owner: str | None, *, local: bool) -> str | None:
    if owner is None:
        return NO_HEADER if local else NO_IDENTITY
    size = len(to_text(owner).encode())
    if size > MAX_OWNER_BYTES:
        return (
            f"Forbidden: the caller's identity has {size} bytes, and no more than {MAX_OWNER_BYTES} can be kept, so "
            "nothing was run. For the operator: have the authorizer give a shorter `sub` or principal"
        )
    return None


def early_answer(request: HttpRequest, page: AllowedPage | None, settings: Settings) -> HttpResponse | None:
    """Answer a preflight or the console, or refuse a request before its body is read."""
    if request.path in (CONSOLE_PATH, CONSOLE_CLIENT_PATH) and settings.console:
        from mcp_baton.console.page import answer, answer_client

        if request.path == CONSOLE_CLIENT_PATH:
            return answer_client(
                request.method, f"{settings.base_url or request.base_url}{CONSOLE_PATH}", settings.sign_in_url
            )
        return answer(request.method, request.headers, settings.sign_in_url or "")
    if (request.path.startswith(APPROVAL_LINKS_PATH) and settings.approval_links) or request.path.startswith(
        CALLBACKS_PATH
    ):
        return None
    is_mcp = request.path.rstrip("/") == MCP_PATH
    if not is_mcp and not is_approvals(request.path):
        return refusal(404, f"Not found: the MCP endpoint is {MCP_PATH}")
    if page is not None and is_preflight(request):
        return page.preflight(request.headers)
    if is_mcp and request.method != "POST":
        return refusal(405, "Method not allowed: use POST").allowing("POST")
    reason = forbidden(request.owner, local=settings.local_only)
    if reason:
        return refusal(403, reason)
    if is_mcp and request.media_problem:
        return refusal(415, request.media_problem)
    if is_mcp and len(request.body) > settings.max_body_bytes:
        return refusal(413, f"Content too large: at most {settings.max_body_bytes} bytes")
    return None


def is_approvals(path: str) -> bool:
    """Whether a path belongs to the approvals API."""
    return path == APPROVALS_PATH or path.startswith(f"{APPROVALS_PATH}/")
