"""The page that shows tasks, served at `GET /console` and as an MCP App (docs/console.md).

It is one document, put together from `page.html`, `page.css` and `script/`. It contains no data: it requests everything
from the MCP endpoint, with its user's credentials.
"""

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from mcp_baton.present.pause_sentences import reasons_by_type
from mcp_baton.protocol.http import HttpResponse
from mcp_baton.protocol.json import JsonObject, dumps
from mcp_baton.tasks.record import PAUSED_STEP
from mcp_baton.transport.page_policy import policy

CONSOLE_METHODS: Final = ("GET", "HEAD")
FOLDER: Final = Path(__file__).parent
SCRIPTS: Final = (
    "elements",
    "server",
    "tasks",
    "words",
    "values",
    "forms",
    "page",
    "list",
    "approvals",
    "task",
    "actions",
    "connect",
    "start",
)
"""The parts of the script, in their order. They share one scope."""


def answer(method: str, headers: Mapping[str, str], sign_in_url: str = "") -> HttpResponse:
    """Answer a request for the page: 200, 304 if the browser has this version, 405 for other methods.

    Args:
        sign_in_url: Where the page signs its user in; empty if the user enters a credential.
    """
    if method not in CONSOLE_METHODS:
        return _not_allowed(CONSOLE_METHODS)
    fields, page = page_headers(sign_in_url), text(bool(sign_in_url))
    tags = [tag.strip().removeprefix("W/") for tag in headers.get("if-none-match", "").split(",")]
    if fields["ETag"] in tags or "*" in tags:
        return HttpResponse(304, fields)
    return HttpResponse(200, fields, page.encode() if method == "GET" else b"")


def answer_client(method: str, page_url: str, sign_in_url: str | None) -> HttpResponse:
    """Answer a request for the document that describes the page as an OAuth client, whose id is the document's URL
    (draft-ietf-oauth-client-id-metadata-document)."""
    if method != "GET":
        return _not_allowed(("GET",))
    if not sign_in_url or not page_url.startswith("http"):
        return HttpResponse(
            404, {"Content-Type": "application/json"}, b'{"message": "the console does not sign users in"}'
        )
    document: JsonObject = {
        "client_id": f"{page_url}/client.json",
        "client_name": "Baton console",
        "redirect_uris": [page_url],
        "response_types": ["code"],
        "grant_types": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_method": "none",
    }
    fields = {"Content-Type": "application/json", "X-Content-Type-Options": "nosniff"}
    return HttpResponse(200, fields, dumps(document).encode())


def _not_allowed(allowed: tuple[str, ...]) -> HttpResponse:
    methods = ", ".join(allowed)
    fields = {"Allow": methods, "Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}
    return HttpResponse(405, fields, f"Method not allowed: use {methods}\n".encode())


@cache
def text(signs_in: bool = False) -> str:
    """Return the page. With `signs_in`, it signs its user in at the authorization server."""
    table: JsonObject = {"steps": PAUSED_STEP, "types": reasons_by_type(), "signs_in": signs_in}
    page = _read("page.html").replace("/* page.css */\n", _read("page.css"))
    script = "\n".join(_read(f"script/{name}.js") for name in SCRIPTS)
    return page.replace("/* script/*.js */\n", script).replace("{ /* the pause reasons */ }", dumps(table))


def _read(name: str) -> str:
    return FOLDER.joinpath(name).read_bytes().decode()


@cache
def page_headers(sign_in_url: str = "") -> Mapping[str, str]:
    """The headers of the page: other sites cannot frame it, and it can send requests only to its own host and to the
    authorization server."""
    page = text(bool(sign_in_url))
    return {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": policy(page, sign_in_url),
        "Cache-Control": "no-cache",
        "ETag": f'"{sha256(page.encode()).hexdigest()[:32]}"',
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }
