"""What the Python clients receive: the official SDK's and FastMCP's client in both eras, and FastMCP's tasks client.

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

    async def elicit(_: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": "Kim"})

    async def sample(_: object, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        greeting = types.TextContent(type="text", text="Hello")
        return types.CreateMessageResult(role="assistant", content=greeting, model="m", stop_reason="endTurn")

    async def list_roots(_: object) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root.model_validate({"uri": ROOT})])

    def describe(client: Any) -> JsonDict:
        return {
            "revision": client.protocol_version,
            "server": client.server_info and [client.server_info.name, client.server_info.version],
            "instructions": client.instructions,
        }

    session = PythonSession(failures=(), progress="progress_callback")
    client = Client(
        url,
        mode=mode,
        elicitation_callback=elicit,
        sampling_callback=sample,
        list_roots_callback=list_roots,
        logging_callback=session.record_log,
        log_level="info",
        extensions=[advertise(EXTENSION)],
    )
    return await session.run(client, describe)


async def fastmcp(url: str, mode: str) -> JsonDict:
    """Run a session of FastMCP's client."""
    from fastmcp import Client
    from fastmcp.exceptions import ToolError

    async def elicit(*_: object) -> dict[str, str]:
        return {"name": "Kim"}

    async def sample(*_: object) -> str:
        return "Hello"

    def describe(client: Any) -> JsonDict:
        initialization = client.initialize_result
        return {
            "revision": client.session.protocol_version,
            "server": [initialization.server_info.name, initialization.server_info.version] if initialization else None,
            "instructions": initialization.instructions if initialization else None,
        }

    session = PythonSession(failures=(ToolError,), progress="progress_handler")
    client = Client(
        url,
        mode=mode,
        roots=[ROOT],
        elicitation_handler=elicit,
        sampling_handler=sample,
        log_handler=session.record_log,
        extensions=[advertise(EXTENSION)],
    )
    return await session.run(client, describe)


async def fastmcp_tasks(url: str) -> JsonDict:
    """Call background tools with FastMCP's tasks client, which supports them in the 2026 era only."""
    from fastmcp import Client
    from fastmcp_tasks import call_tool_task

    report: JsonDict = {"asked": []}

    async def elicit(message: str, *_: object) -> dict[str, str]:
        report["asked"].append(message)
        return {"name": f"Kim {len(report['asked'])}"}

    async with Client(url, mode="2026-07-28", elicitation_handler=elicit) as client:
        report["revision"] = client.session.protocol_version
        for call, name, arguments in (
            ("added", "add_up", {"numbers": [1, 2, 3]}),
            ("lost", "lose", {}),
            ("packed", "dispatch_goods", {}),
            ("booked", "book", {}),
        ):
            result = await client.call_tool(name, arguments, raise_on_error=False)
            report[call] = {
                "error": result.is_error,
                "text": result.content[0].text,
                "structured": result.structured_content,
            }
        handle = await call_tool_task(client, "add_up", {"numbers": [4, 5]})
        report["handled"] = (await handle.result()).structured_content
    return report


async def main(url: str) -> None:
    """Run every session. FastMCP is imported after the SDK's sessions, because it builds on the SDK."""
    reports = {f"python-sdk-{mode}": await python_sdk(url, mode) for mode in ("legacy", "auto")}
    reports |= {f"fastmcp-{mode}": await fastmcp(url, mode) for mode in ("legacy", "auto")}
    reports["fastmcp-tasks"] = await fastmcp_tasks(url)
    sys.stdout.write(json.dumps(reports))


asyncio.run(main(*sys.argv[1:]))
