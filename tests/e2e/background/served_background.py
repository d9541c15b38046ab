"""A server for the tests of `baton serve`. Its background tool waits until the test lets it end."""

import os
from pathlib import Path

from mcp_baton import Context, Server

server = Server("background", version="1.0.0")


@server.tool(task="required")
def wait(start_pipe: str, gate: str, ctx: Context) -> dict[str, object]:
    """Write the process id to one named pipe, then wait until the test writes to the other one."""
    Path(start_pipe).write_text(f"{os.getpid()}\n")
    return {"text": Path(gate).read_text(), "owner": ctx.owner, "pid": os.getpid(), "attempt": ctx.attempt}
