"""A server for the tests of `baton serve`: tools that wait for the test."""

import threading
from pathlib import Path
from typing import Any

from mcp_baton import Argument, Context, Server, Step, Workflow, prompt_arg
from mcp_baton.aws import handler

server = Server("served", version="1.0.0")
meeting = threading.Barrier(2, timeout=60)


@server.tool
def wait(gate: str) -> str:
    """Wait until the named pipe has been written to."""
    return Path(gate).read_text()


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

server.add_workflow(
    Workflow(
        name="waiting",
        description="wait",
        arguments=[Argument("gate", "A named pipe", required=True)],
        steps=[Step("wait", tool="wait", arguments={"gate": prompt_arg("gate")}), Step("whoami", tool="whoami")],
    )
)

lambda_handler = handler(server)
