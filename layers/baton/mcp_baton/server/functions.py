"""What a server publishes: functions registered as tools, resources and prompts."""

import functools
import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from mcp_baton.exceptions import RegistrationError
from mcp_baton.protocol.json import Json
from mcp_baton.server.schema import InputSchema, OutputSchema
from mcp_baton.server.signature import NO_ANNOTATION, Signature, read_signature
from mcp_baton.server.uri_template import match, variables_of
from mcp_baton.server.values import to_json
from mcp_baton.workflow.definition import Argument

_SCHEMALESS = (NO_ANNOTATION, None, type(None), Any)


class Tool:
    """A function that clients and workflows can call.

    Args:
        function: A `def` or an `async def`.
        name: How it is called.
        title: A name for people.
        description: What it does; the function's docstring unless given.
    """

    def __init__(self, function: Callable[..., object], name: str, title: str | None, description: str | None) -> None:
        self.function = function
        self.name = name
        self.title = title
        self.description = documented(function, description)
        self.signature: Signature = read_signature(function, f"tool {name!r}")
        self.input = InputSchema(name, self.signature)
        returns = self.signature.returns
        self.output = None if any(returns is empty for empty in _SCHEMALESS) else OutputSchema(name, returns)

    @cached_property
    def definition(self) -> dict[str, Json]:
        """The tool as `tools/list` shows it (MCP server/tools, Tool)."""
        shown: dict[str, Json] = {"name": self.name}
        if self.title:
            shown["title"] = self.title
        if self.description:
            shown["description"] = self.description
        shown["inputSchema"] = self.input.json_schema
        if self.output:
            shown["outputSchema"] = self.output.json_schema
        return shown

    @property
    def summary(self) -> str:
        """The description's first line."""
        return self.description.partition("\n")[0]

    def value(self, returned: object) -> Json:
        """The tool's value: what the function returned, as JSON.

        Raises:
            ValueError: it is not what the function declares, or not JSON.
        """
        return self.output.value(returned) if self.output else to_json(returned)

    def result(self, value: Json) -> dict[str, Json]:
        """A successful `CallToolResult` (MCP server/tools, Tool Result)."""
        made: dict[str, Json] = {"content": content_of(value)}
        if self.output:
            made["structuredContent"] = {"result": value} if self.output.wraps else value
        return made


class Resource:
    """A function that yields the contents of one URI, or of every URI of a template.

    Args:
        uri: A URI, or a template with `{name}` for each parameter of the function.
        function: Returns text, bytes, or anything that can be written as JSON.
    """

    def __init__(
        self,
        uri: str,
        function: Callable[..., object],
        name: str,
        title: str | None,
        description: str | None,
        mime_type: str | None,
    ) -> None:
        self.uri = uri
        self.function = function
        self.name = name
        self.title = title
        self.description = documented(function, description)
        self.mime_type = mime_type
        what = f"resource {uri!r}"
        self.variables = variables_of(uri, what)
        self.signature = read_signature(function, what)
        if set(self.variables) != self.signature.names:
            takes = ", ".join(sorted(self.signature.names)) or "nothing"
            raise RegistrationError(
                f"{what}: the function takes {takes}; name the same in the URI and in the signature"
            )
        self.input = InputSchema(name, self.signature)

    @property
    def is_template(self) -> bool:
        """Whether it stands for many URIs."""
        return bool(self.variables)

    @cached_property
    def definition(self) -> dict[str, Json]:
        """The resource as `resources/list` or `resources/templates/list` shows it."""
        shown: dict[str, Json] = {"uriTemplate" if self.is_template else "uri": self.uri, "name": self.name}
        if self.title:
            shown["title"] = self.title
        if self.description:
            shown["description"] = self.description
        if self.mime_type:
            shown["mimeType"] = self.mime_type
        return shown

    def match(self, uri: str) -> dict[str, str] | None:
        """The function's arguments for a URI; `None` when it is not this resource's."""
        if self.is_template:
            return match(self.uri, uri)
        return {} if uri == self.uri else None


class Prompt:
    """A function that yields messages.

    Args:
        function: Returns a text, a message (`{"role", "content"}`), or a list of those.
    """

    def __init__(self, function: Callable[..., object], name: str, title: str | None, description: str | None) -> None:
        self.function = function
        self.name = name
        self.title = title
        self.description = documented(function, description)
        self.signature = read_signature(function, f"prompt {name!r}")
        self.arguments = tuple(
            Argument(parameter.published, parameter.description, parameter.required, parameter.annotation)
            for parameter in self.signature.parameters
        )
        self.input = InputSchema(name, self.signature)


def documented(function: Callable[..., object], description: str | None) -> str:
    """The description that was given, else the function's own docstring."""
    if description is not None:
        return description
    while isinstance(function, functools.partial):
        function = function.func
    own = function.__doc__ if inspect.isroutine(function) else type(function).__call__.__doc__
    return inspect.cleandoc(own) if own else ""


def content_of(value: Json) -> list[Json]:
    """A value as MCP content: text as it is, nothing for nothing, everything else as JSON text."""
    from mcp_baton.workflow.sources import as_text

    return [] if value is None else [{"type": "text", "text": as_text(value)}]


def definition_of_prompt(
    name: str, title: str | None, description: str, arguments: tuple[Argument, ...]
) -> dict[str, Json]:
    """A prompt as `prompts/list` shows it (MCP server/prompts, Prompt)."""
    shown: dict[str, Json] = {"name": name}
    if title:
        shown["title"] = title
    if description:
        shown["description"] = description
    shown["arguments"] = [_definition_of_argument(argument) for argument in arguments]
    return shown


def _definition_of_argument(argument: Argument) -> Mapping[str, Json]:
    shown: dict[str, Json] = {"name": argument.name}
    if argument.description:
        shown["description"] = argument.description
    return shown | {"required": argument.required}
