"""Baton runs MCP servers serverless: workflow prompts that keep their state in one DynamoDB item.

See the README for a server in twenty lines, and `mcp_baton.aws.handler` for the composition root.
"""

from mcp_baton.exceptions import BatonError, ProtocolError, RegistrationError, ToolError, WorkflowError
from mcp_baton.server.content import Audio, EmbeddedResource, Image, Message, ResourceLink, Text, ToolResult
from mcp_baton.server.context import Context
from mcp_baton.server.inputs import elicitation, roots, sampling, url_elicitation
from mcp_baton.server.param_headers import Header
from mcp_baton.server.server import Server
from mcp_baton.workflow.definition import Argument, Step, Workflow
from mcp_baton.workflow.sources import constant, prompt_arg, step_output, task_variable

__all__ = [
    "Argument",
    "Audio",
    "BatonError",
    "Context",
    "EmbeddedResource",
    "Header",
    "Image",
    "Message",
    "ProtocolError",
    "RegistrationError",
    "ResourceLink",
    "Server",
    "Step",
    "Text",
    "ToolError",
    "ToolResult",
    "Workflow",
    "WorkflowError",
    "constant",
    "elicitation",
    "prompt_arg",
    "roots",
    "sampling",
    "step_output",
    "task_variable",
    "url_elicitation",
]
