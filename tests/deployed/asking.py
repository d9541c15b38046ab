"""A function that asks its client, and says which container it runs in. Deployed in the place of the sample's."""

import os
from typing import Any

from mcp_baton import Context, Server
from mcp_baton.aws import handler

FORM: Any = {"type": "object", "properties": {"name": {"type": "string"}}}

server = Server("asking")


@server.tool
def greet(ctx: Context) -> dict[str, str]:
    """Ask for a name; who it is, and where the call ended."""
    answer = ctx.elicit("name", f"Who calls {here()}?", FORM)
    return {"name": str(answer.content["name"]), "container": here()}


def here() -> str:
    """This container's own name: each has a log stream of its own."""
    return os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]


lambda_handler = handler(server)
