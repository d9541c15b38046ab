"""A server for the tests of `baton serve`: a tool that runs in the background, and waits for the test."""

import os
from pathlib import Path

from mcp_baton import Context, Server

server = Server("background", version="1.0.0")


@server.tool(task="required")
def wait(began: str, gate: str, ctx: Context) -> dict[str, object]:
    """Say in one named pipe that it has begun, and wait until the other has been written to."""
    Path(began).write_text(f"{os.getpid()}\n")
    return {"said": Path(gate).read_text(), "owner": ctx.owner, "pid": os.getpid(), "attempt": ctx.attempt}
