"""The functions of a server's author in a common form: how arguments are bound, and how the value is converted."""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from mcp_baton.exceptions import ToolError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.definitions.completion import Completion, suggestions
from mcp_baton.server.definitions.prompt import Prompt, messages_of
from mcp_baton.server.definitions.resource import Resource, contents_of
from mcp_baton.server.definitions.tool import Tool
from mcp_baton.server.schema.schema import InvalidArguments
from mcp_baton.server.schema.signature import Signature
from mcp_baton.workflow.host import FetchedResource, Mismatch, Prepared, Succeeded


class BoundFunction[T](Struct, frozen=True):
    """A function of the server's author. `bind` may raise `InvalidArguments` or the exception of a validator,
    `shape` if the value is invalid."""

    name: str
    what: str
    function: Callable[..., object]
    signature: Signature
    bind: Callable[[Mapping[str, Json]], dict[str, Any]]
    shape: Callable[[object], T]

    @property
    def own_function(self) -> Callable[..., object]:
        """The author's function. Its abandoned threads are counted under it."""
        return self.function.func if isinstance(self.function, functools.partial) else self.function

    def prepare(self, arguments: JsonObject) -> Prepared | Mismatch:
        """Validate the arguments. An exception of an author's validator is raised."""
        try:
            return Prepared(self.name, arguments, self.bind(arguments))
        except InvalidArguments as error:
            return error.mismatch


def bound_tool(tool: Tool) -> BoundFunction[Succeeded]:
    return BoundFunction(tool.name, f"tool {tool.name}", tool.function, tool.signature, tool.input.bind, tool.outcome)


class BoundTools(dict[str, BoundFunction[Succeeded]]):
    """The functions of tools by the tools' names. Each is made at its first use."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        super().__init__()
        self._tools = tools

    def __missing__(self, tool: str) -> BoundFunction[Succeeded]:
        made = self[tool] = bound_tool(self._tools[tool])
        return made

    def prepare(self, tool: str, arguments: JsonObject) -> Prepared | Mismatch:
        return self[tool].prepare(arguments)


def bound_resource(resource: Resource, uri: str) -> BoundFunction[FetchedResource]:
    """A resource's function, for a request of this URI."""
    shape = functools.partial(contents_of, uri, resource.mime_type)
    what = f"resource {resource.uri}"
    return BoundFunction(resource.name, what, resource.function, resource.signature, resource.input.bind, shape)


def bound_prompt(prompt: Prompt) -> BoundFunction[list[Json]]:
    return BoundFunction(
        prompt.name, f"prompt {prompt.name}", prompt.function, prompt.signature, prompt.input.bind, messages_of
    )


def bound_completion(completion: Completion, value: str, known: dict[str, Any]) -> BoundFunction[JsonObject]:
    """A completing function, with the text so far and, if it takes them, the known arguments."""
    arguments = (value, known) if completion.wants_arguments else (value,)
    return BoundFunction(
        name=completion.what,
        what="completion",
        function=functools.partial(completion.function, *arguments),
        signature=completion.signature,
        bind=dict,
        shape=functools.partial(_suggested, completion.what),
    )


def _suggested(what: str, returned: object) -> JsonObject:
    if isinstance(returned, str) or not isinstance(returned, Iterable):
        raise ToolError(f"{what} did not return suggestions")
    return suggestions(str(suggestion) for suggestion in returned)
