"""A function published as a tool, and its results (MCP server/tools)."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from mcp_baton.exceptions import RegistrationError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.content import CONTENT_TYPES, ToolResult
from mcp_baton.server.published.labels import Labels
from mcp_baton.server.published.param_headers import Header, mirrored
from mcp_baton.server.published.task_support import NO_TASK, TaskSupport
from mcp_baton.server.schema.functions import NO_ANNOTATION
from mcp_baton.server.schema.plain_types import to_json
from mcp_baton.server.schema.schema import InputSchema, OutputSchema
from mcp_baton.server.schema.signature import Signature, read_signature, undescribable
from mcp_baton.workflow.host import Succeeded
from mcp_baton.workflow.names import NAME, hosts_take
from mcp_baton.workflow.sources import as_text

_SCHEMALESS = (NO_ANNOTATION, None, type(None), Any)


class Tool:
    """A function that clients and workflows can call.

    Args:
        function: A `def` or an `async def`.
        name: How it is called.
        labels: What is shown of it.
        input_schema: Published in the place of the one that the signature makes.
        requires: The scopes that a caller must have.
        sets: The task variables that it sets.
        tasks: How it may run as a task of its own.

    Attributes:
        function: What is called. A test may put another in its place.
        decorated: What was published, by which a workflow's step may refer to the tool.
    """

    def __init__(
        self,
        function: Callable[..., object],
        name: str,
        labels: Labels,
        input_schema: JsonObject | None = None,
        requires: frozenset[str] = frozenset(),
        sets: tuple[str, ...] = (),
        tasks: TaskSupport = NO_TASK,
    ) -> None:
        if not hosts_take(name):
            from mcp_baton.hints import allowed_name

            remedy = f"give it another, as in name={allowed_name(name)!r}"
            raise RegistrationError(f"tool {name!r}: a tool's name is {NAME}; {remedy}")
        self.function = function
        self.decorated = function
        self.name = name
        self.requires = requires
        self.sets = sets
        self.tasks = tasks
        self.labels = labels.of(function)
        self._input_schema = input_schema
        self.signature: Signature = read_signature(function, f"tool {name!r}")
        _check_parameters(self.signature, name)
        self.input = InputSchema(name, self.signature)
        returns = self.signature.returns
        schemaless = any(returns is empty for empty in _SCHEMALESS) or mentions_content(returns)
        self.output = None if schemaless else OutputSchema(name, returns)
        unknown = None if schemaless else undescribable(returns)
        if unknown is not None:
            from mcp_baton.server.schema.undescribed import return_error

            raise return_error(f"tool {name!r}", unknown)
        if input_schema is not None or any(_is_marked(item.annotation) for item in self.signature.parameters):
            _ = self.mirrored  # a mark that clients would drop the tool for is refused now

    def renamed(self, name: str) -> "Tool":
        """The same tool under another name.

        Raises:
            RegistrationError: it is not one that MCP allows.
        """
        return Tool(self.function, name, self.labels, self._input_schema, self.requires, self.sets, self.tasks)

    @cached_property
    def definition(self) -> dict[str, Json]:
        """The tool as `tools/list` shows it (MCP server/tools, Tool).

        Raises:
            RegistrationError: one of its types has no schema; names the parameter, or the return type.
        """
        try:
            shown: dict[str, Json] = {"name": self.name, **self.labels.to_json(), "inputSchema": self.input_schema}
            if self.output:
                shown["outputSchema"] = self.output.json_schema
        except Exception as error:  # a type of the author's brings code along, which may raise anything
            from mcp_baton.server.schema.describing import tool_error

            raise tool_error(
                f"tool {self.name!r}", self.signature, error, has_output=self.output is not None
            ) from error
        return shown

    @cached_property
    def definition_with_handle(self) -> JsonObject:
        """The same for a tool whose calls may name their task by an argument."""
        from mcp_baton.server.published.task_argument import definition_with_handle

        return definition_with_handle(self.definition)

    def has_parameter(self, name: str) -> bool:
        """Whether callers know a parameter of this name."""
        published = self._input_schema.get("properties") if self._input_schema else None
        return name in self.signature.names or (isinstance(published, Mapping) and name in published)

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

    def canonical(self, arguments: JsonObject) -> JsonObject:
        """Arguments as the function takes them, as JSON, without those that equal their defaults."""
        from mcp_baton.server.schema.canonical import canonical_arguments

        return canonical_arguments(self.input, self.signature, arguments)

    @cached_property
    def summary(self) -> str:
        """The description's first line."""
        return (self.labels.description or "").partition("\n")[0]

    def outcome(self, returned: object) -> Succeeded:
        """What the function returned: the tool's value, and how a result shows it where that was said in full.

        Raises:
            WrongResult: it is not what the function declares, or not JSON; names the function's line.
        """
        said = explicit_content(returned)
        if said is None:
            try:
                return Succeeded(self.output.value(returned) if self.output else to_json(returned))
            except ValueError as error:
                from mcp_baton.server.published.wrong_result import wrong_result

                wrong = wrong_result(
                    self.name, self.decorated, self.signature.returns if self.output else None, returned, error
                )
                raise wrong from wrong.__cause__
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


def _check_parameters(signature: Signature, tool: str) -> None:
    for parameter in signature.parameters:
        name = parameter.published
        if not hosts_take(name):
            raise RegistrationError(f"tool {tool!r}: the parameter {name!r}: a parameter's name is {NAME}")


def explicit_content(returned: object) -> ToolResult | None:
    """What a tool returned, when it is content, or a list with content in it; `None` for an ordinary value."""
    if isinstance(returned, ToolResult):
        return returned
    if isinstance(returned, CONTENT_TYPES):
        return ToolResult([returned])
    if isinstance(returned, list | tuple) and any(isinstance(item, CONTENT_TYPES) for item in returned):
        return ToolResult([item if isinstance(item, CONTENT_TYPES) else as_text(item) for item in returned])
    return None


def mentions_content(annotation: object) -> bool:
    """Whether a return type speaks of content, which has no output schema."""
    if annotation in (*CONTENT_TYPES, ToolResult):
        return True
    return any(mentions_content(part) for part in getattr(annotation, "__args__", ()))


def content_of(value: Json) -> list[Json]:
    """A value as MCP content: text as it is, nothing for nothing, everything else as JSON text."""
    return [] if value is None else [{"type": "text", "text": as_text(value)}]


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
