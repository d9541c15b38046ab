"""The server in functions/mcp that comes with Baton. A fork may replace it with its own."""

from pathlib import Path
from typing import Final

import pytest

SERVER: Final = Path(__file__).parents[1] / "functions" / "mcp" / "app.py"

SAID_FIRST: Final = '"""An MCP server: two tools, and a workflow that uses both. Put your own in its place'
"""The first words of Baton's server. Another server starts differently."""

needs_the_starter = pytest.mark.skipif(
    not SERVER.is_file() or not SERVER.read_text().startswith(SAID_FIRST),
    reason="functions/mcp holds a server of your own, which these tests know nothing of",
)
