"""A result that tells its model what became of the call, as `_meta` tells programs (docs/workflows.md, Going on)."""

from collections.abc import Mapping, Sequence

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.published.task_argument import free_name
from mcp_baton.server.published.tool import Tool


def with_text(result: JsonObject, tool: Tool, text: str) -> dict[str, Json]:
    """A result that tells its model more: as the content's last block, and as a property of its structured content,
    which is all that some hosts show to their model.

    Args:
        result: A `CallToolResult`.
        tool: Whose.
        text: What is to be told.
    """
    content, structured = result["content"], result.get("structuredContent")
    blocks: Sequence[Json] = content if isinstance(content, Sequence) else ()
    made = {**result, "content": [*blocks, {"type": "text", "text": text}]}
    if isinstance(structured, Mapping):
        name = free_name(structured, tool.output.json_schema if tool.output else None)
        if name is not None:
            made["structuredContent"] = {**structured, name: text}
    return made
