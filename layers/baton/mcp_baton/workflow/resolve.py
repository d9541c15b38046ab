"""Resolves the arguments of steps from the known values of a workflow, or returns why a step cannot run. Pure, but it
may read task variables from the store."""

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Self

from msgspec import Struct, field, structs

from mcp_baton.exceptions import StoreError, StoreUnavailable, ValueLost
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import RESULT_PREFIX, WAIT_PREFIX, StepStatus, is_early
from mcp_baton.tools.outcomes import InvalidField, Mismatch, Prepared
from mcp_baton.tools.quoting import MAX_QUOTED_CHARS, is_long, one_line
from mcp_baton.tools.secrets import NO_SECRETS, Secrets, secrets_of, shown_texts
from mcp_baton.tools.templates import as_text, copy_json, fill, fill_json, fill_uri, placeholders
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.host import Host
from mcp_baton.workflow.json_values import compare, lookup, missing_field_text
from mcp_baton.workflow.list_elements import ListElements, list_of, stored_items
from mcp_baton.workflow.pause import (
    AnswersRequired,
    OpenQuestion,
    PauseReason,
    SchemaMismatch,
    UnresolvableParams,
    UnresolvedDependency,
)
from mcp_baton.workflow.secrets import hidden_argument
from mcp_baton.workflow.sources import (
    Condition,
    Constant,
    FirstOf,
    Item,
    PromptArg,
    Source,
    StepOutput,
    TaskVariable,
    parts_of,
    source_text,
)
from mcp_baton.workflow.steps.list_step import ListStep
from mcp_baton.workflow.steps.question import Question
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.steps.tool_step import ToolStep
from mcp_baton.workflow.steps.wait import Wait
from mcp_baton.workflow.times import time_of

logger = logging.getLogger(__name__)

MAX_VALUE_SHOWN_CHARS: Final = 100
"""Characters of an invalid value that are shown."""

LEFT_OUT: Final = "(not given)"
"""Shown in a question in place of an argument of the workflow that was left out."""

LONG_VALUE_TEXT_BYTES: Final = 2_000
"""A stored value of more bytes is longer than `quoting.MAX_QUOTED_CHARS` characters, so it is not shown."""

MAX_FIELD_READ_BYTES: Final = 100_000
"""A stored value of more bytes is not read to show one field of it."""


NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


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
"""The current element where there is none."""


def _exists(source: Source, value: Json | Missing) -> bool:
    """Whether a source has a value. An argument that is null counts as left out: models often send null."""
    return not isinstance(value, Missing) and not (isinstance(source, PromptArg) and value is None)


