"""The page that shows tasks: one file, served at `GET /console` and as an MCP App (docs/console.md).

It contains no data: it requests everything from the MCP endpoint, with its user's credentials.
"""

import re
from binascii import b2a_base64
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from mcp_baton.protocol.http import HttpResponse
from mcp_baton.protocol.json import JsonObject, dumps
from mcp_baton.tasks.record import PAUSED_STEP, WAITED
from mcp_baton.workflow.pause import reasons_by_type

MARKER: Final = "{ /* console/page.py puts the pause reasons here */ }"
METHODS: Final = ("GET", "HEAD")
FILE: Final = Path(__file__).with_name("page.html")
_NONE: Final = "'none'"
_ELEMENT = re.compile(r"<(script|style)\b[^>]*>(.*?)</\1\s*>", re.DOTALL | re.IGNORECASE)


def answer(method: str, headers: Mapping[str, str]) -> HttpResponse:
    """Answer a request for the page: 200, 304 if the browser has this version, 405 for other methods."""
    if method not in METHODS:
        methods = ", ".join(METHODS)
        fields = {"Allow": methods, "Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}
        return HttpResponse(405, fields, f"Method not allowed: use {methods}\n".encode())
    tags = [tag.strip().removeprefix("W/") for tag in headers.get("if-none-match", "").split(",")]
    if etag() in tags or "*" in tags:
        return HttpResponse(304, page_headers())
    return HttpResponse(200, page_headers(), text().encode() if method == "GET" else b"")


@cache
def text() -> str:
    table: JsonObject = {"steps": PAUSED_STEP, "types": reasons_by_type(), "waited": WAITED}
    head, marker, tail = FILE.read_bytes().decode().partition(MARKER)
    if not marker:
        raise ValueError(f"{FILE.name} has no {MARKER}")
    return f"{head}{dumps(table)}{tail}"


@cache
def etag() -> str:
    return f'"{sha256(text().encode()).hexdigest()[:32]}"'


@cache
def page_headers() -> Mapping[str, str]:
    """The headers of the page: other sites cannot frame it, and it can send requests only to its own host."""
    return {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": policy(text()),
        "Cache-Control": "no-cache",
        "ETag": etag(),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }


def policy(html: str) -> str:
    """The content security policy of a page: only its inline scripts and styles, and requests to its own host (Content
    Security Policy Level 3)."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(_hashes(html, 'script')) or _NONE}",
            f"style-src {' '.join(_hashes(html, 'style')) or _NONE}",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            # No text is ever read as HTML (Trusted Types).
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _hashes(html: str, element: str) -> Iterator[str]:
    """The hash of each element with this name, as a source in a policy."""
    for name, content in _ELEMENT.findall(html):
        if name.lower() == element:
            yield f"'sha256-{b2a_base64(sha256(content.encode()).digest(), newline=False).decode()}'"
