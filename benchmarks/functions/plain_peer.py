"""Baton with one tool and no workflow, so that it needs no DynamoDB client."""

from mcp_baton import Server
from mcp_baton.aws import handler as make_handler

server = Server("peer", version="1.0.0")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


handler = make_handler(server)
