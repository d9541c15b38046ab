"""A function that asks its client, names its container, and makes large results. Deployed in the sample's place."""

import os
import random
from typing import Any

from mcp_baton import Context, Server, Step, Workflow, constant
from mcp_baton.aws import handler

FORM: Any = {"type": "object", "properties": {"name": {"type": "string"}}}
LARGE = 900_000
"""Characters: more than an item holds, compressed as well; less than the client takes in one event."""

server = Server("probe")


@server.tool
def greet(ctx: Context) -> dict[str, str]:
    """Ask for a name; who it is, and where the call ended."""
    answer = ctx.elicit("name", f"Who calls {here()}?", FORM)
    return {"name": str(answer.content["name"]), "container": here()}


@server.tool
def draw(seed: int) -> str:
    """A large text; the same for the same seed."""
    return random.Random(seed).randbytes(LARGE // 2).hex()


def here() -> str:
    """This container's own name: each has a log stream of its own."""
    return os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]


drawing = Step("draw", tool="draw", arguments={"seed": constant(7)})
server.add_workflow(Workflow(name="drawing", description="draw", steps=[drawing]))

lambda_handler = handler(server)
