"""Checks of a workflow's steps against the schemas of their tools. A handler does not make them: a value's type is
known for certain only when the workflow runs."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from mcp_baton.hints import did_you_mean
from mcp_baton.local.mistakes import DefinitionLines, Mistake
from mcp_baton.server.server import Server
from mcp_baton.tools.arguments import TASK_ID
from mcp_baton.tools.resource import find_in
from mcp_baton.tools.secrets import strings_in
from mcp_baton.tools.templates import as_text, fill_uri, placeholders, values_in_template
from mcp_baton.tools.tool import Tool
from mcp_baton.workflow.checking import resolved
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.schema_paths import kinds_at
from mcp_baton.workflow.sources import Constant, PromptArg, Source, StepOutput
from mcp_baton.workflow.steps.list_step import ListStep
from mcp_baton.workflow.steps.step import Step

SCALARS: Final = {"number", "integer", "boolean"}
JSON_TYPES: Final[Mapping[str, tuple[str, tuple[Any, ...]]]] = {
    "string": ("a string", ("", "text")),
    "number": ("a number", (1.5,)),
    "integer": ("a whole number", (1, 0)),
    "boolean": ("true or false", (True,)),
    "array": ("a list", ([],)),
    "object": ("an object", ({},)),
    "null": ("null", (None,)),
}
"""The name of each JSON type, and values: a validator of the author may accept another type than the schema's."""


@dataclass(frozen=True)
class StepChecks:
    server: Server
    workflow: Workflow
    lines: DefinitionLines

    def errors(self) -> Iterator[Mistake]:
        """Yield the steps that are certain to fail."""
        for step, tool in self._calls:
            for name, source in _sources(step):
                problem = self._constant(tool, name, source) or self._mismatch(tool, name, source, certain=True)
                if problem is not None:
                    yield self._mistake(step, *problem)

    def suggestions(self) -> Iterator[Mistake]:
        for step in self.workflow.steps:
            yield from self._unfilled(step, [step.guidance or ""], "its guidance")
            for uri in step.resources:
                sample, resources = fill_uri(uri, dict.fromkeys(placeholders(uri), "x")), self.server.resources
                if not find_in(resources, sample) and not any(_may_be(uri, known) for known in resources):
                    remedy = did_you_mean(uri, resources).removeprefix("; ") or "publish it with @server.resource"
                    yield self._mistake(step, f"no resource has the URI {uri}", remedy)
        for step, tool in self._calls:
            for name, source in _sources(step):
                problem = self._mismatch(tool, name, source, certain=False)
                if problem is not None:
                    yield self._mistake(step, *problem)
                if isinstance(source, Constant):
                    yield from self._unfilled(step, strings_in(source.value), f"the text for {name!r}")
            yield from self._missing(step, tool)
            if self.workflow.durable and tool.has_parameter(TASK_ID):
                own = f"{tool.name!r} has its own parameter {TASK_ID!r}, so a call of a model is not recorded"
                yield self._mistake(step, own, "give the parameter another name")
        if self.workflow.durable:
            yield from self._unknown_outputs()

    @cached_property
    def _tools(self) -> dict[str, Tool | None]:
        tools = self.server.tools
        return {step.name: tools.get(step.tool or "") for step in resolved(self.workflow, tools).steps}

    @property
    def _calls(self) -> Iterator[tuple[Step, Tool]]:
        yield from ((step, tool) for step in self.workflow.steps if (tool := self._tools[step.name]) is not None)

    def _mistake(self, step: Step, problem: str, remedy: str) -> Mistake:
        label = f"workflow {self.workflow.name!r}, step {step.name!r}"
        return Mistake(f"{label}: {problem}", remedy, self.lines.site(self.workflow.name, step.name))

    def _constant(self, tool: Tool, name: str, source: Source) -> tuple[str, str] | None:
        if not isinstance(source, Constant) or placeholders(as_text(source.value)):
            return None
        problem = _problem(tool, name, source.value)
        if problem is None:
            return None
        return f"{tool.name!r} refuses {source.value!r} for {name!r}: {problem}", f"give {name!r} a value of its type"

    def _mismatch(self, tool: Tool, name: str, source: Source, *, certain: bool) -> tuple[str, str] | None:
        """Return the problem if a value is of a type that the parameter does not take.

        A text is not certain to fail for a number, because `"5"` is converted.
        """
        accepted, produced = _kinds(lambda: tool.input_schema, name), self._kinds_of(source)
        if accepted is None or produced is None or produced & accepted or (accepted & SCALARS and produced & SCALARS):
            return None
        may_convert = bool(accepted & SCALARS) and "string" in produced
        if certain == may_convert or (may_convert and isinstance(source, PromptArg)):
            return None
        if certain and any(_problem(tool, name, sample) is None for kind in produced for sample in JSON_TYPES[kind][1]):
            return None
        takes = f"{name!r} of {tool.name!r} takes {_kinds_text(accepted)}"
        problem = f"{self._source_text(source)} is {_kinds_text(produced)}, and {takes}"
        if isinstance(source, StepOutput) and self._tools[self.workflow.bound(source.binding).name] is None:
            return problem, "change the type in returns=, or that of the parameter"
        return problem, "give another field, or change one of the types"

    def _source_text(self, source: Source) -> str:
        if isinstance(source, PromptArg):
            return f"the argument {source.name!r}"
        if not isinstance(source, StepOutput):
            return "the value"
        producer = self.workflow.bound(source.binding)
        tool = self._tools[producer.name]
        output = f"the output of {tool.name!r}" if tool else f"the answer {producer.name!r}"
        return f"the field {source.path!r} of {output}" if source.path else output

    def _kinds_of(self, source: Source) -> set[str] | None:
        """Return the JSON types that a source can have; `None` if they are unknown."""
        if isinstance(source, PromptArg):
            argument = next(argument for argument in self.workflow.arguments if argument.name == source.name)
            return _kinds(lambda: _schema_of(argument.type), None) if argument.required else None
        if not isinstance(source, StepOutput):
            return None
        producer = self.workflow.bound(source.binding)
        if producer.tool is None and producer.has_value:
            return _kinds(lambda: _schema_of(producer.returns), source.path)
        tool = self._tools[producer.name]
        output = tool.output if tool else None
        return None if output is None else _kinds(lambda: producer.output_schema(output.value_schema), source.path)

    def _missing(self, step: Step, tool: Tool) -> Iterator[Mistake]:
        """Yield required parameters without a value. Guidance shows that the model is meant to fill them in."""
        required = schema_or_empty(lambda: tool.input_schema).get("required", [])
        names = [name for name in required if name not in step.arguments]
        if names and not step.guidance:
            texts, first = " and ".join(map(repr, names)), names[0]
            yield self._mistake(
                step,
                f"nothing supplies {texts} of {tool.name!r}, so the run pauses here until the model calls the tool",
                f"give {first!r} a value, or let ask_model({first!r}, '…') or ask_user({first!r}, '…') supply it; "
                "if the pause is intended, say so in guidance",
            )

    def _unfilled(self, step: Step, texts: Iterable[str], place: str) -> Iterator[Mistake]:
        """Yield the placeholders in texts that no argument fills, or one that may be left out."""
        arguments = [argument.name for argument in self.workflow.arguments]
        used = frozenset[str]().union(*map(placeholders, texts))
        for argument in self.workflow.arguments:
            if argument.name in used and not argument.required and argument.default is None:
                problem = f"{{{argument.name}}} stays in {place} as it is if the argument is left out"
                yield self._mistake(step, problem, f"give the argument {argument.name!r} a default text")
        for placeholder in sorted(used.difference(arguments)):
            match = _NAME.match(placeholder)
            name = match[0] if match else ""
            if not name or (placeholder.startswith(f"{name}:") and name not in arguments):
                continue
            hint = f"write {{{name}}}" if name in arguments else did_you_mean(placeholder, arguments).removeprefix("; ")
            is_hint = hint.startswith(("write", "did you mean"))
            remedy = hint if is_hint else "a text takes whole arguments; give results to parameters of the tool"
            yield self._mistake(step, f"no argument fills {{{placeholder}}} in {place}", remedy)

    def _unknown_outputs(self) -> Iterator[Mistake]:
        """Yield paths into outputs of unknown form: a typing error in them is found only when the workflow runs."""
        for step in self.workflow.steps:
            outputs = [source for source in step.sources if isinstance(source, StepOutput)]
            for binding, path in dict.fromkeys((output.binding, output.path) for output in outputs if output.path):
                tool = self._tools[self.workflow.bound(binding).name]
                if tool is not None and tool.output is None:
                    problem = f"the fields of the output of {tool.name!r} are not known, so {path!r} is not checked"
                    remedy = f"give {tool.name!r} a return type with fields: a dataclass, a typed dict or a model"
                    yield self._mistake(step, problem, remedy)


