"""The official SDK with the tools of `benchmarks/load.py`, as an ASGI application."""

from load_tools import decide, fetch
from mcp.server.mcpserver import MCPServer

server = MCPServer("load")
server.tool()(fetch)
server.tool()(decide)
app = server.streamable_http_app(json_response=True, stateless_http=True)
