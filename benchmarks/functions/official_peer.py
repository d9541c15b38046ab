"""The official SDK with one tool, through Mangum."""

from held_open import held_open
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

server = MCPServer("peer")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


server.tool()(add)
security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
handler = held_open(server.streamable_http_app(json_response=True, stateless_http=True, transport_security=security))
