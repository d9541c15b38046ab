"""The fixture server for the official conformance suite. The suite defines its names, texts and schemas.

`test_conformance.py` serves it with `baton serve tests/conformance/server.py`.
"""

import base64
import json
import time
from typing import Annotated, Any

from pydantic import Field

from mcp_baton import (
    Audio,
    Context,
    EmbeddedResource,
    Image,
    Message,
    ProtocolError,
    Server,
    ToolError,
    elicitation,
    roots,
    sampling,
)

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC"
"""One red pixel."""

SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
WAV = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA=="
"""Eight samples of silence."""

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
    """Always fail."""
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
    """Log one message. Only a caller that requested log messages may receive it."""
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
    """Return the region, which the client also sends in a header."""
    return f"The region is {region}."


@server.tool(task="optional")
def slow_compute(seconds: float, ctx: Context, label: str = "compute") -> str:
    """Take this many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ctx.remaining_ms()
        time.sleep(0.05)
    return f"{label}: done after {seconds} s"


@server.tool(task="required")
def failing_job() -> str:
    """Fail with a tool error, after a while."""
    time.sleep(1)
    raise ToolError("The job failed, as it always does")


@server.tool(task="optional")
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
) -> list[Message]:
    """A prompt that embeds a resource."""
    resource = EmbeddedResource(resourceUri, "Embedded resource content for testing.", "text/plain")
    return [Message("user", resource), Message("user", "Please process the embedded resource above.")]


@server.prompt
def test_prompt_with_image() -> list[Image | str]:
    """A prompt that shows an image."""
    return [Image(base64.b64decode(PNG)), "Please analyze the image above."]


@server.tool
def test_image_content() -> Image:
    """Return an image."""
    return Image(base64.b64decode(PNG), "image/png")


@server.tool
def test_audio_content() -> Audio:
    """Return a sound."""
    return Audio(base64.b64decode(WAV), "audio/wav")


@server.tool
def test_embedded_resource() -> EmbeddedResource:
    """Return a resource's contents."""
    return EmbeddedResource("test://embedded-resource", "This is an embedded resource content.", mime_type="text/plain")


@server.tool
def test_multiple_content_types() -> list[str | Image | EmbeddedResource]:
    """Return a text, an image and a resource."""
    return [
        "Multiple content types test:",
        Image(base64.b64decode(PNG), "image/png"),
        EmbeddedResource("test://mixed-content-resource", '{"test":"data","value":123}', mime_type="application/json"),
    ]


@server.tool(input_schema=SCHEMA_2020_12)
def json_schema_2020_12_tool(
    name: str = "",
    address: dict[str, Any] | None = None,
    contactMethod: str = "",  # noqa: N803 - the suite's name
    phone: str = "",
    email: str = "",
) -> str:
    """Tool with JSON Schema 2020-12 features."""
    return f"{name} {address} {contactMethod} {phone} {email}"


@server.completion("test_prompt_with_arguments", "arg1")
def complete_arg1(value: str) -> list[str]:
    """Return words that start with this text."""
    return [word for word in ("paris", "park", "party", "test", "testing") if word.startswith(value)]


@server.tool
def test_sampling(prompt: str, ctx: Context) -> str:
    """Ask the client's model."""
    answer = ctx.sample("answer", prompt, max_tokens=100)
    return f"LLM response: {answer.text}"


USERNAME_AND_EMAIL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    },
    "required": ["username", "email"],
}


@server.tool
def test_elicitation(message: str, ctx: Context) -> str:
    """Ask the user."""
    answer = ctx.elicit("user", message, USERNAME_AND_EMAIL)
    return f"User response: action={answer.action}, content={json.dumps(answer.content)}"


DEFAULTS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
}
ENUMS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {
            "type": "string",
            "oneOf": [
                {"const": "value1", "title": "First Option"},
                {"const": "value2", "title": "Second Option"},
                {"const": "value3", "title": "Third Option"},
            ],
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {
            "type": "array",
            "items": {
                "anyOf": [
                    {"const": "value1", "title": "First Choice"},
                    {"const": "value2", "title": "Second Choice"},
                    {"const": "value3", "title": "Third Choice"},
                ]
            },
        },
    },
}


