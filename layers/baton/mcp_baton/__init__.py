"""Baton runs MCP servers on AWS Lambda, with workflows whose state is stored in DynamoDB.

`mcp_baton.public` lists the public names. They are imported when one of them is first used, because the runtime client,
which is part of this package, starts without them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp_baton.public import *  # noqa: F403 - `mcp_baton.public.__all__` is the list
    from mcp_baton.public import __all__ as __all__


def __getattr__(name: str) -> object:
    from importlib import import_module

    public = import_module("mcp_baton.public")
    if name != "__all__" and name not in public.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(public, name)
    return value


def __dir__() -> list[str]:
    from mcp_baton.public import __all__ as names

    return sorted({*globals(), *names})
