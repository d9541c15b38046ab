"""A host: the program between a model and a server, with the limits of real hosts (docs/hosts.md).

The model sees the tools that the host accepts, and what the host shows of each result. It reads no resource, sets no
`_meta`, and sees nothing else.
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
"""The server's name in the host's configuration. The name, a colon and a tool's name may have 60 characters
together.
"""
MAX_NAME = 60
MAX_TOKENS = 25_000
CHARACTERS_A_TOKEN = 4
TIMEOUT_S = 60.0
COMPOSITION_KEYWORDS = ("anyOf", "oneOf", "allOf", "not", "if", "$ref")


def everything(result: JsonDict) -> str:
    """Show the text and then the JSON, like Copilot CLI."""
    structure = result.get("structuredContent")
    return "\n".join([text_only(result), *([] if structure is None else [json.dumps(structure)])])


def text_only(result: JsonDict) -> str:
    """Show the text and the addresses of links, like Cursor, claude.ai and ChatGPT."""
    return "\n".join(_block_text(block) for block in result["content"])


def structure_only(result: JsonDict) -> str:
    """Show the JSON if there is any, but the text of an error, like Claude Code and Codex."""
    structure = result.get("structuredContent")
    if structure is None or result.get("isError"):
        return text_only(result)
    return json.dumps(structure)


def first_block_of_errors(result: JsonDict) -> str:
    """Show a result like `structure_only`, but only the first block of an error, like Claude Code of March 2026."""
    if result.get("isError"):
        return _block_text(result["content"][0])
    return structure_only(result)


def _block_text(block: JsonDict) -> str:
    if block["type"] == "text":
        return str(block["text"])
    return f"[{block['type']}: {block.get('uri', '')}]"


@dataclass
class Host:
    """A host with one model.

    Attributes:
        show: What the host shows its model of a result.
        streams: Whether the host asks for progress, and so gets streamed responses.
    """

    client: Client
    show: Show
    streams: bool = False
    calls: list[Call] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    _tools: dict[str, JsonDict] = field(default_factory=dict)

    def tools(self) -> dict[str, JsonDict]:
        """Return the input schema of each tool that the model gets. The host omits tools that exceed its limits."""
        if not self._tools:
            tools = self.client.list_tools()
            self._tools = {tool["name"]: tool["inputSchema"] for tool in tools if not omission_reasons(tool)}
        return self._tools

    def call(self, call: Call) -> str:
        """Make a call for the model. Return what the host shows of the result."""
        assert call.tool in self.tools(), f"the model calls {call}, and has {sorted(self.tools())}"
        self.calls.append(call)
        self.texts.append(self._result_text(call))
        return self.texts[-1]

    def _result_text(self, call: Call) -> str:
        start_s = self.client.clock.monotonic_s()
        meta: JsonDict = {"progressToken": len(self.calls)} if self.streams else {}
        try:
            params: JsonDict = {"name": call.tool, "arguments": call.arguments}
            result: JsonDict = dict(self.client.request("tools/call", params, meta))
        except Killed:
            return "Error: the connection was closed"
        if self.client.clock.monotonic_s() - start_s > TIMEOUT_S:
            return "Error: MCP error -32001: Request timed out"
        text = self.show(result)
        if len(text) > MAX_TOKENS * CHARACTERS_A_TOKEN:
            return f"Error: result ({len(text)} characters) exceeds maximum allowed tokens"
        return text


def omission_reasons(tool: JsonDict) -> Sequence[str]:
    """Return the properties of a listed tool for which hosts omit it."""
    keywords = [word for word in COMPOSITION_KEYWORDS if word in tool["inputSchema"]]
    name = f"{SERVER_NAME}:{tool['name']}"
    return keywords + ([f"{name!r} has {len(name)} characters"] if len(name) > MAX_NAME else [])
