"""What the Python clients see: the official SDK's and FastMCP's client in both eras, and FastMCP's tasks client.

    python -m tests.clients.python_clients URL

prints it as one JSON object, by client and era. The clients share a process, because its start takes longer than they
do.
"""

import asyncio
import json
import sys
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.client.extension import advertise

from tests.clients.python_session import JsonDict, PythonSession
from tests.clients.raw_tasks import EXTENSION

ROOT = "file:///home/kim/shop"


async def python_sdk(url: str, mode: str) -> JsonDict:
    """Run a session of the official SDK's client."""

    async def elicited(_: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": "Kim"})

    async def sampled(_: object, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        greeting = types.TextContent(type="text", text="Hello")
        return types.CreateMessageResult(role="assistant", content=greeting, model="m", stop_reason="endTurn")

    async def listed_roots(_: object) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root.model_validate({"uri": ROOT})])

    def about(client: Any) -> JsonDict:
        return {
            "revision": client.protocol_version,
            "server": client.server_info and [client.server_info.name, client.server_info.version],
            "instructions": client.instructions,
        }

    session = PythonSession(failures=(), progress="progress_callback")
    client = Client(
        url,
        mode=mode,
        elicitation_callback=elicited,
        sampling_callback=sampled,
        list_roots_callback=listed_roots,
        logging_callback=session.logged,
        log_level="info",
        extensions=[advertise(EXTENSION)],
    )
    return await session.hold(client, about)


async def fastmcp(url: str, mode: str) -> JsonDict:
    """Run a session of FastMCP's client."""
    from fastmcp import Client
    from fastmcp.exceptions import ToolError

    async def elicited(*_: object) -> dict[str, str]:
        return {"name": "Kim"}

    async def sampled(*_: object) -> str:
        return "Hello"

    def about(client: Any) -> JsonDict:
        known = client.initialize_result
        return {
            "revision": client.session.protocol_version,
            "server": [known.server_info.name, known.server_info.version] if known else None,
            "instructions": known.instructions if known else None,
        }

    session = PythonSession(failures=(ToolError,), progress="progress_handler")
    client = Client(
        url,
        mode=mode,
        roots=[ROOT],
        elicitation_handler=elicited,
        sampling_handler=sampled,
        log_handler=session.logged,
        extensions=[advertise(EXTENSION)],
    )
    return await session.hold(client, about)


async def fastmcp_tasks(url: str) -> JsonDict:
    """Call background tools with FastMCP's tasks client, which supports them in the 2026 era only."""
    from fastmcp import Client
    from fastmcp_tasks import call_tool_task

    seen: JsonDict = {"asked": []}

    async def elicited(message: str, *_: object) -> dict[str, str]:
        seen["asked"].append(message)
        return {"name": f"Kim {len(seen['asked'])}"}

    async with Client(url, mode="2026-07-28", elicitation_handler=elicited) as client:
        seen["revision"] = client.session.protocol_version
        for call, name, arguments in (
            ("added", "add_up", {"numbers": [1, 2, 3]}),
            ("lost", "lose", {}),
            ("packed", "dispatch_goods", {}),
            ("booked", "book", {}),
        ):
            result = await client.call_tool(name, arguments, raise_on_error=False)
            reported = {
                "error": result.is_error,
                "text": result.content[0].text,
                "structured": result.structured_content,
            }
            seen[call] = reported
        handle = await call_tool_task(client, "add_up", {"numbers": [4, 5]})
        seen["handled"] = (await handle.result()).structured_content
    return seen


async def main(url: str) -> None:
    """Run every session. FastMCP is imported after the SDK's sessions, because it builds on the SDK."""
    seen = {f"python-sdk-{mode}": await python_sdk(url, mode) for mode in ("legacy", "auto")}
    seen |= {f"fastmcp-{mode}": await fastmcp(url, mode) for mode in ("legacy", "auto")}
    seen["fastmcp-tasks"] = await fastmcp_tasks(url)
    sys.stdout.write(json.dumps(seen))


asyncio.run(main(*sys.argv[1:]))
