"""A whole session by FastMCP's client; prints what it saw as one JSON object.

    python -m tests.clients.fastmcp_client URL MODE

MODE is `legacy`, `auto` or a revision.
"""

import asyncio
import json
import sys
from typing import Any

import mcp_types as types
from fastmcp import Client
from fastmcp.exceptions import ToolError
from mcp.client.extension import advertise

from tests.clients.raw_tasks import EXTENSION, Tasks

PAUSED = {"order_id": "A-17"}

seen: dict[str, Any] = {"progress": [], "logs": []}


async def elicited(*_: object) -> dict[str, str]:
    """Fill in the form."""
    return {"name": "Kim"}


async def sampled(*_: object) -> str:
    """Be the model."""
    return "Hello"


async def progressed(progress: float, total: float | None, message: str | None) -> None:
    """Note progress."""
    seen["progress"].append([progress, total, message])


async def logged(params: types.LoggingMessageNotificationParams) -> None:
    """Note a log message."""
    # FastMCP hands on what it takes for an object's fields, else the text.
    seen["logs"].append(params.data)


def dumped(value: Any) -> Any:
    """A model as it was on the wire."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


async def look(client: Client[Any]) -> None:
    """What is there."""
    seen["revision"] = client.session.protocol_version
    initialized = client.initialize_result
    seen["server"] = [initialized.server_info.name, initialized.server_info.version] if initialized else None
    seen["instructions"] = initialized.instructions if initialized else None
    seen["tools"] = [tool.name for tool in await client.list_tools()]
    seen["prompts"] = [prompt.name for prompt in await client.list_prompts()]
    seen["resources"] = [str(found.uri) for found in await client.list_resources()]
    seen["templates"] = [found.uri_template for found in await client.list_resource_templates()]


async def use(client: Client[Any]) -> None:
    """Read, complete, call."""
    seen["resource"] = dumped((await client.read_resource("orders://A-17"))[0])["text"]
    of = types.PromptReference(type="ref/prompt", name="apology")
    seen["completion"] = (await client.complete(of, {"name": "order_id", "value": "A"})).values
    seen["call"] = (await client.call_tool("fetch_order", {"order_id": "A-17"})).structured_content
    seen["failed"] = False
    try:
        await client.call_tool("fetch_order", {"order_id": "B-1"})
    except ToolError:
        seen["failed"] = True
    await client.call_tool("count", {"to": 3}, progress_handler=progressed)
    seen["interview"] = dumped((await client.call_tool("interview")).content[0])["text"]


async def work(client: Client[Any]) -> None:
    """A workflow that pauses, the call that it waits for, and its task."""
    paused = dumped(await client.get_prompt("refund_order", PAUSED))
    task_id = paused["_meta"]["task_id"]
    seen["paused"] = paused
    arguments = {"order_id": "A-17", "amount": 240.0, "approved_by": "Ada"}
    result = await client.call_tool("refund", arguments, meta={"_task_id": task_id})
    seen["continued"] = {"_meta": result.meta, "structuredContent": result.structured_content}
    other = dumped(await client.get_prompt("refund_order", PAUSED))["_meta"]["task_id"]
    seen["tasks"] = await Tasks(client.session).tour(task_id, other)


async def be_a_host(client: Client[Any]) -> None:
    """The same as a host's model does it, with tools and their arguments alone: the twin, the handle, the twin."""
    begun = await client.call_tool("refund_order", PAUSED)
    task = {"task_id": (begun.structured_content or {})["task_id"]}
    made = await client.call_tool("refund", {"order_id": "A-17", "amount": 240.0, "approved_by": "Ada", **task})
    done = await client.call_tool("refund_order", task)
    seen["hosted"] = [
        {"content": [dumped(block) for block in result.content], "structuredContent": result.structured_content}
        for result in (begun, made, done)
    ]


async def main(url: str, mode: str) -> None:
    """The session."""
    client = Client(
        url,
        mode=mode,
        roots=["file:///home/kim/shop"],
        elicitation_handler=elicited,
        sampling_handler=sampled,
        log_handler=logged,
        extensions=[advertise(EXTENSION)],
    )
    async with client:
        await look(client)
        await use(client)
        await work(client)
        await be_a_host(client)
    sys.stdout.write(json.dumps(seen))


asyncio.run(main(*sys.argv[1:]))
