"""A server for the tests of `baton serve`. Its background tool waits until the test lets it end."""

from pathlib import Path

from mcp_baton import Context, Server

server = Server("background", version="1.0.0")


@server.tool(task="required")
def wait(start_pipe: str, gate: str, ctx: Context) -> dict[str, object]:
    """Write to one named pipe, then wait until the test writes to the other one."""
    Path(start_pipe).write_text("started")
    return {"text": Path(gate).read_text(), "owner": ctx.owner, "attempt": ctx.attempt}
