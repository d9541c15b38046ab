"""FastMCP with one tool, through Mangum."""

from fastmcp import FastMCP
from held_open import held_open

server: FastMCP[None] = FastMCP("peer")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


server.tool()(add)
handler = held_open(server.http_app(path="/mcp", json_response=True, stateless_http=True, host_origin_protection=False))
