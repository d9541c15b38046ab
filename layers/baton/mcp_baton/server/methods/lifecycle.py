"""`initialize`, `server/discover`, `ping` and `logging/setLevel`.

MCP server/discover, server/tools, server/prompts, server/resources; for handshake revisions, basic/lifecycle.
"""

import os

from mcp_baton.protocol.envelope import (
    APP_TYPE,
    APPS,
    APPS_EXTENSION,
    CAPABILITIES,
    HANDSHAKE_REVISIONS,
    LOG_LEVELS,
    RANDOM_BYTES,
    REVISIONS,
    SERVER_INFO_KEY,
    SESSION_HEADER,
    TASKS_EXTENSION,
    session_id,
    shows_apps,
)
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import InvalidParams
from mcp_baton.server.methods.lists import cacheable
from mcp_baton.tools.asking import declares
from mcp_baton.tools.content import with_meta
from mcp_baton.workflow.request import Request


def initialize(request: Request) -> JsonObject:
    """Answer the handshake. The server stores nothing: the session id contains what later requests need."""
    requested = request.text("protocolVersion")
    revision = requested if requested in HANDSHAKE_REVISIONS else HANDSHAKE_REVISIONS[0]
    client_capabilities = request.object("capabilities")
    result: dict[str, Json] = {
        "protocolVersion": revision,
        "capabilities": capabilities(request, client_capabilities),
        "serverInfo": server_info(request),
    }
    declared_capabilities = [
        capability for capability in CAPABILITIES if capability != APPS and declares(client_capabilities, capability)
    ]
    declared_capabilities += [APPS] if shows_apps(client_capabilities) else []
    request.exchange.add_headers({SESSION_HEADER: session_id(declared_capabilities, os.urandom(RANDOM_BYTES))})
    return _with_instructions(request, result)


def discover(request: Request) -> JsonObject:
    """Return what the server supports: the replacement of the handshake in the 2026 era."""
    result: dict[str, Json] = {
        "supportedVersions": list(REVISIONS),
        "capabilities": capabilities(request, request.envelope.capabilities),
    }
    return cacheable(request, _with_instructions(request, result))


def ping(_request: Request) -> JsonObject:
    return {}


def capabilities(request: Request, client_capabilities: JsonObject) -> dict[str, Json]:
    """Return the server's capabilities, in the form of the request's era."""
    server = request.server
    result: dict[str, Json] = {"logging": {}}
    if server.tools or server.workflow_tool_names:
        result["tools"] = {}
    if server.prompts or server.workflows:
        result["prompts"] = {}
    # The values of durable workflows are resources, which are not listed.
    if server.resources or any(workflow.durable for workflow in server.workflows.values()):
        result["resources"] = {}
    if server.completions:
        result["completions"] = {}
    extensions: dict[str, Json] = {}
    if server.workflow_tool_names and shows_apps(client_capabilities):
        extensions[APPS_EXTENSION] = {"mimeTypes": [APP_TYPE]}
    if request.store is not None:
        if request.stateless:
            extensions[TASKS_EXTENSION] = {}
        else:
            result["tasks"] = {"list": {}, "cancel": {}}
            if request.has_workers and server.has_jobs:
                result["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    return result | {"extensions": extensions} if extensions else result


def complete_result(request: Request, result: JsonObject) -> JsonObject:
    """Add the type and the server's name to a result of the 2026 era (MCP 2026-07-28, basic/index)."""
    return with_meta({"resultType": "complete", **result}, {SERVER_INFO_KEY: server_info(request)})


def server_info(request: Request) -> dict[str, Json]:
    options = request.server.options
    result: dict[str, Json] = {"name": options.name, "version": options.version}
    others: dict[str, Json] = {"title": options.title, "websiteUrl": options.website_url, "icons": list(options.icons)}
    return result | {name: value for name, value in others.items() if value}


def _with_instructions(request: Request, result: dict[str, Json]) -> dict[str, Json]:
    instructions = request.server.options.instructions
    return result | {"instructions": instructions} if instructions else result


def set_log_level(request: Request) -> JsonObject:
    """Accept a log level. It has no effect: there is no session to store it in.

    The logs of a tool from `info` up are sent with its call (MCP 2025-11-25, server/utilities/logging: without a level
    the server decides).
    """
    level = request.text("level")
    if level not in LOG_LEVELS:
        raise InvalidParams(f"`level` must be one of {', '.join(LOG_LEVELS)}")
    return {}
