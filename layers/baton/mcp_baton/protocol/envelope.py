"""The options of a request: era, revision, capabilities, progress token and log level, from the request alone. Pure.

MCP 2026-07-28, basic/versioning and basic/transports/streamable-http (Request Metadata, Server Validation); for
handshake revisions 2025-11-25, basic/transports (Protocol Version Header).
"""

import binascii
import re
from collections.abc import Collection, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import (
    HEADER_MISMATCH,
    ID_RULE,
    UNSUPPORTED_PROTOCOL_VERSION,
    InvalidParams,
    Notification,
    RequestMessage,
    as_id,
    checked_object,
)
from mcp_baton.protocol.state import from_base64url, to_base64url

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO_KEY: Final = "io.modelcontextprotocol/clientInfo"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"
SERVER_INFO_KEY: Final = "io.modelcontextprotocol/serverInfo"
RELATED_TASK_KEY: Final = "io.modelcontextprotocol/related-task"
TASK_ID_KEY: Final = "_task_id"
PREFIXED_TASK_ID_KEY: Final = "mcp-baton/task_id"
TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"

VERSION_HEADER: Final = "mcp-protocol-version"
METHOD_HEADER: Final = "mcp-method"
NAME_HEADER: Final = "mcp-name"

HANDSHAKE_REVISIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26")
STATELESS_REVISIONS: Final = ("2026-07-28",)
REVISIONS: Final = (*STATELESS_REVISIONS, *HANDSHAKE_REVISIONS)
REVISION_WITHOUT_HEADER: Final = "2025-03-26"
"""The revision of a request without the version header, which was added in 2025-06-18."""

LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

TASK_FIELD: Final = "taskId"
_NAME_FIELDS: Mapping[str, str] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": TASK_FIELD,
    "tasks/update": TASK_FIELD,
    "tasks/cancel": TASK_FIELD,
}
"""The member of the params that the `Mcp-Name` header repeats, by method."""

# `Mcp-Session-Id` contains the capabilities that the client declared in its handshake. The server stores no sessions:
# the client sends the id with every request, so the server knows which questions it supports. The id is not signed: it
# only describes its sender, and grants nothing (MCP 2025-11-25, basic/transports, Session Management).
SESSION_HEADER: Final = "Mcp-Session-Id"
_SESSION_HEADER: Final = "mcp-session-id"

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

_SENTINEL: Final = r"=\?base64\?(.*)\?="


class Era(StrEnum):
    """How a client states its version: in a handshake, or in each request."""

    HANDSHAKE = "2025"
    STATELESS = "2026"


class Envelope(Struct, frozen=True):
    """A request's options. `progress_token` and `log_level` are `None` if the client wants no such notifications."""

    era: Era
    revision: str
    meta: JsonObject
    capabilities: JsonObject
    progress_token: str | int | None
    log_level: str | None
    is_known: bool = True
    """Whether the capabilities are known. In the handshake era, the session id contains them."""

    @property
    def speaks_tasks(self) -> bool:
        """Whether the client declares the tasks extension (2026 era)."""
        extensions = self.capabilities.get("extensions")
        return isinstance(extensions, Mapping) and extensions.get(TASKS_EXTENSION) is not None

    @property
    def shows_apps(self) -> bool:
        """Whether the client declares MCP Apps: it shows pages beside results."""
        return shows_apps(self.capabilities)


def classify(message: RequestMessage | Notification, headers: Mapping[str, str]) -> Envelope:
    """Determine the era of a message and check its options. Names of headers are in lower case. Raises
    `ProtocolError`."""
    meta = checked_object(message.params.get("_meta", {}), "_meta")
    header = headers.get(VERSION_HEADER)
    if message.method == "initialize" and VERSION_KEY not in meta:  # its params negotiate the revision
        header = None
    elif VERSION_KEY in meta or message.method == "server/discover" or header in STATELESS_REVISIONS:
        return _stateless(message, meta, headers)
    if header is not None and header not in HANDSHAKE_REVISIONS:
        raise _unsupported(header)
    session = headers.get(_SESSION_HEADER)
    capabilities = None if session is None else capabilities_in(session)
    is_known = capabilities is not None
    return _envelope(Era.HANDSHAKE, header or REVISION_WITHOUT_HEADER, meta, capabilities or {}, is_known=is_known)


