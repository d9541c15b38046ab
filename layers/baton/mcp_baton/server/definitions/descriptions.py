"""What is published, held against what clients can be told: each type needs a schema.

docs/troubleshooting.md, Mistakes when a server is written, tells them to users.

Pydantic is asked, so only `Server.check()` does this, and whoever has failed to make a schema.
"""

from collections.abc import Iterator, Mapping

from mcp_baton.exceptions import RegistrationError, WorkflowError
from mcp_baton.server.definitions.prompt import Prompt
from mcp_baton.server.definitions.resource import Resource
from mcp_baton.server.definitions.tool import Tool
from mcp_baton.server.schema.plain import plain_type
from mcp_baton.server.schema.schema import blamed_type, parameter_error_in
from mcp_baton.server.schema.undescribed import argument_cause
from mcp_baton.workflow.definition import Workflow

type Published = Tool | Resource | Prompt


def undescribed(
    tools: Mapping[str, Tool], resources: Mapping[str, Resource], prompts: Mapping[str, Prompt]
) -> Iterator[tuple[Published, RegistrationError]]:
    """What no list can show, or no request can give its arguments; and why."""
    for tool in tools.values():
        try:
            _ = tool.definition
        except RegistrationError as error:
            yield tool, error
    others: list[tuple[str, Resource | Prompt]] = [
        *((f"resource {uri!r}", resource) for uri, resource in resources.items()),
        *((f"prompt {name!r}", prompt) for name, prompt in prompts.items()),
    ]
    for what, item in others:
        refused = None if item.input.is_plain else parameter_error_in(what, item.signature, "conversion")
        if refused is not None:
            yield item, refused


def argument_errors(workflow: Workflow) -> Iterator[WorkflowError]:
    """Arguments of a workflow to whose types nothing can be converted."""
    for argument in workflow.arguments:
        blamed = None if plain_type(argument.type) is not None else blamed_type(argument.type, "conversion")
        if blamed is not None:
            yield WorkflowError(workflow.name, argument_cause(argument.name, blamed.part, blamed.cause))
