"""What a server says of itself and lists: `initialize`, `server/discover`, `ping` and the lists.

MCP server/discover, server/tools, server/prompts, server/resources; for handshake revisions, basic/lifecycle.
"""

import binascii
from collections.abc import Sequence
from typing import Final

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.codes import INVALID_PARAMS
from mcp_baton.protocol.envelope import HANDSHAKE_REVISIONS, REVISIONS, TASKS_EXTENSION
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.call import Call
from mcp_baton.server.functions import Labels, definition_of_prompt

PAGE_SIZE: Final = 200
"""Entries on one page of a list."""

LIST_TTL_MS: Final = 300_000
"""How long a client may take a list for fresh, milliseconds: lists change with a deployment only."""


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
    return cacheable(_with_instructions(call, made))


def ping(_call: Call) -> JsonObject:
    """Nothing, to show that somebody is there."""
    return {}


def list_tools(call: Call) -> JsonObject:
    """The tools, in the order of their registration."""
    return _page(call, "tools", [tool.definition for tool in call.server.tools.values()])


def list_prompts(call: Call) -> JsonObject:
    """The prompts, then the workflows, each in the order of their registration."""
    server = call.server
    shown = [definition_of_prompt(item.name, item.labels, item.arguments) for item in server.prompts.values()]
    for workflow in server.workflows.values():
        labels = Labels(title=workflow.title, description=workflow.description)
        shown.append(definition_of_prompt(workflow.name, labels, workflow.arguments))
    return _page(call, "prompts", shown)


def list_resources(call: Call) -> JsonObject:
    """The resources with a URI of their own."""
    shown = [item.definition for item in call.server.resources.values() if not item.is_template]
    return _page(call, "resources", shown)


def list_resource_templates(call: Call) -> JsonObject:
    """The resources that stand for many URIs."""
    shown = [item.definition for item in call.server.resources.values() if item.is_template]
    return _page(call, "resourceTemplates", shown)


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


def cacheable(result: dict[str, Json]) -> dict[str, Json]:
    """A result that is the same for everyone until the next deployment (MCP server/utilities/caching)."""
    return result | {"ttlMs": LIST_TTL_MS, "cacheScope": "public"}


def _with_instructions(call: Call, made: dict[str, Json]) -> dict[str, Json]:
    return made | {"instructions": call.server.instructions} if call.server.instructions else made


def _page(call: Call, key: str, entries: Sequence[Json]) -> JsonObject:
    start = _position(call.params.get("cursor"), len(entries))
    made: dict[str, Json] = {key: list(entries[start : start + PAGE_SIZE])}
    if start + PAGE_SIZE < len(entries):
        made["nextCursor"] = binascii.b2a_base64(str(start + PAGE_SIZE).encode(), newline=False).decode()
    return cacheable(made) if call.stateless else made


def _position(cursor: Json, length: int) -> int:
    if cursor is None:
        return 0
    try:
        position = int(binascii.a2b_base64(str(cursor), strict_mode=True)) if isinstance(cursor, str) else -1
    except ValueError:
        position = -1
    if not 0 < position < length or position % PAGE_SIZE:
        raise ProtocolError(INVALID_PARAMS, "Invalid params: `cursor` is not one that this list gave out")
    return position
