"""A server for the tests of `baton serve`: tools that wait for the test."""

import threading
from typing import Any

from mcp_baton import Context, Server, Step, Workflow
from mcp_baton.aws import handler

server = Server("served", version="1.0.0")
meeting = threading.Barrier(2, timeout=60)


@server.tool
def meet() -> int:
    """Wait until two calls are here."""
    return meeting.wait()


def whoami(ctx: Context) -> dict[str, Any]:
    """Tell the caller's owner and time."""
    return {"owner": ctx.owner, "remaining_ms": ctx.remaining_ms()}


@server.tool
def broken() -> None:
    """Raise."""
    raise RuntimeError("the bank at https://bank.example.com/?api_key=k-1 said no")


other = Server("other", version="1.0.0")


def add_to_both() -> None:
    """What both servers have."""
    for either in (server, other):
        either.tool(whoami)
        either.add_workflow(Workflow(name="asking", description="ask", steps=[Step("whoami", tool="whoami")]))


add_to_both()

lambda_handler = handler(server)
