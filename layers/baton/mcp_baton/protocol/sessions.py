"""`Mcp-Session-Id`: what a client has declared in its handshake, in an id that it sends along with every request. Pure.

No session is kept. The id says which of the capabilities that matter here the client has declared, so that it is not
asked what it cannot answer. It is not signed: it speaks of its sender alone, and lets it do nothing.
MCP 2025-11-25, basic/transports, Session Management.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from mcp_baton.protocol.json import JsonObject
from mcp_baton.protocol.state import from_base64url, to_base64url

SESSION_HEADER: Final = "Mcp-Session-Id"

APPS_EXTENSION: Final = "io.modelcontextprotocol/ui"
"""MCP Apps, SEP-1865: pages that a client shows beside a tool's results."""

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
"""The capabilities that the id speaks of, and where a client declares them. Each has its bit: their order is part of
the id's form."""

RANDOM_BYTES: Final = 16
_FORM: Final = 1
_LENGTH: Final = 2 + RANDOM_BYTES


def session_id(declared: Collection[str], random: bytes) -> str:
    """The id for a client: 24 characters of base64url.

    Args:
        declared: Those of `CAPABILITIES` that it has declared.
        random: `RANDOM_BYTES` bytes that make it unlike any other.
    """
    flags = sum(1 << place for place, capability in enumerate(CAPABILITIES) if capability in declared)
    return to_base64url(bytes((_FORM, flags)) + random)


def capabilities_in(identifier: str) -> JsonObject | None:
    """The capabilities that an id speaks of, as a client declares them; `None` where it is not an id of this form."""
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
    """Whether a client has declared that it shows the pages of MCP Apps, HTML among them."""
    extensions = capabilities.get("extensions")
    declared = extensions.get(APPS_EXTENSION) if isinstance(extensions, Mapping) else None
    if not isinstance(declared, Mapping):
        return False
    types = declared.get("mimeTypes", (APP_TYPE,))
    return isinstance(types, list | tuple) and APP_TYPE in types
