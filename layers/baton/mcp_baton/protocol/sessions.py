"""`Mcp-Session-Id`: an id that contains the capabilities that the client declared in its handshake. Pure.

The server stores no sessions. The client sends the id with every request, so the server knows which questions it
supports. The id is not signed: it only describes its sender, and grants nothing.
MCP 2025-11-25, basic/transports, Session Management.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from mcp_baton.protocol.json import JsonObject
from mcp_baton.protocol.state import from_base64url, to_base64url

SESSION_HEADER: Final = "Mcp-Session-Id"

APPS_EXTENSION: Final = "io.modelcontextprotocol/ui"
"""MCP Apps (SEP-1865): the client shows pages beside the results of a tool."""

APP_TYPE: Final = "text/html;profile=mcp-app"
"""The MIME type of such a page."""

APPS: Final = "apps"

CAPABILITIES: Final = MappingProxyType(
    {
        "elicitation": ("elicitation", "form"),
        "elicitation.url": ("elicitation", "url"),
        "sampling": ("sampling",),
        "sampling.tools": ("sampling", "tools"),
        "roots": ("roots",),
        APPS: ("extensions", APPS_EXTENSION),
    }
)
"""The capabilities in the id, and where a client declares them. Each has a bit, so their order must not change."""

RANDOM_BYTES: Final = 16
_FORM: Final = 1
_LENGTH: Final = 2 + RANDOM_BYTES


def session_id(declared: Collection[str], random: bytes) -> str:
    """Return the id for a client: 24 characters of base64url.

    Args:
        declared: The `CAPABILITIES` that the client declared.
        random: `RANDOM_BYTES` bytes that make the id unique.
    """
    flags = sum(1 << place for place, capability in enumerate(CAPABILITIES) if capability in declared)
    return to_base64url(bytes((_FORM, flags)) + random)


def capabilities_in(identifier: str) -> JsonObject | None:
    """Return the capabilities in an id, in the form of a declaration; `None` if the id has another form."""
    try:
        data = from_base64url(identifier)
    except ValueError:
        return None
    if len(data) != _LENGTH or data[0] != _FORM or data[1] >> len(CAPABILITIES):
        return None
    made: dict[str, Any] = {}
    for place, path in enumerate(CAPABILITIES.values()):
        here = made
        for part in path if data[1] >> place & 1 else ():
            here = here.setdefault(part, {})
    return made


def shows_apps(capabilities: JsonObject) -> bool:
    """Return whether a client declares that it shows the HTML pages of MCP Apps."""
    extensions = capabilities.get("extensions")
    declared = extensions.get(APPS_EXTENSION) if isinstance(extensions, Mapping) else None
    if not isinstance(declared, Mapping):
        return False
    types = declared.get("mimeTypes", (APP_TYPE,))
    return isinstance(types, list | tuple) and APP_TYPE in types
