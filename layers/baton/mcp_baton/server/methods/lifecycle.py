"""What a server says of itself and lists: `initialize`, `server/discover`, `ping` and the lists.

MCP server/discover, server/tools, server/prompts, server/resources; for handshake revisions, basic/lifecycle.
"""

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.codes import INVALID_PARAMS
from mcp_baton.protocol.envelope import HANDSHAKE_REVISIONS, LOG_LEVELS, REVISIONS, TASKS_EXTENSION
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.methods.lists import cacheable
from mcp_baton.server.request import Call


def initialize(call: Call) -> JsonObject:
    """The handshake. Nothing is kept of it: what a later request needs, it carries."""
    requested = call.text("protocolVersion")
    revision = requested if requested in HANDSHAKE_REVISIONS else HANDSHAKE_REVISIONS[0]
    made: dict[str, Json] = {
        "protocolVersion": revision,
        "capabilities": capabilities(call),
        "serverInfo": server_info(call),
    }
    return _with_instructions(call, made)


def discover(call: Call) -> JsonObject:
    """The stateless counterpart of the handshake."""
    made: dict[str, Json] = {
        "supportedVersions": list(REVISIONS),
        "capabilities": capabilities(call),
    }
    return cacheable(call, _with_instructions(call, made))


def ping(_call: Call) -> JsonObject:
    """Nothing, to show that somebody is there."""
    return {}


def capabilities(call: Call) -> dict[str, Json]:
    """What this server can do, in the words of the request's era."""
    server = call.server
    made: dict[str, Json] = {"logging": {}}
    if server.tools:
        made["tools"] = {}
    if server.prompts or server.workflows:
        made["prompts"] = {}
    # A durable workflow's values are resources of their own, which are read and never listed.
    if server.resources or any(workflow.durable for workflow in server.workflows.values()):
        made["resources"] = {}
    if server.completions:
        made["completions"] = {}
    if call.store is not None:
        if call.stateless:
            made["extensions"] = {TASKS_EXTENSION: {}}
        else:
            made["tasks"] = {"list": {}, "cancel": {}}
    return made


def server_info(call: Call) -> dict[str, Json]:
    """Name and version, as MCP's `Implementation`."""
    made: dict[str, Json] = {"name": call.server.name, "version": call.server.version}
    server = call.server
    optional: dict[str, Json] = {"title": server.title, "websiteUrl": server.website_url, "icons": list(server.icons)}
    return made | {name: value for name, value in optional.items() if value}


def _with_instructions(call: Call, made: dict[str, Json]) -> dict[str, Json]:
    return made | {"instructions": call.server.instructions} if call.server.instructions else made


def set_log_level(call: Call) -> JsonObject:
    """Take note of a log level: which is to say nothing, for there is no session to keep it in.

    What a tool logs from `info` up is sent with the call that it belongs to (MCP 2025-11-25, server/utilities/logging:
    without a level the server decides).
    """
    level = call.text("level")
    if level not in LOG_LEVELS:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: `level` must be one of {', '.join(LOG_LEVELS)}")
    return {}
