"""Completion of prompt arguments and of resource templates' variables (MCP server/utilities/completion)."""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from msgspec import Struct

from mcp_baton.tools.schema.defaults import changeable, defaults_of
from mcp_baton.tools.schema.dependency import injected_parameters, read_dependencies
from mcp_baton.tools.schema.signature import NO_ANNOTATION, Signature, is_async

type Completer = Callable[..., Iterable[str] | Awaitable[Iterable[str]]]
"""A `def` or `async def`. Takes the text so far and optionally the known arguments; returns suggestions, best first."""


class Completion(Struct, frozen=True):
    function: Completer
    subject: str
    signature: Signature
    defaults: dict[str, Any]
    """The defaults of its other parameters that it could change."""
    wants_arguments: bool
    """Whether it takes the known arguments, too."""


def completion_of(function: Completer, subject: str) -> Completion:
    context, dependencies = injected_parameters(function, subject)
    signature = Signature((), context, NO_ANNOTATION, is_async(function), read_dependencies(dependencies, subject))
    injected_names = {context, *(name for name, _ in dependencies)}
    names = [name for name in inspect.signature(function).parameters if name not in injected_names]
    defaults = {name: default for name, default in defaults_of(function).items() if name in names[2:]}
    return Completion(function, subject, signature, changeable(defaults, subject), len(names) > 1)
