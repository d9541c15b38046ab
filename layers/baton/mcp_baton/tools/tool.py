"""Tools: their definitions and results, and the options `task`, `idempotent` and `task_start` (docs/background.md)."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal

from msgspec import Struct

from mcp_baton.exceptions import RegistrationError, WrongResult
from mcp_baton.hints import allowed_name, did_you_mean, source_location
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tools.approval import Approval, check_approval
from mcp_baton.tools.arguments import NAME, is_portable_name
from mcp_baton.tools.content import explicit_content, may_be_content, mentions_content
from mcp_baton.tools.labels import FLAG, TEXT, AllLabels, Labels, check_types, is_json_object
from mcp_baton.tools.outcomes import Succeeded
from mcp_baton.tools.param_headers import Header, mirrored
from mcp_baton.tools.published_schema import definition_with_task_id, published, with_null_for_numbers
from mcp_baton.tools.schema.schema import InputSchema, OutputSchema
from mcp_baton.tools.schema.sent_values import json_of
from mcp_baton.tools.schema.signature import (
    NO_ANNOTATION,
    Signature,
    by_first_name,
    return_error,
    shown_type,
    signature_of_tool,
    tool_error,
    type_without_schema,
)
from mcp_baton.tools.templates import as_text

type Support = Literal["forbidden", "optional", "required"]
type Start = Literal["call", "explicit"]

SUPPORTS: Final = ("forbidden", "optional", "required")
STARTS: Final = ("call", "explicit")


class ToolOptions(AllLabels, total=False):
    """The options of a tool, as keyword arguments."""

    name: str | None
    """The tool's name; the function's name by default."""
    input_schema: JsonObject | None
    """Published instead of the schema of the signature. Arguments are still checked against the signature."""
    requires: Sequence[str]
    """Scopes. For a caller who lacks one of them, the tool does not exist."""
    sets: Sequence[str]
    """The task variables that it sets. If one of them is missing, a handoff names the tool."""
    only_in: Sequence[str]
    """The names of workflows. The tool runs only as a step of them, when it is that step's turn (docs/tools.md, Only in
    a workflow)."""
    approval: Approval | None
    """A person must approve each call, or each for which `approval.when` returns true (docs/approvals.md)."""
    task: Support
    """Whether a call may run as a background task: `forbidden` (the default); `optional`, if the client supports tasks;
    or `required`, so that other clients cannot call the tool."""
    idempotent: bool
    """Set it to `False` if the tool must not be retried after an unknown outcome: the task then fails if its worker
    dies. Otherwise the tool is tried up to three times, with the same `ctx.idempotency_key`."""
    task_start: Start
    """`explicit`: the function starts within the request, and calls `ctx.start_task()` to continue in the background.
    `call` (the default): it starts in the background."""


class TaskSupport(Struct, frozen=True):
    """How a tool may run as a task: see `ToolOptions`."""

    support: str = "forbidden"
    idempotent: bool = True
    explicit: bool = False

    @property
    def execution(self) -> dict[str, Json]:
        """`execution` in the tool's definition (MCP 2025-11-25, server/tools, Tool)."""
        return {"taskSupport": self.support}


NEVER_A_TASK = TaskSupport()


def task_support(options: dict[str, Any], subject: str) -> TaskSupport:
    """Read the options about tasks, and remove them from a tool's options. The labels remain."""
    support = options.pop("task", "forbidden")
    start = options.pop("task_start", "call")
    idempotent = options.pop("idempotent", True)
    for name, value, choices in (("task", support, SUPPORTS), ("task_start", start, STARTS)):
        if value not in choices:
            raise RegistrationError(f"{subject}: {name}={value!r} is not possible{did_you_mean(value, choices)}")
    check_types({"idempotent": idempotent}, {"idempotent": FLAG}, f"{subject}: ")
    if support == "forbidden" and (start != "call" or not idempotent):
        option = "task_start" if start != "call" else "idempotent"
        cause = f"{option} has no effect unless the tool may run as a task"
        raise RegistrationError(f"{subject}: {cause}; add task='optional' or task='required'")
    return TaskSupport(support, idempotent, start == "explicit")


_SCHEMALESS = (NO_ANNOTATION, None, type(None), Any)


def _check_input_schema(schema: object, tool: str) -> None:
    is_object = isinstance(schema, Mapping) and schema.get("type") in ("object", None)
    if schema is not None and not (is_object and is_json_object(schema)):
        remedy = "give a JSON Schema such as {'type': 'object', 'properties': {…}}"
        raise RegistrationError(f"tool {tool!r}: input_schema={schema!r} is not possible; {remedy}")


