"""What the definition of a step may refer to, for the checks of the kinds of steps. Pure."""

from collections.abc import Callable, Container, Iterator, Mapping
from datetime import date, time, timedelta
from typing import Any, Final

from msgspec import Struct

from mcp_baton.hints import closest
from mcp_baton.tools.labels import value_text
from mcp_baton.tools.tool import Tool
from mcp_baton.workflow.schema_paths import InvalidPath, Schema, formats_at, invalid_path, kinds_at
from mcp_baton.workflow.sources import Constant, Item, PromptArg, Source, StepOutput
from mcp_baton.workflow.steps.step import Step

MAX_PARALLEL_CALLS: Final = 100
"""The most calls that may run at the same time."""

MAX_FIELDS_NAMED: Final = 20
"""The most fields of an output that an error lists."""

_JSON_TYPES: Final[Mapping[object, str]] = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}
"""The JSON types of Python's."""


_FORMATS: Final = ((date, "date"), (time, "time"), (timedelta, "duration"))


class StepContext(Struct, frozen=True):
    """What the definition of a step may refer to.

    Attributes:
        workflow: The step's `Workflow`, whose module imports the kinds of steps.
        earlier_steps: The steps before it, by their bindings.
        workflows: The names of the server's workflows.
        output: Takes a tool and returns the JSON Schema of its value; `None` if it is not known.
    """

    workflow: Any
    earlier_steps: Mapping[str, Step]
    tools: Mapping[str, Tool]
    workflows: Container[str]
    output: Callable[[Tool], Schema | None]

    @property
    def arguments(self) -> list[str]:
        """The names of the workflow's arguments."""
        return [argument.name for argument in self.workflow.arguments]

    def kinds_of(self, source: Source) -> frozenset[str] | None:
        """The JSON types that a source's value can have; `None` if they are not known. An integer is a number."""
        kinds: set[str] | None = None
        match source:
            case Constant(value):
                kinds = {_JSON_TYPES[type(value)]} if type(value) in _JSON_TYPES else None
            case PromptArg(name):
                argument = next((candidate for candidate in self.workflow.arguments if candidate.name == name), None)
                kinds = _kinds_of_argument(argument.type) if argument else None
                if kinds and argument and not argument.required and argument.default is None:
                    kinds.add("null")
            case StepOutput(binding, path) if (step := self.earlier_steps.get(binding)) and step.tool in self.tools:
                schema = self._output_of(step)
                kinds = kinds_at(schema, path) if schema else None
        return None if kinds is None else frozenset("number" if kind == "integer" else kind for kind in kinds)

    def formats_of(self, source: Source) -> set[str | None]:
        """The formats that a source's value can have, such as `date`; `None` is any other value, or an unknown one."""
        match source:
            case PromptArg(name):
                types = [argument.type for argument in self.workflow.arguments if argument.name == name]
                return {format_name for kind, format_name in _FORMATS if kind in types} or {None}
            case StepOutput(binding, path) if (step := self.earlier_steps.get(binding)) and step.tool in self.tools:
                schema = self._output_of(step)
                return formats_at(schema, path) if schema else {None}
        return {None}

    def path_faults(self, source: StepOutput, producing: Step, item: Item | None = None) -> Iterator[str]:
        """The error for a path that the output of a step cannot have. `item` is what the author has written for it."""
        has_type = producing.has_value and producing.tool is None
        if not source.path or has_type or (producing.tool and producing.tool not in self.tools):
            return
        schema = self._output_of(producing)
        invalid = None if schema is None else invalid_path(schema, source.path)
        if invalid is not None:
            yield from _field_errors(source, producing, invalid, item)

    def _output_of(self, step: Step) -> Schema | None:
        """The JSON Schema of a step's output; `None` if it is not known."""
        if step.tool is None:
            return {"type": "null"}
        schema = self.output(self.tools[step.tool]) if step.tool in self.tools else None
        return schema if schema is None else step.output_schema(schema)


_TEXT_MODULES: Final = frozenset({"datetime", "ipaddress", "pathlib", "uuid"})
"""Modules whose types are texts in JSON."""


def _kinds_of_argument(kind: Any) -> set[str] | None:
    """The JSON types of the converted values of a simple type; `None` if they are not known."""
    if hasattr(kind, "__metadata__"):
        kind = kind.__origin__
    if not isinstance(kind, type):
        return None
    if kind.__module__ == "decimal":
        return {"decimal", "string"}  # as texts, "9" is greater than "100"
    if kind.__module__.partition(".")[0] in _TEXT_MODULES:
        return {"string"}
    return {_JSON_TYPES[kind]} if kind in _JSON_TYPES else None


def width_fault(value: object) -> str | None:
    """What is wrong with a number of parallel calls."""
    is_width = type(value) is int and 1 <= value <= MAX_PARALLEL_CALLS
    return (
        None if is_width else f"parallel={value!r} is not possible; give a whole number from 1 to {MAX_PARALLEL_CALLS}"
    )


def as_code(binding: object, path: str | None = None) -> str:
    """A reference to an output, as its author writes it."""
    name = repr(binding) if isinstance(binding, str) else value_text(binding)
    return f"step_output({name}, {path!r})" if path and isinstance(binding, str) else f"step_output({name})"


def _field_errors(source: StepOutput, producing: Step, invalid: InvalidPath, item: Item | None) -> Iterator[str]:
    written, prefix, owner = as_code(source.binding, source.path), "", "the output"
    if item is not None:
        written, prefix = f"item({item.path!r})", (source.path or "").removesuffix(item.path or "")
        owner = "an element of the output"
        if not invalid.path.startswith(prefix):
            return  # `each` has the error
    producer = f"tool {producing.tool!r}" if producing.tool else f"step {producing.name!r}, which has no tool,"
    error = f"{written}: {owner} of the {producer} has no {invalid.path.removeprefix(prefix)!r}"
    names = [name.removeprefix(prefix) for name in invalid.alternatives]
    wanted, *paths = (".".join((name, *invalid.remaining_keys)) for name in (invalid.path.removeprefix(prefix), *names))
    suggestion = closest(wanted, paths)
    fields = ", ".join((*names[:MAX_FIELDS_NAMED], *["…"][: len(names) > MAX_FIELDS_NAMED]))
    if not names:
        yield error
    else:
        yield f"{error}, only {fields}; did you mean {suggestion!r}?" if suggestion else f"{error}; it has {fields}"
