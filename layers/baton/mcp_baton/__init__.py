"""Baton runs MCP servers on AWS Lambda, with workflows whose state is stored in DynamoDB.

`mcp_baton.public` lists the public names. They are imported when one of them is first used, because the runtime client,
which is part of this package, starts without them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp_baton.public import *  # noqa: F403 - `mcp_baton.public.__all__` is the list
    from mcp_baton.public import __all__ as __all__


_FOR_TOOLS = {
    "Server": "server.server",
    "Settings": "settings",
    "ToolError": "exceptions",
    "Approval": "tools.approval",
    "Context": "tools.context",
    "Header": "tools.param_headers",
    "Depends": "tools.schema.dependency",
    **dict.fromkeys(("Audio", "EmbeddedResource", "Image", "Message"), "tools.content"),
    **dict.fromkeys(("ResourceContent", "ResourceLink", "Text", "ToolResult"), "tools.content"),
}
"""Names for a server with plain tools, by module. `public` would also import what only workflows and questions need."""


def __getattr__(name: str) -> object:
    from importlib import import_module

    module = import_module(f"mcp_baton.{_FOR_TOOLS.get(name, 'public')}")
    if name != "__all__" and name not in _FOR_TOOLS and name not in module.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    from mcp_baton.public import __all__ as names

    return sorted({*globals(), *names})
