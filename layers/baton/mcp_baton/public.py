"""The public names of Baton, which `mcp_baton` exports. docs/tools.md lists them, too (What can be imported)."""

from mcp_baton.approvals.record import ApprovalRequest
from mcp_baton.exceptions import BatonError, ProtocolError, RegistrationError, ToolError, WorkflowError
from mcp_baton.server.server import Server
from mcp_baton.settings import Settings
from mcp_baton.tools.approval import Approval
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.asking import ClientQuestion
from mcp_baton.tools.content import (
    Audio,
    EmbeddedResource,
    Image,
    Message,
    ResourceContent,
    ResourceLink,
    Text,
    ToolResult,
)
from mcp_baton.tools.context import Context
from mcp_baton.tools.param_headers import Header
from mcp_baton.tools.questions import (
    Elicited,
    Root,
    Roots,
    Sampled,
    elicitation,
    roots,
    sampling,
    url_elicitation,
)
from mcp_baton.tools.schema.dependency import Depends
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.reference import first_of, item, or_default, task_variable
from mcp_baton.workflow.sources import constant, exists, is_in, not_, prompt_arg, step_output
from mcp_baton.workflow.step_functions import (
    ask_model,
    ask_user,
    fetch,
    sleep_until,
    step,
    wait_for_callback,
)
from mcp_baton.workflow.steps.fetch import Fetch
from mcp_baton.workflow.steps.list_step import ListStep
from mcp_baton.workflow.steps.question import Question
from mcp_baton.workflow.steps.retry import Retry
from mcp_baton.workflow.steps.tool_step import ToolStep
from mcp_baton.workflow.steps.wait import Callback, Wait

__all__ = [
    "Approval",
    "ApprovalRequest",
    "Argument",
    "Audio",
    "BatonError",
    "Callback",
    "ClientQuestion",
    "Context",
    "Depends",
    "Elicited",
    "EmbeddedResource",
    "Fetch",
    "Header",
    "Image",
    "ListStep",
    "Message",
    "ProtocolError",
    "Question",
    "RegistrationError",
    "ResourceContent",
    "ResourceLink",
    "Retry",
    "Root",
    "Roots",
    "Sampled",
    "Server",
    "Settings",
    "Text",
    "ToolError",
    "ToolResult",
    "ToolStep",
    "Wait",
    "Workflow",
    "WorkflowError",
    "ask_model",
    "ask_user",
    "constant",
    "elicitation",
    "exists",
    "fetch",
    "first_of",
    "is_in",
    "item",
    "not_",
    "or_default",
    "prompt_arg",
    "roots",
    "sampling",
    "sleep_until",
    "step",
    "step_output",
    "task_variable",
    "url_elicitation",
    "wait_for_callback",
]
