"""Tools that run in the background, driven by FastMCP's tasks client; prints what it saw as one JSON object.

python -m tests.clients.fastmcp_tasks URL
"""

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client
from fastmcp_tasks import call_tool_task

seen: dict[str, Any] = {"asked": []}


async def elicited(message: str, *_: object) -> dict[str, str]:
    """Fill in the form, and note it."""
    seen["asked"].append(message)
    return {"name": f"Kim {len(seen['asked'])}"}


async def called(client: Client[Any], name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What a call comes to."""
    result = await client.call_tool(name, arguments, raise_on_error=False)
    return {"error": result.is_error, "text": result.content[0].text, "structured": result.structured_content}


async def main(url: str) -> None:
    """The session. Its tasks are for the 2026 era alone."""
    async with Client(url, mode="2026-07-28", elicitation_handler=elicited) as client:
        seen["revision"] = client.session.protocol_version
        seen["added"] = await called(client, "add_up", {"numbers": [1, 2, 3]})
        seen["lost"] = await called(client, "lose", {})
        seen["packed"] = await called(client, "dispatch_goods", {})
        seen["booked"] = await called(client, "book", {})
        handle = await call_tool_task(client, "add_up", {"numbers": [4, 5]})
        seen["handled"] = (await handle.result()).structured_content
    sys.stdout.write(json.dumps(seen))


asyncio.run(main(*sys.argv[1:]))
