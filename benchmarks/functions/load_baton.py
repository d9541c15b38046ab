"""Baton with the tools and all workflows of `benchmarks/load.py`."""

import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from load_tools import SHAPES, Shape, decide, fetch

from mcp_baton import Approval, Context, Server, ToolStep, Workflow, constant, step, step_output, wait_for_callback
from mcp_baton.aws import handler as make_handler

server = Server("load", version="1.0.0")
server.tool(fetch)
server.tool(decide)


@server.tool(approval=Approval("supervisors", message="Refund order {order}?"))
def refund(order: str) -> str:
    """Refund an order."""
    return f"{order} is refunded"


@server.tool
def start_build(ctx: Context, order: str) -> str:
    """Start a build. The client of the benchmark is also the build server: it reads the address from a file."""
    Path(os.environ["LOAD_ADDRESSES"], order).write_text(ctx.callback_url("build"))
    return "started"


@dataclass
class Build:
    """The body of the build server's callback."""

    image: str


@server.tool
def deploy(image: str) -> str:
    """Deploy an image."""
    return f"{image} is deployed"


@server.workflow
def guarded(order: str) -> None:
    """Refund an order after a supervisor has approved the refund."""
    step(fetch)(step=0, kb=2)
    step(refund)(order=order)


@server.workflow
def waiting(order: str) -> None:
    """Start a build, wait until it calls back, and deploy its image."""
    step(start_build)(order=order)
    build = wait_for_callback("build", Build, within=timedelta(minutes=30))
    step(deploy)(image=build.image)


def _add(name: str, shape: Shape) -> None:
    """Add a workflow. A step of the client lacks an argument that only the client knows."""
    steps = []
    for number in range(shape.before + shape.by_client + shape.after):
        common_arguments = {"step": constant(number), "kb": constant(shape.kb)}
        if shape.before <= number < shape.before + shape.by_client:
            steps.append(ToolStep(f"s{number}", tool="decide", arguments=common_arguments))
        else:
            previous_result = {"after": step_output(f"s{number - 1}")} if number else {}
            steps.append(ToolStep(f"s{number}", tool="fetch", arguments={**common_arguments, **previous_result}))
    server.add_workflow(Workflow(name=name, description=f"the {name} workflow", steps=steps))


for _name, _shape in SHAPES.items():
    _add(_name, _shape)
handler = make_handler(server)
