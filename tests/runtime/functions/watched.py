"""A server whose logs, metrics and traces are tested."""

import os
import sys
from pathlib import Path
from typing import Any

from mcp_baton import Retry, Server, ToolError, ToolStep, Workflow, constant
from mcp_baton.aws import compose, handler
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.methods import call_method
from mcp_baton.settings import Settings
from mcp_baton.transport.exchange import after_answer
from mcp_baton.workflow.request import Request

server = Server("watched", version="1")

COSTLY = ("aws_lambda_powertools", "aws_xray_sdk")


@server.tool
def add(left: int, right: int) -> int:
    return left + right


@server.tool
def refuse(why: str) -> str:
    raise ToolError(why)


@server.tool
def loaded() -> list[str]:
    return [name for name in COSTLY if name in sys.modules]


@server.tool
def say(text: str) -> str:
    from aws_lambda_powertools import Logger

    Logger().info(text)
    return text


@server.resource("broken://{name}")
def broken(name: str) -> str:
    raise KeyError(name)


sum_arguments = {"left": constant(1), "right": constant(2)}
steps = [
    ToolStep("first", tool="add", arguments=sum_arguments),
    ToolStep("second", tool="refuse", arguments={"why": constant("no")}),
    ToolStep("third", tool="add", arguments=sum_arguments),
]
server.add_workflow(Workflow(name="sums", description="add things up", steps=steps))
again_step = ToolStep("again", tool="refuse", arguments={"why": constant("no")}, retry=Retry(attempts=4, first_s=0))
server.add_workflow(Workflow(name="again", description="try again", steps=[again_step]))
server.add_workflow(Workflow(name="sum", description="add once", steps=steps[:1]))

lambda_handler = handler(server)


def fail_to_list(request: Request) -> JsonObject:
    """Answer everything but `tools/list`, which has an unexpected error."""
    if request.message.method == "tools/list":
        raise LookupError("an unexpected \ud800 error")
    return call_method(request)


faulty_handler = compose(Server("faulty", version="1"), Settings.from_environment(os.environ), call_method=fail_to_list)


def left(event: dict[str, Any], context: Any) -> object:
    """Defer work until after the response: write `text` to the named pipe `gate`, or fail if there is none."""
    defer = after_answer.get()
    if defer is None:
        raise LookupError("nothing can be left for later")
    defer(lambda: _work(event))
    return {"answered": True}


def _work(event: dict[str, Any]) -> None:
    if "gate" not in event:
        raise ValueError("the work failed")
    Path(event["gate"]).write_text(event["text"])
