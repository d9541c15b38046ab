"""FastMCP with the tools of `benchmarks/load.py` as background tasks in Redis, as an ASGI application."""

import os
from typing import Any

import load_tools
from fastmcp import FastMCP
from fastmcp_tasks import TasksExtension

server: FastMCP[None] = FastMCP("load")
server.add_extension(TasksExtension(url=os.environ["LOAD_REDIS"]))


# FastMCP takes only asynchronous functions as background tasks.
async def fetch(step: int, kb: int, after: dict[str, Any] | None = None) -> dict[str, Any]:
    """Fetch rows. `after` is the result of the previous step."""
    result: dict[str, Any] = load_tools.fetch(step, kb, after)
    return result


async def decide(step: int, kb: int, who: str) -> dict[str, Any]:
    """Decide something that only the client knows."""
    result: dict[str, Any] = load_tools.decide(step, kb, who)
    return result


server.tool(task=True)(fetch)
server.tool(task=True)(decide)
app = server.http_app(path="/mcp", json_response=True, stateless_http=True, host_origin_protection=False)
