"""Baton runs MCP servers serverless: workflow prompts that keep their state in one DynamoDB item.

See the README for a server in twenty lines, and `mcp_baton.aws.handler` for the composition root.
"""

from mcp_baton.exceptions import BatonError, ProtocolError, RegistrationError, ToolError, WorkflowError
from mcp_baton.server.context import Context
from mcp_baton.server.server import Server
from mcp_baton.workflow.definition import Argument, Step, Workflow
from mcp_baton.workflow.sources import constant, prompt_arg, step_output, task_variable

__all__ = [
    "Argument",
    "BatonError",
    "Context",
    "ProtocolError",
    "RegistrationError",
    "Server",
    "Step",
    "ToolError",
    "Workflow",
    "WorkflowError",
    "constant",
    "prompt_arg",
    "step_output",
    "task_variable",
]
