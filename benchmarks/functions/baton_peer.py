"""Baton with one tool and a durable workflow of three steps."""

from mcp_baton import Argument, Server, ToolStep, Workflow, constant, prompt_arg, step_output
from mcp_baton.aws import handler as make_handler

server = Server("peer", version="1.0.0")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


server.add_workflow(
    Workflow(
        name="sum",
        description="add numbers up",
        arguments=[Argument("start", "Where to begin", required=True, type=int)],
        steps=[
            ToolStep("one", tool="add", arguments={"a": prompt_arg("start"), "b": constant(1)}),
            ToolStep("two", tool="add", arguments={"a": step_output("one"), "b": constant(2)}),
            ToolStep("three", tool="add", arguments={"a": step_output("two"), "b": constant(3)}),
        ],
    )
)
handler = make_handler(server)
