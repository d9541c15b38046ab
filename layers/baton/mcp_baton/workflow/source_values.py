"""The values of data sources and conditions, from the known values of a workflow. Pure, but it may read task variables
from the store."""

import logging
from collections.abc import Callable, Mapping, Set
from typing import Final, Self

from msgspec import Struct, field, structs

from mcp_baton.exceptions import StoreUnavailable, ValueLost
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import RESULT_PREFIX, StepStatus
from mcp_baton.tools.quoting import MAX_QUOTED_CHARS, is_long
from mcp_baton.tools.secrets import NO_SECRETS, Secrets, secret_placeholder, shown_texts
from mcp_baton.tools.templates import copy_json, fill_json
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.json_values import compare, lookup, missing_field_text
from mcp_baton.workflow.list_elements import ListElements
from mcp_baton.workflow.secrets import contains_argument, hidden_argument
from mcp_baton.workflow.sources import (
    Condition,
    Constant,
    FirstOf,
    Item,
    PromptArg,
    Source,
    StepOutput,
    TaskVariable,
    source_text,
)
from mcp_baton.workflow.steps.step import Step

logger = logging.getLogger(__name__)

LONG_VALUE_TEXT_BYTES: Final = 2_000
"""A stored value of more bytes is longer than `quoting.MAX_QUOTED_CHARS` characters, so it is not shown."""

MAX_FIELD_READ_BYTES: Final = 100_000
"""A stored value of more bytes is not read to show one field of it."""


class Missing(Struct, frozen=True):
    """A source that has no value.

    Attributes:
        source: The source; of a `FirstOf`, the one that may get a value later.
        producer: The step that has no output (yet), if that is why.
        may_come: Whether it may get a value later, or has one that cannot be read now.
    """

    source: Source
    producer: Step | None = None
    may_come: bool = False

    @property
    def is_left_out(self) -> bool:
        """Whether it is an argument of the workflow that the client has left out."""
        return isinstance(self.source, PromptArg)


NO_ELEMENT: Final = Missing(Item())
"""Stands for the current element outside a list."""


