"""What a server publishes: functions registered as tools, resources and prompts."""

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mcp_baton.exceptions import RegistrationError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.content import explicit_content, mentions_content
from mcp_baton.server.param_headers import Header, mirrored
from mcp_baton.server.schema import InputSchema, OutputSchema
from mcp_baton.server.signature import NO_ANNOTATION, Signature, read_signature
from mcp_baton.server.uri_template import match, variables_of, withheld
from mcp_baton.server.values import to_json
from mcp_baton.workflow.definition import Argument
from mcp_baton.workflow.run import Succeeded
from mcp_baton.workflow.sources import as_text

_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_SCHEMALESS = (NO_ANNOTATION, None, type(None), Any)


@dataclass(frozen=True, slots=True)
class Labels:
    """What is shown of anything that is published, beside its name.

    Attributes:
        title: A name for people.
        description: What it is; the function's docstring unless given.
        icons: MCP `Icon` objects: `{"src", "mimeType"?, "sizes"?, "theme"?}`.
        annotations: Of a tool `readOnlyHint`, `destructiveHint`, `idempotentHint`, `openWorldHint`; of a resource
            `audience`, `priority`, `lastModified`.
        meta: The definition's `_meta`.
    """

    title: str | None = None
    description: str | None = None
    icons: Sequence[JsonObject] = ()
    annotations: JsonObject | None = None
    meta: JsonObject | None = None

    def of(self, function: Callable[..., object]) -> "Labels":
        """The labels with the function's own docstring for a missing description."""
        return replace(self, description=documented(function, self.description))

    def to_json(self) -> dict[str, Json]:
        """The members that they add to a definition."""
        made: dict[str, Json] = {
            "title": self.title,
            "description": self.description,
            "icons": list(self.icons),
            "annotations": self.annotations,
            "_meta": self.meta,
        }
        return {name: value for name, value in made.items() if value}


class Tool:
    """A function that clients and workflows can call.

    Args:
        function: A `def` or an `async def`.
        name: How it is called.
        labels: What is shown of it.
        input_schema: Published in the place of the one that the signature makes.
    """

    def __init__(
        self, function: Callable[..., object], name: str, labels: Labels, input_schema: JsonObject | None = None
    ) -> None:
        if not _TOOL_NAME.fullmatch(name):
            raise RegistrationError(f"tool {name!r}: a tool's name is 1 to 128 letters, digits, '_', '-' and '.'")
        self.function = function
        self.name = name
        self.labels = labels.of(function)
        self._input_schema = input_schema
        self.signature: Signature = read_signature(function, f"tool {name!r}")
        self.input = InputSchema(name, self.signature)
        returns = self.signature.returns
        schemaless = any(returns is empty for empty in _SCHEMALESS) or mentions_content(returns)
        self.output = None if schemaless else OutputSchema(name, returns)
        if input_schema is not None or any(_is_marked(item.annotation) for item in self.signature.parameters):
            _ = self.mirrored  # a mark that clients would drop the tool for is refused now

    @cached_property
    def definition(self) -> dict[str, Json]:
        """The tool as `tools/list` shows it (MCP server/tools, Tool)."""
        shown: dict[str, Json] = {"name": self.name, **self.labels.to_json(), "inputSchema": self.input_schema}
        if self.output:
            shown["outputSchema"] = self.output.json_schema
        return shown

    @property
    def input_schema(self) -> JsonObject:
        """The input schema as it is published."""
        return self.input.json_schema if self._input_schema is None else self._input_schema

    @cached_property
    def mirrored(self) -> dict[tuple[str, ...], str]:
        """The parameters that clients mirror into headers: property path to header name.

        Plain parameters cannot be marked, so that a tool with nothing else costs no schema.

        Raises:
            RegistrationError: a parameter is marked that cannot be mirrored.
        """
        if self._input_schema is None and self.input.is_plain:
            return {}
        return mirrored(self.input_schema, f"tool {self.name!r}")

    @property
    def summary(self) -> str:
        """The description's first line."""
        return (self.labels.description or "").partition("\n")[0]

    def outcome(self, returned: object) -> Succeeded:
        """What the function returned: the tool's value, and how a result shows it where that was said in full.

        Raises:
            ValueError: it is not what the function declares, or not JSON.
        """
        said = explicit_content(returned)
        if said is None:
            return Succeeded(self.output.value(returned) if self.output else to_json(returned))
        shown = {name: to_json(value) for name, value in said.to_json().items()}
        return Succeeded(shown.get("structuredContent", shown["content"]), shown)

    def result(self, outcome: Succeeded) -> dict[str, Json]:
        """A successful `CallToolResult` (MCP server/tools, Tool Result)."""
        if outcome.shown is not None:
            return dict(outcome.shown)
        value = outcome.value
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
        labels: Labels,
        mime_type: str | None,
    ) -> None:
        self.uri = uri
        self.function = function
        self.name = name
        self.labels = labels.of(function)
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
        shown |= self.labels.to_json()
        return shown | ({"mimeType": self.mime_type} if self.mime_type else {})

    def match(self, uri: str) -> dict[str, str] | None:
        """The function's arguments for a URI; `None` when it is not this resource's."""
        if self.is_template:
            return match(self.uri, uri)
        return {} if uri == self.uri else None

    def withheld(self, uri: str) -> str | None:
        """The `{name}` for which alone a URI is not this resource's: its value would be a path."""
        return withheld(self.uri, uri) if self.is_template else None


class Prompt:
    """A function that yields messages.

    Args:
        function: Returns text, content, a `Message`, or a list of those.
    """

    def __init__(self, function: Callable[..., object], name: str, labels: Labels) -> None:
        self.function = function
        self.name = name
        self.labels = labels.of(function)
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
    return [] if value is None else [{"type": "text", "text": as_text(value)}]


def definition_of_prompt(name: str, labels: Labels, arguments: Sequence[Argument]) -> dict[str, Json]:
    """A prompt as `prompts/list` shows it (MCP server/prompts, Prompt)."""
    shown: list[Json] = [_definition_of_argument(argument) for argument in arguments]
    return {"name": name, **labels.to_json(), "arguments": shown}


def _definition_of_argument(argument: Argument) -> Mapping[str, Json]:
    shown: dict[str, Json] = {"name": argument.name}
    if argument.description:
        shown["description"] = argument.description
    return shown | {"required": argument.required}


def _is_marked(annotation: Any, seen: frozenset[int] = frozenset()) -> bool:
    """Whether a type is marked for a header, or a part of it is: there the mark is a mistake, and must be seen too."""
    if id(annotation) in seen:
        return False
    fields = getattr(annotation, "model_fields", {}).values() if isinstance(annotation, type) else ()
    notes = [*getattr(annotation, "__metadata__", ()), *(note for field in fields for note in field.metadata)]
    parts = [getattr(annotation, "__origin__", None), *getattr(annotation, "__args__", ())]
    parts += [field.annotation for field in fields]
    return any(isinstance(note, Header) for note in notes) or any(
        _is_marked(part, seen | {id(annotation)}) for part in parts
    )