@server.tool
def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask with defaults."""
    answer = ctx.elicit("defaults", "Please review the values", DEFAULTS)
    return f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}"


@server.tool
def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask with every kind of enumeration."""
    answer = ctx.elicit("enums", "Please choose", ENUMS)
    return f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}"


def form(field: str, kind: str = "string") -> dict[str, Any]:
    """Return a form of one field."""
    return {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}


@server.tool
def test_input_required_result_elicitation(ctx: Context) -> str:
    """Ask for a name."""
    return f"Hello, {ctx.elicit('user_name', 'What is your name?', form('name')).content['name']}!"


@server.tool(task="optional")
def confirm_delete(filename: str, ctx: Context) -> str:
    """Ask for confirmation while the task runs."""
    answer = ctx.elicit("confirm", f"Delete {filename}?", form("confirm", "boolean"))
    is_confirmed = answer.accepted and answer.content.get("confirm") is True
    return f"Deleted {filename}" if is_confirmed else f"Kept {filename}"


@server.tool(task="optional")
def multi_input(ctx: Context) -> str:
    """Ask for two things at once while the task runs."""
    name, color = ctx.ask(
        elicitation("name", "What is your name?", form("name")),
        elicitation("color", "What is your favorite color?", form("color")),
    )
    return f"{name.content.get('name')} likes {color.content.get('color')}"


@server.tool(task="required", task_start="explicit")
def test_tool_with_task(ctx: Context) -> str:
    """Ask for a name, then greet in the background."""
    name = ctx.elicit("user_name", "What is your name?", form("name")).content["name"]
    ctx.start_task()
    return f"Hello, {name}!"


@server.tool
def test_input_required_result_sampling(ctx: Context) -> str:
    """Ask the model for a capital."""
    return ctx.sample("capital_question", "What is the capital of France?", max_tokens=100).text


@server.tool
def test_input_required_result_list_roots(ctx: Context) -> str:
    """Ask for the roots."""
    return ", ".join(root.uri for root in ctx.list_roots("client_roots").roots)


@server.tool
def test_input_required_result_request_state(ctx: Context) -> str:
    """Ask for confirmation. The server verifies the request state."""
    ctx.elicit("confirm", "Please confirm", form("ok", "boolean"))
    return "state-ok"


@server.tool
def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Ask for three things at once."""
    name, greeting, client_roots = ctx.ask(
        elicitation("user_name", "What is your name?", form("name")),
        sampling("greeting", "Generate a greeting", max_tokens=50),
        roots("client_roots"),
    )
    return f"{greeting.text} {name.content['name']}, {len(client_roots.roots)} roots"


@server.tool
def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask twice, one after the other."""
    name = ctx.elicit("step1", "Step 1: What is your name?", form("name")).content["name"]
    color = ctx.elicit("step2", "Step 2: What is your favorite color?", form("color")).content["color"]
    return f"{name} likes {color}"


@server.tool
def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Ask for confirmation."""
    ctx.elicit("confirm", "Please confirm", form("ok", "boolean"))
    return "confirmed"


@server.tool
def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask only what the client supports."""
    possible = {
        "elicitation": elicitation("user_name", "What is your name?", form("name")),
        "sampling": sampling("greeting", "Generate a greeting", max_tokens=50),
    }
    ctx.ask(*(question for capability, question in possible.items() if ctx.client_supports(capability)))
    return "asked"


@server.tool
def test_missing_capability(ctx: Context) -> str:
    """Use sampling, which the client may not support."""
    return ctx.sample("answer", "Anything", max_tokens=10).text


@server.tool
def test_streaming_elicitation(ctx: Context) -> str:
    """Ask after a progress notification."""
    ctx.report_progress(0, 1)
    return ctx.elicit("user_name", "What is your name?", form("name")).action


@server.prompt
def test_input_required_result_prompt(ctx: Context) -> str:
    """A prompt that asks for its context."""
    answer = ctx.elicit("user_context", "What context should the prompt use?", form("context"))
    return f"Use {answer.content['context']}"
