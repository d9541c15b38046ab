"""The classes of Baton of which one warm request makes objects: how many concepts the main path has.

Run in the root of the repository: `uv run python -m benchmarks.request_classes`. The request is the second
`prompts/get` of a durable workflow with two steps, through the real handler, with an embedded DynamoDB.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable
from enum import Enum
from functools import partial
from types import CodeType
from typing import Any

from emulators.gateway_requests import prompts_get
from mcp_baton import Argument, Server, ToolStep, Workflow, constant, prompt_arg, step_output
from mcp_baton.aws import handler
from mcp_baton.local.dynamodb import create_table, embedded_client
from mcp_baton.local.embedded import EmbeddedEngine
from mcp_baton.settings import Settings

TABLE = "tasks"
TOOL_ID = 4
"""The id of this tool for `sys.monitoring`: none of Python's own."""


def make_server() -> Server:
    """Return a server with a durable workflow of two steps."""
    server = Server("benchmark", version="1.0.0")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    steps = [
        ToolStep("first", tool="add", arguments={"a": prompt_arg("start"), "b": constant(1)}),
        ToolStep("second", tool="add", arguments={"a": step_output("first"), "b": constant(2)}),
    ]
    argument = Argument("start", "Where to begin", required=True, type=int)
    server.add_workflow(Workflow(name="sum", description="add", arguments=[argument], steps=steps))
    return server


def class_of(called: object) -> type | None:
    """Return the class of Baton of which a call makes an object; `None` for the embedded DynamoDB, and for an
    enumeration, which has its objects already."""
    made = called.func if isinstance(called, partial) else called
    if not isinstance(made, type) or issubclass(made, Enum) or not made.__module__.startswith("mcp_baton."):
        return None
    return None if made.__module__.startswith("mcp_baton.local.") else made


def made_by(call: Callable[[], object]) -> Counter[type]:
    """Return how many objects of each class of Baton are made while a function runs, in all threads."""
    made: Counter[type] = Counter()

    def on_call(_code: CodeType, _offset: int, called: object, _argument: object) -> None:
        if (made_class := class_of(called)) is not None:
            made[made_class] += 1

    monitoring = sys.monitoring
    monitoring.use_tool_id(TOOL_ID, "request classes")
    monitoring.register_callback(TOOL_ID, monitoring.events.CALL, on_call)
    monitoring.set_events(TOOL_ID, monitoring.events.CALL)
    try:
        call()
    finally:
        monitoring.set_events(TOOL_ID, monitoring.events.NO_EVENTS)
        monitoring.free_tool_id(TOOL_ID)
    return made


def main() -> None:
    """Print the classes of the second request, by module."""
    client = embedded_client(EmbeddedEngine())
    create_table(client, TABLE)
    function: Callable[..., Any] = handler(
        make_server(), settings=Settings(table=TABLE, allow_anonymous=True), dynamodb=client
    )

    def send() -> None:
        response = function(prompts_get("sum", start="1").event, None)
        statuses = [step["status"] for step in json.loads(response["body"])["result"]["_meta"]["steps"]]
        if statuses != ["completed", "completed"]:
            raise RuntimeError(f"a wrong answer: {response['body'][:600]}")

    send()
    made = made_by(send)
    for made_class, count in sorted(made.items(), key=lambda entry: (entry[0].__module__, entry[0].__qualname__)):
        print(f"{count:3} {made_class.__module__.removeprefix('mcp_baton.')}.{made_class.__qualname__}")
    print(f"{len(made)} classes, {made.total()} objects")


if __name__ == "__main__":
    main()
