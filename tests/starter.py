"""The server that comes with Baton, in functions/mcp, which a fork has its own in the place of."""

from pathlib import Path
from typing import Final

import pytest

SERVER: Final = Path(__file__).parents[1] / "functions" / "mcp" / "app.py"

SAID_FIRST: Final = '"""An MCP server: two tools, and a workflow that uses both. Put your own in its place'
"""By which it is told from a server of somebody's own."""

needs_the_starter = pytest.mark.skipif(
    not SERVER.is_file() or not SERVER.read_text().startswith(SAID_FIRST),
    reason="functions/mcp holds a server of your own, which these tests know nothing of",
)