class SourceValues(Struct, frozen=True):
    """The known values of a workflow, from which data sources and conditions get their values.

    Attributes:
        outputs: The values of completed steps, by step name. A value that is not available is missing.
        lost_results: Why the stored result of a completed step is not available, by step name. The run that made the
            result still has it in `outputs`.
        outside: The bytes that reading a task variable must fetch; 0 for one inside the item.
        items: The items of the run's steps with `each` that have started, by step name.
        item: The current element of the list of a step with `each`; `NO_ELEMENT` outside a list.
    """

    workflow: Workflow
    texts: Mapping[str, str]
    arguments: Mapping[str, Json]
    statuses: Mapping[str, StepStatus]
    outputs: Mapping[str, Json]
    variables: Mapping[str, Json]
    secrets: Secrets = NO_SECRETS
    answers: Mapping[str, JsonObject] = field(default_factory=dict)
    lost_results: Mapping[str, str] = field(default_factory=dict)
    outside: Callable[[str], int] = lambda _: 0
    items: Mapping[str, ListElements] = field(default_factory=dict)
    item: Json | Missing = NO_ELEMENT

    # Sources

    def resolve(self, source: Source) -> Json | Missing:
        """Resolve a data source. The value shares no container with the known values."""
        # `match` with a class's attributes takes four times as long, and this runs for each argument of each step.
        if isinstance(source, PromptArg):
            return _copied(self.arguments[source.name]) if source.name in self.arguments else Missing(source)
        if isinstance(source, Constant):
            value = source.value
            return value if type(value) in _PLAIN else fill_json(value, self.texts)
        if isinstance(source, StepOutput):
            return self._output(source, self.workflow.bound(source.binding))
        if isinstance(source, FirstOf):
            for part in source.sources:
                found = self.resolve(part)
                if self._exists(part, found) or (isinstance(found, Missing) and found.may_come):
                    return found
            is_null = any(isinstance(part, Constant) for part in source.sources)
            return None if is_null else Missing(source)
        if isinstance(source, Item):
            return Missing(source) if isinstance(self.item, Missing) else _field(self.item, source)
        return self._variable(source)

    def _exists(self, source: Source, value: Json | Missing) -> bool:
        """Whether a source has a value. An argument that is null counts as left out: models often send null. So does a
        constant, which a workflow function gets as an argument from another one."""
        if value is None and isinstance(source, FirstOf):
            return any(self._exists(part, self.resolve(part)) for part in source.sources)
        return not isinstance(value, Missing) and not (value is None and isinstance(source, PromptArg | Constant))

    def _output(self, source: StepOutput, step: Step) -> Json | Missing:
        if self.statuses[step.name] is not StepStatus.COMPLETED or step.name not in self.outputs:
            return Missing(source, step, self.statuses[step.name] is not StepStatus.SKIPPED)
        return _field(self.outputs[step.name], source)

    def _variable(self, source: TaskVariable) -> Json | Missing:
        if source.name not in self.variables:
            return Missing(source, may_come=self.outside(source.name) > 0)
        try:
            value = self.variables[source.name]
        except (StoreUnavailable, ValueLost) as error:
            logger.exception("the task variable %r cannot be read", source.name)
            return Missing(source, may_come=isinstance(error, StoreUnavailable))
        return _field(value, source)

    def stored_name(self, source: StepOutput | TaskVariable) -> str:
        """The task variable that a source reads."""
        if isinstance(source, TaskVariable):
            return source.name
        return f"{RESULT_PREFIX}{self.workflow.bound(source.binding).name}"

    def stored_bytes(self, source: Source) -> int:
        """The bytes outside the task's item that must be read to resolve a source."""
        if isinstance(source, StepOutput):
            status = self.statuses[self.workflow.bound(source.binding).name]
            return self.outside(self.stored_name(source)) if status is StepStatus.COMPLETED else 0
        return self.outside(source.name) if isinstance(source, TaskVariable) else 0

    def is_lost(self, source: Source) -> bool:
        """Whether later calls cannot get a value that this run has in memory."""
        return isinstance(source, StepOutput) and self.workflow.bound(source.binding).name in self.lost_results

    def after(self, step: Step, value: Json) -> Self:
        """The known values when a step has this result."""
        statuses, outputs = {**self.statuses, step.name: StepStatus.COMPLETED}, {**self.outputs, step.name: value}
        return structs.replace(self, statuses=statuses, outputs=outputs)

    def at(self, element: Json) -> Self:
        """The known values, with this element as the current one."""
        return structs.replace(self, item=element)

    # Values as texts

    @property
    def shown_texts(self) -> Mapping[str, str]:
        """The prompt arguments as texts, without secrets."""
        return shown_texts(self.texts, self.secrets) if self.secrets.names else self.texts

    def shown_value(self, value: Json, source: Source | None) -> Json:
        """An argument's value without secrets."""
        return hidden_argument(value, source, self.secrets, self.shown_texts) if self.secrets.names else value

    def placeholder(self, source: Source) -> str | None:
        """The placeholder of a source's value; a constant has none."""
        match source:
            case PromptArg(name):
                return f"<prompt arg {name}>"
            case StepOutput(binding, path):
                producer = self._producer(self.workflow.bound(binding))
                return f"<output from {producer}>" if path is None else f"<field '{path}' from {producer}>"
            case TaskVariable(name, path):
                setters = " or ".join(self.workflow.setters.get(name, ()))
                variable = f"task variable {name}{f' (set by {setters})' if setters else ''}"
                return f"<{variable}>" if path is None else f"<field '{path}' from {variable}>"
            case FirstOf(sources):
                return next(filter(None, map(self.placeholder, sources)), None)
            case Item(path):
                return "<element>" if path is None else f"<field '{path}' from element>"
            case _:
                return None

    def _producer(self, step: Step) -> str:
        """The tool that makes the value, with its step if several steps use the tool."""
        if step.tool is None:
            return step.name
        is_only_step = sum(candidate.tool == step.tool for candidate in self.workflow.steps) == 1
        return step.tool if is_only_step else f"{step.tool} (step '{step.name}')"

    def shows_placeholder(self, source: Source) -> bool:
        """Whether a source's value is too long to be read for display: its placeholder is shown."""
        is_field = isinstance(source, StepOutput | TaskVariable) and source.path is not None
        return self.stored_bytes(source) > (MAX_FIELD_READ_BYTES if is_field else LONG_VALUE_TEXT_BYTES)

    def shortened(self, value: Json, source: Source | None, limit: int = MAX_QUOTED_CHARS) -> Json:
        """A value, or its placeholder if it is long and has one."""
        if source is None or isinstance(source, Item) or not is_long(value, limit):
            return value
        return self.placeholder(source) or value

    # Conditions

    def evaluate(self, condition: Condition) -> bool | tuple[Source, Missing | str]:
        """Whether a condition holds; or the source without a usable value, and the reason.

        `and` and `or` do not evaluate their second operand if the first one decides.
        """
        match condition.operator, condition.operands:
            case "and" | "or" as word, (left, right):
                left_result = self.evaluate(left)
                return self.evaluate(right) if left_result is (word == "and") else left_result
            case "not", (inner,):
                inner_result = self.evaluate(inner)
                return not inner_result if isinstance(inner_result, bool) else inner_result
            case "exists", (source,):
                value = self.resolve(source)
                return (source, value) if isinstance(value, Missing) and value.may_come else self._exists(source, value)
            case word, operands:
                values: list[Json] = []
                for source in operands:
                    if contains_argument(source, self._unknown_secrets):
                        return source, Missing(source, may_come=True)
                    value = self.resolve(source)
                    if isinstance(value, Missing):
                        if not value.is_left_out:
                            return source, value
                        value = None  # an optional argument that was left out equals null
                    values.append(value)
                holds = compare(word, *values)
                return holds if isinstance(holds, bool) else (operands[0], holds)

    @property
    def _unknown_secrets(self) -> Set[str]:
        """The secret arguments that have placeholders instead of values, as those of a stored task."""
        return {name for name in self.secrets.names if self.arguments.get(name) == secret_placeholder(name)}

    def why_missing(self, missing: Missing) -> str:
        """Where a value was expected, and what is there. It quotes no values."""
        match missing.source:
            case FirstOf(sources):
                return f"none of these has a value: {', '.join(map(source_text, sources))}"
            case Item(path):
                return f"the element has no '{path}'"
            case StepOutput(binding, path) if path:
                step = self.workflow.bound(binding).name
                return f"'{path}' is not in the output of step '{step}': {missing_field_text(self.outputs[step], path)}"
            case TaskVariable(name) if name not in self.variables:
                return f"the task variable '{name}' is not set"
            case TaskVariable(name, None):
                return f"the value of the task variable '{name}' was lost or cannot be read"
            case TaskVariable(name, path):
                return f"the task variable '{name}' has no '{path}', or its value was lost"
        return ""


_PLAIN = frozenset({bool, float, int, type(None)})


def _field(value: Json, source: StepOutput | TaskVariable | Item) -> Json | Missing:
    try:
        return _copied(lookup(value, source.path))
    except KeyError:
        return Missing(source)


def _copied(value: Json) -> Json:
    return value if type(value) in _PLAIN else copy_json(value)