_ENCODED: Final = re.compile(r"(?:[\w.~%-]|\{[^{}]*\})*")
"""A value in a URI (`fill_uri`), or in its place names of a template."""


def _may_be(uri: str, known: str) -> bool:
    """Whether the URI of a step may become that of a resource. A value is percent-encoded, unless the URI begins with
    it."""
    values = values_in_template(uri, known)
    return values is not None and all(_ENCODED.fullmatch(text) for _, text in values[uri.startswith("{") :])


_NAME: Final = re.compile(r"[^\W\d]\w*(?=[.\[!]|:\S|$)")
"""What authors write in the braces of a text: a name, perhaps with a field or a format. JSON and CSS are no names."""


def _sources(step: Step) -> Iterator[tuple[str, Source]]:
    """Yield the sources of the arguments; of a list, those of its elements."""
    for name, source in step.arguments.items():
        yield from ((name, part) for part in (step.elements_of(source) if isinstance(step, ListStep) else [source]))


def _problem(tool: Tool, name: str, value: Any) -> str | None:
    try:
        return tool.input.problem_with(name, value)
    except Exception:  # noqa: BLE001 - code of the author's type runs; another mistake reports the error
        return None


def schema_or_empty(make: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    try:
        return make()
    except Exception:  # noqa: BLE001 - code of the author's type runs; another mistake reports the error
        return {}


def _schema_of(kind: Any) -> Mapping[str, Any]:
    from pydantic import TypeAdapter

    return TypeAdapter[Any](kind).json_schema()


def _kinds(make: Callable[[], Mapping[str, Any]], path: str | None) -> set[str] | None:
    """Return the JSON types at a path of a schema; `None` if they are unknown."""
    kinds = kinds_at(schema_or_empty(make), path)
    return None if kinds is None or not kinds <= JSON_TYPES.keys() else kinds


def _kinds_text(kinds: set[str]) -> str:
    return " or ".join(JSON_TYPES[kind][0] for kind in sorted(kinds))
