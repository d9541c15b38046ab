"""The server that comes with Baton, in functions/mcp, which a fork has its own in the place of."""

from pathlib import Path
from typing import Final

import pytest

SERVER: Final = Path(__file__).parents[1] / "functions" / "mcp" / "app.py"

needs_the_starter = pytest.mark.skipif(
    not SERVER.is_file() or 'Server("library"' not in SERVER.read_text(),
    reason="functions/mcp holds a server of your own, which these tests know nothing of",
)
