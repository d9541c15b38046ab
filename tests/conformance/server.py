"""The fixture that the official conformance suite is run against: each name, text and schema is the suite's.

Serve it with `baton serve tests/conformance/server.py`; `test_conformance.py` does.
"""

import base64
import time
from typing import Annotated

from pydantic import Field

from mcp_baton import Context, ProtocolError, Server, ToolError

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC"
"""One red pixel."""

INTERNAL_ERROR = -32603

server = Server("baton-conformance", version="1.0.0", instructions="Answers the conformance suite.")


@server.tool
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


@server.tool
def test_simple_text() -> str:
    """Return one text."""
    return "This is a simple text response for testing."


@server.tool
def test_error_handling() -> str:
    """Fail, always."""
    raise ToolError("This tool intentionally returns an error for testing")


@server.tool
def test_tool_with_logging(ctx: Context) -> str:
    """Log three messages while it runs."""
    ctx.info("Tool execution started")
    time.sleep(0.05)
    ctx.info("Tool processing data")
    time.sleep(0.05)
    ctx.info("Tool execution completed")
    return "Logged three messages."


@server.tool
def test_logging_tool(ctx: Context) -> str:
    """Log one message, which only a caller that asked for log messages may receive."""
    ctx.info("A message for those who asked")
    return "Logged one message."


@server.tool
def test_tool_with_progress(ctx: Context) -> str:
    """Report progress three times while it runs."""
    for progress in (0, 50, 100):
        ctx.report_progress(progress, 100, f"Completed step {progress} of 100")
        time.sleep(0.05)
    return "Reported progress three times."


@server.tool
def test_x_mcp_header(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """Name the region that the client has put into a header too."""
    return f"The region is {region}."


@server.tool
def slow_compute(seconds: float, ctx: Context, label: str = "compute") -> str:
    """Take so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ctx.remaining_ms()
        time.sleep(0.05)
    return f"{label}: done after {seconds} s"


@server.tool
def failing_job() -> str:
    """Fail with a tool error, after a while."""
    time.sleep(1)
    raise ToolError("The job failed, as it always does")


@server.tool
def protocol_error_job() -> str:
    """Fail with a protocol error."""
    raise ProtocolError(INTERNAL_ERROR, "The job broke, as it always does")


@server.resource("test://static-text", name="static-text", mime_type="text/plain")
def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", name="static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """An image."""
    return base64.b64decode(PNG)


@server.resource("test://watched-resource", name="watched-resource", mime_type="text/plain")
def watched_resource() -> str:
    """A text that clients subscribe to."""
    return "This is a watched resource."


@server.resource("test://template/{item}/data", name="template", mime_type="application/json")
def template(item: str) -> dict[str, object]:
    """The data of an item."""
    return {"id": item, "templateTest": True, "data": f"Data for ID: {item}"}


@server.prompt
def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@server.prompt
def test_prompt_with_arguments(
    arg1: Annotated[str, "First test argument"], arg2: Annotated[str, "Second test argument"]
) -> str:
    """A prompt with two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt
def test_prompt_with_embedded_resource(
    resourceUri: Annotated[str, "URI of the resource to embed"],  # noqa: N803 - the suite's name
) -> list[object]:
    """A prompt that embeds a resource."""
    resource = {"uri": resourceUri, "mimeType": "text/plain", "text": "Embedded resource content for testing."}
    return [
        {"role": "user", "content": {"type": "resource", "resource": resource}},
        "Please process the embedded resource above.",
    ]


@server.prompt
def test_prompt_with_image() -> list[object]:
    """A prompt that shows an image."""
    return [
        {"role": "user", "content": {"type": "image", "data": PNG, "mimeType": "image/png"}},
        "Please analyze the image above.",
    ]
