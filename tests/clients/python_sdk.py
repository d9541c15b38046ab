"""A whole session by the official Python SDK's client; prints what it saw as one JSON object.

    python -m tests.clients.python_sdk URL MODE

MODE is `legacy`, `auto` or a revision.
"""

import asyncio
import json
import sys
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.client.extension import advertise

from tests.clients.raw_tasks import EXTENSION, Tasks

PAUSED = {"order_id": "A-17"}

seen: dict[str, Any] = {"progress": [], "logs": []}


async def elicited(_: object, params: types.ElicitRequestParams) -> types.ElicitResult:
    """Fill in the form."""
    return types.ElicitResult(action="accept", content={"name": "Kim"})


async def sampled(_: object, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    """Be the model."""
    said = types.TextContent(type="text", text="Hello")
    return types.CreateMessageResult(role="assistant", content=said, model="m", stop_reason="endTurn")


async def listed_roots(_: object) -> types.ListRootsResult:
    """Name a folder."""
    return types.ListRootsResult(roots=[types.Root.model_validate({"uri": "file:///home/kim/shop"})])


async def progressed(progress: float, total: float | None, message: str | None) -> None:
    """Note progress."""
    seen["progress"].append([progress, total, message])


async def logged(params: types.LoggingMessageNotificationParams) -> None:
    """Note a log message."""
    seen["logs"].append(params.data)


def dumped(value: Any) -> Any:
    """A model as it was on the wire."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


async def look(client: Client) -> None:
    """What is there."""
    seen["revision"] = client.protocol_version
    seen["server"] = client.server_info and [client.server_info.name, client.server_info.version]
    seen["instructions"] = client.instructions
    seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
    seen["prompts"] = [prompt.name for prompt in (await client.list_prompts()).prompts]
    seen["resources"] = [str(found.uri) for found in (await client.list_resources()).resources]
    seen["templates"] = [found.uri_template for found in (await client.list_resource_templates()).resource_templates]


async def use(client: Client) -> None:
    """Read, complete, call."""
    read = await client.read_resource("orders://A-17")
    seen["resource"] = dumped(read)["contents"][0]["text"]
    of = types.PromptReference(type="ref/prompt", name="apology")
    seen["completion"] = (await client.complete(of, {"name": "order_id", "value": "A"})).completion.values
    seen["call"] = (await client.call_tool("fetch_order", {"order_id": "A-17"})).structured_content
    seen["failed"] = (await client.call_tool("fetch_order", {"order_id": "B-1"})).is_error
    await client.call_tool("count", {"to": 3}, progress_callback=progressed)
    seen["interview"] = dumped(await client.call_tool("interview"))["content"][0]["text"]


async def work(client: Client) -> None:
    """A workflow that pauses, the call that it waits for, and its task."""
    paused = dumped(await client.get_prompt("refund_order", PAUSED))
    task_id = paused["_meta"]["task_id"]
    seen["paused"] = paused
    arguments = {"order_id": "A-17", "amount": 240.0, "approved_by": "Ada"}
    seen["continued"] = dumped(await client.call_tool("refund", arguments, meta={"_task_id": task_id}))
    other = dumped(await client.get_prompt("refund_order", PAUSED))["_meta"]["task_id"]
    seen["tasks"] = await Tasks(client.session).tour(task_id, other)


async def be_a_host(client: Client) -> None:
    """The same as a host's model does it, with tools and their arguments alone: the twin, the handle, the twin."""
    begun = await client.call_tool("refund_order", PAUSED)
    task = {"task_id": (begun.structured_content or {})["task_id"]}
    made = await client.call_tool("refund", {"order_id": "A-17", "amount": 240.0, "approved_by": "Ada", **task})
    done = await client.call_tool("refund_order", task)
    seen["hosted"] = [dumped(result) for result in (begun, made, done)]


async def main(url: str, mode: str) -> None:
    """The session."""
    client = Client(
        url,
        mode=mode,
        elicitation_callback=elicited,
        sampling_callback=sampled,
        list_roots_callback=listed_roots,
        logging_callback=logged,
        log_level="info",
        extensions=[advertise(EXTENSION)],
    )
    async with client:
        await look(client)
        await use(client)
        await work(client)
        await be_a_host(client)
    sys.stdout.write(json.dumps(seen))


asyncio.run(main(*sys.argv[1:]))
