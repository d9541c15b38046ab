"""The server that the tests of `baton serve` use."""

import threading
from typing import Any

from mcp_baton import Context, Server, ToolStep, Workflow
from mcp_baton.aws import handler

server = Server("served", version="1.0.0")
meeting = threading.Barrier(2, timeout=60)


@server.tool
def meet() -> int:
    """Wait until two calls run at the same time."""
    return meeting.wait()


def whoami(ctx: Context) -> dict[str, Any]:
    """Return the caller's owner and the remaining time."""
    return {"owner": ctx.owner, "remaining_ms": ctx.remaining_ms()}


@server.tool
def broken() -> None:
    """Raise an error."""
    raise RuntimeError("the bank at https://bank.example.com/?api_key=k-1 said no")


other_server = Server("other", version="1.0.0")


def add_to_both() -> None:
    """Add a tool and a workflow to both servers."""
    for target in (server, other_server):
        target.tool(whoami)
        target.add_workflow(Workflow(name="asking", description="ask", steps=[ToolStep("whoami", tool="whoami")]))


add_to_both()

lambda_handler = handler(server)
