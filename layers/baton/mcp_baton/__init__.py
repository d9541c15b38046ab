"""Baton runs MCP servers serverless: workflow prompts that keep their state in one DynamoDB item.

See the README for a server in twenty lines, and `mcp_baton.aws.handler` for the composition root.

Each name is imported when it is first used: the runtime, whose package this is too, begins before any of them, and few
servers need all.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp_baton.exceptions import BatonError, ProtocolError, RegistrationError, ToolError, WorkflowError
    from mcp_baton.server.asking.asker import Question
    from mcp_baton.server.asking.questions import (
        Elicited,
        Root,
        Roots,
        Sampled,
        elicitation,
        roots,
        sampling,
        url_elicitation,
    )
    from mcp_baton.server.content import (
        Audio,
        Contents,
        EmbeddedResource,
        Image,
        Message,
        ResourceContent,
        ResourceLink,
        Text,
        ToolResult,
    )
    from mcp_baton.server.context import Context
    from mcp_baton.server.definitions.param_headers import Header
    from mcp_baton.server.definitions.workflow_function import ask_model, ask_user, fetch, step
    from mcp_baton.server.schema.dependency import Depends
    from mcp_baton.server.server import Server
    from mcp_baton.settings import Settings
    from mcp_baton.tasks.store import TaskStore
    from mcp_baton.workflow.definition import Argument, Ask, Step, Workflow
    from mcp_baton.workflow.retry import Retry
    from mcp_baton.workflow.sources import constant, prompt_arg, step_output, task_variable

__all__ = [
    "Argument",
    "Ask",
    "Audio",
    "BatonError",
    "Contents",
    "Context",
    "Depends",
    "Elicited",
    "EmbeddedResource",
    "Header",
    "Image",
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
    "Step",
    "TaskStore",
    "Text",
    "ToolError",
    "ToolResult",
    "Workflow",
    "WorkflowError",
    "ask_model",
    "ask_user",
    "constant",
    "elicitation",
    "fetch",
    "prompt_arg",
    "roots",
    "sampling",
    "step",
    "step_output",
    "task_variable",
    "url_elicitation",
]

_HOMES = {
    "exceptions": (
        "BatonError",
        "ProtocolError",
        "RegistrationError",
        "ToolError",
        "WorkflowError",
    ),
    "server.content": (
        "Audio",
        "Contents",
        "EmbeddedResource",
        "Image",
        "Message",
        "ResourceContent",
        "ResourceLink",
        "Text",
        "ToolResult",
    ),
    "server.context": ("Context",),
    "server.asking.asker": ("Question",),
    "server.asking.questions": (
        "Elicited",
        "Root",
        "Roots",
        "Sampled",
        "elicitation",
        "roots",
        "sampling",
        "url_elicitation",
    ),
    "server.definitions.param_headers": ("Header",),
    "server.definitions.workflow_function": ("ask_model", "ask_user", "fetch", "step"),
    "server.schema.dependency": ("Depends",),
    "server.server": ("Server",),
    "workflow.definition": (
        "Argument",
        "Ask",
        "Step",
        "Workflow",
    ),
    "settings": ("Settings",),
    "tasks.store": ("TaskStore",),
    "workflow.retry": ("Retry",),
    "workflow.sources": (
        "constant",
        "prompt_arg",
        "step_output",
        "task_variable",
    ),
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
