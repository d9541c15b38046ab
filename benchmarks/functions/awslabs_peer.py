"""`awslabs.mcp-lambda-handler` with one tool."""

from typing import Any

from awslabs.mcp_lambda_handler import MCPLambdaHandler

server = MCPLambdaHandler(name="peer", version="1.0.0")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


server.tool()(add)


def handler(event: dict[str, Any], context: object) -> object:
    return server.handle_request(event, context)