class KnownValues(Struct, frozen=True):
    """The known values of a workflow, from which data sources are resolved.

    Attributes:
        outputs: The values of completed steps, by step name. A value that is not available is missing.
        lost_results: Why the stored result of a completed step is not available, by step name. The run that made the
            result still has it in `outputs`.
        outside: The bytes that reading a task variable must fetch; 0 for one inside the item.
        items: The items of the run's steps with `each` that have started, by step name.
        item: The current element of the list of a step with `each`; `NO_ELEMENT` if there is none.
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

    @classmethod
    def before_run(
        cls,
        workflow: Workflow,
        texts: Mapping[str, str] = NOTHING,
        arguments: Mapping[str, Json] = NOTHING,
        answers: Mapping[str, JsonObject] = NOTHING,
    ) -> Self:
        """What is known before a run: how the workflow is invoked."""
        statuses = dict.fromkeys((step.name for step in workflow.steps), StepStatus.PENDING)
        secrets = secrets_of(workflow.secrets, texts, arguments)
        return cls(workflow, texts, arguments, statuses, {}, {}, secrets, answers)

    @property
    def open_steps(self) -> list[Step]:
        """The steps that are not settled, in order, without those whose conditions are false."""
        unsettled_steps = (step for step in self.workflow.steps if not self.statuses[step.name].settled)
        return [step for step in unsettled_steps if self.decide_condition(step) is not False]

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
                if _exists(part, found) or (isinstance(found, Missing) and found.may_come):
                    return found
            return Missing(source)
        if isinstance(source, Item):
            return Missing(source) if isinstance(self.item, Missing) else _field(self.item, source)
        return self._variable(source)

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

    # Lists

    def items_of(self, step: Step) -> ListElements | None:
        """The items of a step with `each`: those of this run, or the stored ones, or new ones if its list is known."""
        if not isinstance(step, ListStep):
            return None
        if step.name in self.items:
            return self.items[step.name]
        try:
            items = stored_items(self.variables, step.name)
        except StoreError:
            logger.exception("the items of the step %r cannot be read", step.name)
            return None
        if items is not None:
            return items
        value = self.resolve(step.each)
        elements = "" if isinstance(value, Missing) else list_of(value)
        return None if isinstance(elements, str) else ListElements(elements, {})

    def decide_items(self, step: ListStep) -> ListElements | PauseReason | str:
        """The items with which a list starts; or why it cannot start, or fails (a text).

        The elements of an earlier run stay, even if the list is another one now.
        """
        items = self._items_or_reason(step)
        if isinstance(items, ListElements) and not items.open:
            return items  # no call needs the arguments
        shared_sources = {
            name: source
            for name, source in step.arguments.items()
            if not any(isinstance(part, Item) for part in parts_of(source))
        }
        shared_arguments = self._resolve_all(shared_sources, step)
        return items if isinstance(shared_arguments, dict) else shared_arguments

    def _items_or_reason(self, step: ListStep) -> ListElements | PauseReason | str:
        try:
            items = stored_items(self.variables, step.name, with_results=True)
        except ValueLost as lost:
            # The calls were made. To make them again could repeat their effects.
            return f"each: the results of earlier calls are lost: {lost}"
        if items is not None:
            return items
        resolved_list = self._resolve_all({"each": step.each}, step)
        if not isinstance(resolved_list, dict):
            return resolved_list
        elements = list_of(resolved_list.get("each"))
        return elements if isinstance(elements, str) else ListElements(elements, {})

    # Waits

    def waits(self) -> dict[str, int]:
        """When the waits that have started end at the latest, epoch milliseconds, by step."""
        names = (step.name for step in self.open_steps if isinstance(step, Wait) or step.retry is not None)
        values = {name: self.variables.get(f"{WAIT_PREFIX}{name}") for name in names}
        return {name: until for name, until in values.items() if isinstance(until, int)}

    def decide_wait(self, step: Wait, now_ms: int) -> int | PauseReason | str:
        """When a wait ends, epoch milliseconds; or why it cannot begin, or fails (a text). A stored time stays."""
        until_ms = self.variables.get(f"{WAIT_PREFIX}{step.name}")
        if isinstance(until_ms, int):
            return until_ms
        if step.time_source is None:
            return now_ms + step.longest_wait_ms
        resolved = self._resolve_all({"sleep": step.time_source}, step)
        return time_of(resolved.get("sleep")) if isinstance(resolved, dict) else resolved

    def after(self, step: Step, value: Json) -> "KnownValues":
        """The known values when a step has this result."""
        statuses, outputs = {**self.statuses, step.name: StepStatus.COMPLETED}, {**self.outputs, step.name: value}
        return structs.replace(self, statuses=statuses, outputs=outputs)

    def at(self, element: Json) -> "KnownValues":
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

    def question_text(self, step: Step) -> str | None:
        """The question of a step, with its values; `None` if a value is not known yet. Secrets are hidden."""
        if not isinstance(step, Question):
            return None
        bindings = step.template_bindings
        values = self._resolve_all(bindings, step)
        if not isinstance(values, dict):
            return None
        texts = {
            name: as_text(self.shown_value(value, bindings[name]))
            for name, value in values.items()
            if value is not None or not isinstance(bindings[name], PromptArg)
        }
        # An argument that is null counts as left out.
        names = [argument.name for argument in self.workflow.arguments if self.arguments.get(argument.name) is None]
        left_out = dict.fromkeys([*names, *bindings], LEFT_OUT)
        return fill(step.question, {**self.shown_texts, **left_out, **texts})

    def open_questions(self) -> dict[str, str]:
        """The questions without an answer whose values are known, in order, by the names of their steps."""
        steps = (step for step in self.workflow.steps if not self.statuses[step.name].settled)
        steps = (step for step in steps if isinstance(step, Question) and not is_early(self.variables, step.name))
        steps = (step for step in steps if self.decide_condition(step) is True)
        texts = {step.name: self.question_text(step) for step in steps}
        return {name: text for name, text in texts.items() if text is not None}

    # Conditions

    def decide_condition(self, step: Step) -> bool | PauseReason:
        """Whether a step runs; or why that cannot be decided. A step without a condition runs."""
        if step.when is None:
            return True
        decision = self._evaluate(step.when)
        if isinstance(decision, bool):
            return decision
        source, cause = decision
        if isinstance(cause, Missing) and cause.producer is not None:
            return self._dependency_pause(cause.producer, step)
        problem = cause if isinstance(cause, str) else self._why_missing(source, cause)
        return UnresolvableParams(step.name, source_text(source), step.tool or "", problem, str(step.when))

    def may_settle(self, step: Step) -> bool:
        """Whether an answer or a callback settles its step now: its condition holds, and with `parallel` the steps that
        it needs are settled. Without `parallel`, the steps before it run first in any case."""
        if self.workflow.parallel > 1 and not all(self.statuses[name].settled for name in self.workflow.needs(step)):
            return False
        return self.decide_condition(step) is True

    def _evaluate(self, condition: Condition) -> bool | tuple[Source, Missing | str]:
        """Whether a condition holds; or the source without a usable value, and the reason.

        `and` and `or` do not evaluate their second operand if the first one decides.
        """
        match condition.operator, condition.operands:
            case "and" | "or" as word, (left, right):
                left_result = self._evaluate(left)
                return self._evaluate(right) if left_result is (word == "and") else left_result
            case "not", (inner,):
                inner_result = self._evaluate(inner)
                return not inner_result if isinstance(inner_result, bool) else inner_result
            case "exists", (source,):
                value = self.resolve(source)
                return (source, value) if isinstance(value, Missing) and value.may_come else _exists(source, value)
            case word, operands:
                values: list[Json] = []
                for source in operands:
                    value = self.resolve(source)
                    if isinstance(value, Missing):
                        if not value.is_left_out:
                            return source, value
                        value = None  # an optional argument that was left out equals null
                    values.append(value)
                holds = compare(word, *values)
                return holds if isinstance(holds, bool) else (operands[0], holds)

    # Steps

    def prepare(self, step: ToolStep, host: Host) -> Prepared | PauseReason:
        """The call of a step, or why it cannot be made now."""
        arguments = self.arguments_of(step)
        if not isinstance(arguments, dict):
            return arguments
        if (missing := self.missing_uri(step)) is not None:
            return missing
        prepared = host.prepare(step.tool, arguments)
        if isinstance(prepared, Mismatch):
            invalid = tuple(self._with_value(item, step, arguments) for item in prepared.invalid)
            return SchemaMismatch(step.name, prepared.missing, invalid, step.tool)
        return prepared

    def missing_uri(self, step: Step) -> PauseReason | None:
        """Why a resource of the step cannot be fetched now: a value in its URI is not known."""
        for resource in step.resources:
            uri = "" if step.read_after(resource) else self.uri_of(resource, step)
            if not isinstance(uri, str):
                return uri
        return None

    def arguments_of(self, step: Step) -> dict[str, Json] | PauseReason:
        """A step's arguments, or why the step cannot run. A missing prompt argument is omitted; the schema decides
        about it."""
        answers = self.answers.get(step.name, {})
        sources = {name: source for name, source in step.arguments.items() if name not in answers}
        arguments = self._resolve_all(sources, step)
        return {**arguments, **answers} if isinstance(arguments, dict) else arguments

    def uri_of(self, template: str, step: Step) -> str | PauseReason:
        """The URI of one of a step's resources, or why the step cannot run."""
        names = sorted(placeholders(template))
        bound = {name: step.template_bindings[name] for name in names if name in step.template_bindings}
        values = self._resolve_all(bound, step)
        if not isinstance(values, dict):
            return values
        texts = {name: text for name, text in self.texts.items() if name not in bound}
        texts.update({name: as_text(value) for name, value in values.items()})
        for name in names:
            if name not in texts:
                problem = f"the prompt argument '{name}' was not given"
                return UnresolvableParams(step.name, name, step.tool or "", problem)
        return fill_uri(template, texts)

    def _resolve_all(self, sources: Mapping[str, Source], step: Step) -> dict[str, Json] | PauseReason:
        resolved: dict[str, Json] = {}
        tool = step.tool or ""
        for name, source in sources.items():
            value = self.resolve(source)
            if not isinstance(value, Missing):
                resolved[name] = value
            elif value.producer is not None:
                return self._dependency_pause(value.producer, step)
            elif not value.is_left_out:
                return UnresolvableParams(step.name, name, tool, self._why_missing(source, value))
        return resolved

    def _dependency_pause(self, producer: Step, step: Step) -> PauseReason:
        """Why a step cannot run that needs the output of another one."""
        reason = self.lost_results.get(producer.name, "")
        return UnresolvedDependency(step.name, producer.binding, producer.name, step.tool or "", reason)

    def _why_missing(self, source: Source, missing: Missing) -> str:
        """Where a value was expected, and what is there. It quotes no values."""
        match missing.source:
            case FirstOf(sources):
                return f"none of these has a value: {', '.join(map(source_text, sources))}"
            case Item(path):
                return f"the element has no '{path}'"
            case StepOutput(binding, path) if path:
                step = self.workflow.bound(binding).name
                return f"'{path}' is not in the output of step '{step}': {missing_field_text(self.outputs[step], path)}"
        if not isinstance(source, TaskVariable):
            return ""
        if source.name not in self.variables:
            return f"the task variable '{source.name}' is not set"
        if source.path is None:
            return f"the value of the task variable '{source.name}' was lost or cannot be read"
        return f"the task variable '{source.name}' has no '{source.path}', or its value was lost"

    def answers_pause(self, step: Step, host: Host) -> PauseReason:
        """Why a run stops at a question that has no answer."""
        values = self._resolve_all(step.template_bindings, step)
        if not isinstance(values, dict):
            return values
        texts = self.open_questions()
        asked = {candidate.name: candidate.of for candidate in self.workflow.steps if isinstance(candidate, Question)}
        questions = tuple(
            OpenQuestion(answer.name, texts[answer.name], dict(host.answer_schema(answer)), asked[answer.name])
            for answer in self.workflow.questions
            if answer.name in texts
        )
        return AnswersRequired(step.name, questions, self.workflow.name)

    def _with_value(self, item: InvalidField, step: Step, arguments: Mapping[str, Json]) -> InvalidField:
        name = item.field.partition(".")[0]
        source = step.arguments.get(name)
        if source is None or name not in arguments or name in self.answers.get(step.name, {}):
            return item
        value = one_line(self.shown_value(arguments[name], source))
        value = value if len(value) <= MAX_VALUE_SHOWN_CHARS else f"{value[:MAX_VALUE_SHOWN_CHARS]} …"
        origin = self.placeholder(source) or "a constant"
        return InvalidField(item.field, f"{item.problem}; it got {value} from {origin}")


_PLAIN = frozenset({bool, float, int, type(None)})


def _field(value: Json, source: StepOutput | TaskVariable | Item) -> Json | Missing:
    try:
        return _copied(lookup(value, source.path))
    except KeyError:
        return Missing(source)


def _copied(value: Json) -> Json:
    return value if type(value) in _PLAIN else copy_json(value)
