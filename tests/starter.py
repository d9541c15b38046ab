"""The server in functions/mcp that comes with Baton. A fork may replace it with its own."""

from pathlib import Path
from typing import Final

import pytest

SERVER: Final = Path(__file__).parents[1] / "functions" / "mcp" / "app.py"

FIRST_WORDS: Final = '"""An MCP server: two tools, and a workflow that uses both. Put your own in its place'
"""The first words of Baton's server. Another server starts differently."""

needs_the_starter = pytest.mark.skipif(
    not SERVER.is_file() or not SERVER.read_text().startswith(FIRST_WORDS),
    reason="functions/mcp contains another server, which these tests do not cover",
)