class Tool:
    """A tool. A call runs `function`, which the testing kit may replace. A workflow's step may refer to the tool by
    `decorated`, the author's function."""

    def __init__(
        self,
        function: Callable[..., object],
        name: str,
        labels: Labels,
        input_schema: JsonObject | None = None,
        requires: frozenset[str] = frozenset(),
        sets: tuple[str, ...] = (),
        tasks: TaskSupport = NEVER_A_TASK,
        only_in: tuple[str, ...] = (),
        approval: Approval | None = None,
    ) -> None:
        check_types({"name": name}, {"name": TEXT}, f"tool {name!r}: ")
        if not is_portable_name(name):
            remedy = f"give it another, as in name={allowed_name(name)!r}"
            raise RegistrationError(f"tool {name!r}: a tool's name is {NAME}; {remedy}")
        self.function = function
        self.decorated = function
        self.name = name
        self.requires = requires
        self.sets = sets
        self.tasks = tasks
        self.only_in = only_in
        self.approval = approval
        self.labels = labels.for_function(function)
        _check_input_schema(input_schema, name)
        self._input_schema = input_schema
        self.signature: Signature = signature_of_tool(function, f"tool {name!r}")
        for parameter in self.signature.names:
            if not is_portable_name(parameter):
                raise RegistrationError(f"tool {name!r}: the parameter {parameter!r}: a parameter's name is {NAME}")
        self.input = InputSchema(name, self.signature)
        if approval is not None:
            check_approval(approval, f"tool {name!r}", self.signature)
            if tasks.explicit:
                cause = "a tool with an approval cannot have task_start='explicit'; leave it out"
                raise RegistrationError(f"tool {name!r}: {cause}")
        returns = self.signature.returns
        has_no_schema = any(returns is empty for empty in _SCHEMALESS) or mentions_content(returns)
        self.output = None if has_no_schema else OutputSchema(name, returns)
        # Clients refuse a result without structured content if the tool has an output schema.
        self.publishes_output = self.output is not None and not may_be_content(returns)
        unknown = None if has_no_schema else type_without_schema(returns)
        if unknown is not None:
            raise return_error(f"tool {name!r}", unknown)
        if input_schema is not None or any(_is_marked(item.annotation) for item in self.signature.parameters):
            _ = self.mirrored  # report invalid marks now, because clients would drop the tool

    def renamed(self, prefix: str) -> "Tool":
        """Return the same tool with a prefix before its name and before the workflows in `only_in`."""
        only_in = tuple(prefix + name for name in self.only_in)
        name, options = prefix + self.name, (self.requires, self.sets, self.tasks, only_in, self.approval)
        return Tool(self.function, name, self.labels, self._input_schema, *options)

    @cached_property
    def definition(self) -> dict[str, Json]:
        """The tool as `tools/list` shows it (MCP server/tools, Tool)."""
        try:
            members: dict[str, Json] = {
                "name": self.name,
                **self.labels.to_json(),
                "inputSchema": self.published_schema,
            }
            if guards := list(self._guards()):
                descriptions = [members["description"]] if members.get("description") else []
                members["description"] = "\n\n".join(map(str, [*descriptions, " ".join(guards)]))
            if self.output and self.publishes_output:
                members["outputSchema"] = with_null_for_numbers(self.output.json_schema)
        except Exception as error:  # code of the author's type may raise anything
            has_output = self.output is not None
            raise tool_error(f"tool {self.name!r}", self.signature, error, has_output=has_output) from error
        return members

    def _guards(self) -> Iterator[str]:
        """Yield the sentences of the description that say when the tool runs."""
        if self.only_in:
            yield f"Runs only as a step of {' or '.join(self.only_in)}."
        if self.approval:
            calls = "Each call" if self.approval.when is None else "A call, depending on its arguments,"
            yield f"{calls} needs the approval of a person of the group {self.approval.audience}."

    @cached_property
    def definition_with_task_id(self) -> JsonObject:
        return definition_with_task_id(self.definition)

    def has_parameter(self, name: str) -> bool:
        properties = self._input_schema.get("properties") if self._input_schema else None
        return name in self.signature.names or (isinstance(properties, Mapping) and name in properties)

    @property
    def input_schema(self) -> JsonObject:
        return self.input.json_schema if self._input_schema is None else self._input_schema

    @property
    def published_schema(self) -> JsonObject:
        """The input schema for clients. An author's own schema is published as it is."""
        return published(self.input.json_schema) if self._input_schema is None else self._input_schema

    @cached_property
    def mirrored(self) -> dict[tuple[str, ...], str]:
        """The parameters that clients copy into headers: property path to header name."""
        if self._input_schema is None and self.input.is_plain:
            return {}
        return mirrored(self.input_schema, f"tool {self.name!r}")

    def by_published_name[T](self, arguments: Mapping[str, T]) -> Mapping[str, T]:
        """Return the arguments of a step, which may have the names of the function's parameters, by the names for
        callers; the same object if nothing changes."""
        known = self.signature.names
        return by_first_name(
            arguments,
            ((item.published_name, *({item.name, *item.accepted_names} - known)) for item in self.signature.parameters),
        )

    def canonical(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments converted to their types, without those that equal their defaults."""
        return self.input.canonical(arguments)

    @cached_property
    def summary(self) -> str:
        return (self.labels.description or "").partition("\n")[0]

    def outcome(self, return_value: object) -> Succeeded:
        """Return the outcome of a call: the tool's value and, if the function returned content, the whole result."""
        content = explicit_content(return_value)
        output = self.output if content is None else None
        try:
            if content is None:
                return Succeeded(output.value(return_value) if output else json_of(return_value))
            result = {name: json_of(value) for name, value in content.to_json().items()}
        except ValueError as error:
            declared_type = self.signature.returns if output else None
            result_error = wrong_result(self.name, self.decorated, declared_type, return_value, error)
            raise result_error from result_error.__cause__
        if not isinstance(result.get("structuredContent", {}), Mapping):
            raise WrongResult(
                f"{_returned(self.name, self.decorated)} structured content that is not an object; return "
                "ToolResult(structured={…}), or the value itself"
            )
        if self.publishes_output and content.structured is None:
            declared_type = shown_type(self.signature.returns)
            raise WrongResult(
                f"{_returned(self.name, self.decorated)} content without structured content, but it declares "
                f"{declared_type}, whose schema is published; return ToolResult(structured=…), or declare ToolResult"
            )
        return Succeeded(result.get("structuredContent", result["content"]), result)

    def result(self, outcome: Succeeded) -> dict[str, Json]:
        value = outcome.value
        if outcome.shown is not None:
            structured = outcome.shown.get("structuredContent")
            return {**outcome.shown, "content": outcome.shown["content"] or _text(structured, NO_VALUE_TEXT)}
        result: dict[str, Json] = {"content": _text(value, "null" if self.output else NO_VALUE_TEXT)}
        if self.output:
            result["structuredContent"] = {"result": value} if self.output.wraps else value
        return result


NO_VALUE_TEXT: Final = "Done."
"""The text of a result without a value. Some frameworks take a result without content for a failure."""


def _text(value: Json, otherwise: str) -> list[Json]:
    return [{"type": "text", "text": otherwise if value is None else as_text(value)}]


def _is_marked(annotation: Any, visited: frozenset[int] = frozenset()) -> bool:
    """Whether a type, or a part of it, is marked for a header. A mark in a part is an error that must be reported."""
    if id(annotation) in visited:
        return False
    fields = getattr(annotation, "model_fields", {}).values() if isinstance(annotation, type) else ()
    notes = [*getattr(annotation, "__metadata__", ()), *(note for field in fields for note in field.metadata)]
    parts = [getattr(annotation, "__origin__", None), *getattr(annotation, "__args__", ())]
    parts += [field.annotation for field in fields]
    return any(isinstance(note, Header) for note in notes) or any(
        _is_marked(part, visited | {id(annotation)}) for part in parts
    )


def wrong_result(
    name: str, function: Callable[..., object], declared_type: Any, value: object, error: ValueError
) -> WrongResult:
    """Return the error for an invalid return value. It names the tool's line and the value's type, but not the
    value."""
    subject = _returned(name, function)
    if inspect.iscoroutine(value):
        value.close()
        return WrongResult(f"{subject} a coroutine: write async def, and await what it calls")
    if isinstance(value, BaseException):
        return WrongResult(f"{subject} an exception; raise it")
    if "utf-8" in str(error):
        remedy = "return Image, Audio or EmbeddedResource for binary data, or text in base64"
        return WrongResult(f"{subject} bytes that are not text in UTF-8; {remedy}")
    value_text = "None" if value is None else f"a value of the type {type(value).__qualname__}"
    if declared_type is None or isinstance(error.__cause__, TypeError):
        remedy = "return texts, numbers, booleans, None, lists, dicts, dataclasses or models"
        return _with_cause(WrongResult(f"{subject} {value_text}: {error}; {remedy}"), error)
    type_name = shown_type(declared_type)
    remedy = f"return one, or declare -> {type_name} | None" if value is None else "return one, or declare another type"
    return _with_cause(WrongResult(f"{subject} {value_text}, but it declares {type_name}: {error}; {remedy}"), error)


def _returned(name: str, function: Callable[..., object]) -> str:
    location = source_location(function)
    return f"the tool {name!r}{f' ({location})' if location else ''} returned"


def _with_cause(result_error: WrongResult, error: ValueError) -> WrongResult:
    """Set the exception of the author's code, if there is one, as the cause of the error."""
    cause = error.__cause__
    if cause is not None and not isinstance(cause, TypeError) and not type(cause).__module__.startswith("pydantic"):
        result_error.__cause__ = cause
    return result_error
