"""A tool's call that names its task by the argument `task_id`: the argument taken off, and the model told what became
of the call (docs/workflows.md, Going on)."""

from collections.abc import Mapping, Sequence

from mcp_baton.protocol.envelope import TASK_ID_KEY
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.published.handle import free_name
from mcp_baton.server.published.tool import Tool
from mcp_baton.workflow.host import Failed
from mcp_baton.workflow.names import TASK_ID


def taken_off(tool: str, arguments: JsonObject, bound: str | None) -> tuple[JsonObject, str | None] | Failed:
    """The arguments for the function, and the task that was among them; or why the call must not be made.

    Null and the empty text name no task, since some hosts fill in every argument that is listed.

    Args:
        tool: The tool's name.
        arguments: As the client sent them.
        bound: The task that the request names in its `_meta`.
    """
    named = arguments[TASK_ID]
    rest = {name: value for name, value in arguments.items() if name != TASK_ID}
    if named is None or named == "":
        return rest, None
    if not isinstance(named, str):
        return Failed(f"Invalid arguments for tool {tool}: {TASK_ID}: it must be a text, the id of a task")
    if bound is not None and bound != named:
        return Failed(
            f"Nothing was run: the call names two tasks, by its argument '{TASK_ID}' and by `_meta.{TASK_ID_KEY}`. "
            "Name one."
        )
    return rest, named


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
