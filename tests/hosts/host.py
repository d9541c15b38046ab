"""A host: what stands between a model and a server, with the limits that real hosts have (docs/hosts.md).

A model of such a host sees the tools that are left and, of each result, what the host shows. It reads no resource, sets
no `_meta`, and learns of nothing else.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcp_baton.testing import Killed
from mcp_baton.testing.client import Client
from tests.hosts.phrases import Call

type JsonDict = dict[str, Any]
type Show = Callable[[JsonDict], str]

SERVER_NAME = "example-shop-eu"
"""What the server is called in the host's configuration; with it and a colon a tool's name is held to 60 characters."""
MOST_NAME = 60
MOST_TOKENS = 25_000
CHARACTERS_A_TOKEN = 4
GIVES_UP_S = 60.0
COMPOSED = ("anyOf", "oneOf", "allOf", "not", "if", "$ref")


def everything(result: JsonDict) -> str:
    """The text and the JSON, one after the other: Copilot CLI."""
    structure = result.get("structuredContent")
    return "\n".join([text_alone(result), *([] if structure is None else [json.dumps(structure)])])


def text_alone(result: JsonDict) -> str:
    """The text, and the address of what is linked: Cursor, claude.ai, ChatGPT."""
    return "\n".join(_shown(block) for block in result["content"])


def structure_alone(result: JsonDict) -> str:
    """The JSON where there is any, and of an error the text: Claude Code, Codex."""
    structure = result.get("structuredContent")
    if structure is None or result.get("isError"):
        return text_alone(result)
    return json.dumps(structure)


def first_of_an_error(result: JsonDict) -> str:
    """As `structure_alone`, and of an error the first block alone: Claude Code of March 2026."""
    if result.get("isError"):
        return _shown(result["content"][0])
    return structure_alone(result)


def _shown(block: JsonDict) -> str:
    if block["type"] == "text":
        return str(block["text"])
    return f"[{block['type']}: {block.get('uri', '')}]"


@dataclass
class Host:
    """A host of one model.

    Attributes:
        show: What it shows its model of a result.
        streams: Whether it asks for progress, and so gets its answers as streams.
    """

    client: Client
    show: Show
    streams: bool = False
    calls: list[Call] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    _tools: dict[str, JsonDict] = field(default_factory=dict)

    def tools(self) -> dict[str, JsonDict]:
        """The input schema of each tool that the model is given. What breaks a real host's limits is left out."""
        if not self._tools:
            listed = self.client.list_tools()
            self._tools = {tool["name"]: tool["inputSchema"] for tool in listed if not refused(tool)}
        return self._tools

    def call(self, call: Call) -> str:
        """Make a call for the model; what it is shown."""
        assert call.tool in self.tools(), f"the model calls {call}, and has {sorted(self.tools())}"
        self.calls.append(call)
        self.shown.append(self._within_limits(call))
        return self.shown[-1]

    def _within_limits(self, call: Call) -> str:
        began_s = self.client.clock.monotonic_s()
        meta: JsonDict = {"progressToken": len(self.calls)} if self.streams else {}
        try:
            params: JsonDict = {"name": call.tool, "arguments": call.arguments}
            result: JsonDict = dict(self.client.request("tools/call", params, meta))
        except Killed:
            return "Error: the connection was closed"
        if self.client.clock.monotonic_s() - began_s > GIVES_UP_S:
            return "Error: MCP error -32001: Request timed out"
        shown = self.show(result)
        if len(shown) > MOST_TOKENS * CHARACTERS_A_TOKEN:
            return f"Error: result ({len(shown)} characters) exceeds maximum allowed tokens"
        return shown


def refused(tool: JsonDict) -> Sequence[str]:
    """What in a listed tool makes hosts leave it out."""
    composed = [word for word in COMPOSED if word in tool["inputSchema"]]
    name = f"{SERVER_NAME}:{tool['name']}"
    return composed + ([f"{name!r} has {len(name)} characters"] if len(name) > MOST_NAME else [])
