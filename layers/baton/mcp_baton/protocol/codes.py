"""JSON-RPC and MCP error codes, and the HTTP status that goes with each.

MCP 2026-07-28, basic/index, Error Codes; basic/transports/streamable-http, Server Validation.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

RESOURCE_NOT_FOUND: Final = -32002
"""Revisions up to 2025-11-25; later ones use `INVALID_PARAMS`."""

HEADER_MISMATCH: Final = -32020
MISSING_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_PROTOCOL_VERSION: Final = -32022

HTTP_STATUS: Mapping[int, int] = MappingProxyType(
    {
        PARSE_ERROR: 400,
        INVALID_REQUEST: 400,
        INVALID_PARAMS: 400,
        METHOD_NOT_FOUND: 404,
        HEADER_MISMATCH: 400,
        MISSING_CLIENT_CAPABILITY: 400,
        UNSUPPORTED_PROTOCOL_VERSION: 400,
    }
)
"""Status of an answer whose error was found in the request itself; other codes go out with 200."""
