"""The paths of the HTTP endpoints (docs/http.md)."""

from typing import Final

MCP_PATH: Final = "/mcp"


CONSOLE: Final = "/console"


CONSOLE_CLIENT: Final = "/console/client.json"


APPROVALS: Final = "/approvals"


LINKS: Final = "/approve/"


CALLBACKS: Final = "/callbacks/"
