"""Completion of prompt arguments and of resource templates' variables (MCP server/utilities/completion)."""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from msgspec import Struct

from mcp_baton.exceptions import RegistrationError
from mcp_baton.tools.schema.defaults import changeable
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
    parameters = [item for name, item in inspect.signature(function).parameters.items() if name not in injected_names]
    positional = [item for item in parameters if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)]
    others = [*positional[2:], *(item for item in parameters if item.kind is item.KEYWORD_ONLY)]
    if any(item.default is item.empty for item in others) or not (
        positional or any(item.kind is item.VAR_POSITIONAL for item in parameters)
    ):
        remedy = "write def complete(value: str) -> list[str]"
        raise RegistrationError(f"{subject}: it takes the text so far and perhaps the known arguments; {remedy}")
    defaults = {item.name: item.default for item in others}
    return Completion(function, subject, signature, changeable(defaults, subject), len(positional) > 1)