def _stateless(message: RequestMessage | Notification, meta: JsonObject, headers: Mapping[str, str]) -> Envelope:
    if isinstance(message, Notification):
        # The revision defines no client notifications over HTTP, and no headers or `_meta` for them.
        return Envelope(Era.STATELESS, STATELESS_REVISIONS[0], meta, {}, None, None)
    revision, capabilities = meta.get(VERSION_KEY), meta.get(CAPABILITIES_KEY)
    if not isinstance(revision, str):
        raise InvalidParams(f"`_meta` needs {VERSION_KEY!r}, a string")
    if not isinstance(capabilities, Mapping):
        raise InvalidParams(f"`_meta` needs {CAPABILITIES_KEY!r}, an object")
    mismatch = _header_mismatch(message, revision, headers)
    if mismatch:
        raise ProtocolError(HEADER_MISMATCH, f"Header mismatch: {mismatch}")
    if revision not in STATELESS_REVISIONS:
        raise _unsupported(revision)
    return _envelope(Era.STATELESS, revision, meta, capabilities)


def _header_mismatch(message: RequestMessage, revision: str, headers: Mapping[str, str]) -> str | None:
    expected: list[tuple[str, Json]] = [(VERSION_HEADER, revision), (METHOD_HEADER, message.method)]
    field = _NAME_FIELDS.get(message.method)
    # FastMCP's client omits the header for task methods. A missing header cannot mislead a proxy.
    if field is not None and (field != TASK_FIELD or NAME_HEADER in headers):
        expected.append((NAME_HEADER, message.params.get(field)))
    for header, value in expected:
        if header not in headers:
            return f"the header {header} is required"
        actual = decode_header(headers[header]) if header == NAME_HEADER else headers[header]
        if isinstance(value, str) and actual != value:
            return f"the header {header} does not match the body"
    return None


def decode_header(value: str) -> str | None:
    """Return a header's value, decoded if it has the form `=?base64?…?=`; `None` if the base64 is invalid."""
    sentinel = re.fullmatch(_SENTINEL, value, re.DOTALL)
    if sentinel is None:
        return value
    try:
        return binascii.a2b_base64(sentinel[1], strict_mode=True).decode()
    except ValueError:
        return None


def _envelope(
    era: Era, revision: str, meta: JsonObject, capabilities: JsonObject, *, is_known: bool = True
) -> Envelope:
    token, level = as_id(meta.get("progressToken")), meta.get(LOG_LEVEL_KEY)
    if token is None and meta.get("progressToken") is not None:
        raise InvalidParams(f"`_meta.progressToken` {ID_RULE}")
    if level is not None and level not in LOG_LEVELS:
        raise InvalidParams(f"{LOG_LEVEL_KEY!r} must be one of {', '.join(LOG_LEVELS)}")
    return Envelope(era, revision, meta, capabilities, token, None if level is None else str(level), is_known)


def _unsupported(revision: str) -> ProtocolError:
    data: Json = {"supported": list(REVISIONS), "requested": revision}
    return ProtocolError(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data)


def session_id(declared: Collection[str], random: bytes) -> str:
    """Return the id for a client that declared these `CAPABILITIES`: 24 characters of base64url.

    `random` are `RANDOM_BYTES` bytes that make the id unique.
    """
    flags = sum(1 << bit for bit, capability in enumerate(CAPABILITIES) if capability in declared)
    return to_base64url(bytes((_FORM, flags)) + random)


def capabilities_in(identifier: str) -> JsonObject | None:
    """Return the capabilities in an id, in the form of a declaration; `None` if the id has another form."""
    try:
        data = from_base64url(identifier)
    except ValueError:
        return None
    if len(data) != _LENGTH or data[0] != _FORM or data[1] >> len(CAPABILITIES):
        return None
    capabilities: dict[str, Any] = {}
    for bit, path in enumerate(CAPABILITIES.values()):
        members = capabilities
        for part in path if data[1] >> bit & 1 else ():
            members = members.setdefault(part, {})
    return capabilities


def shows_apps(capabilities: JsonObject) -> bool:
    """Return whether a client declares that it shows the HTML pages of MCP Apps."""
    extensions = capabilities.get("extensions")
    extension = extensions.get(APPS_EXTENSION) if isinstance(extensions, Mapping) else None
    if not isinstance(extension, Mapping):
        return False
    types = extension.get("mimeTypes", (APP_TYPE,))
    return isinstance(types, list | tuple) and APP_TYPE in types
