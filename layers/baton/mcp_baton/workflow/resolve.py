"""What steps get from the known values of a workflow: arguments, lists, times and questions; or why a step cannot run.
Pure, but it may read task variables from the store."""

import logging
from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import Any, Final, Self

from msgspec import structs

from mcp_baton.exceptions import StoreError, ValueLost
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import ITEMS_PREFIX, WAIT_PREFIX, StepStatus, is_early
from mcp_baton.tasks.values import list_in
from mcp_baton.tools.outcomes import InvalidField, Mismatch, Prepared
from mcp_baton.tools.quoting import MAX_QUOTED_CHARS, escaped, one_line
from mcp_baton.tools.secrets import secrets_of
from mcp_baton.tools.templates import as_text, fill, fill_uri, placeholders
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.host import Host
from mcp_baton.workflow.list_elements import ListElements, list_of, stored_items
from mcp_baton.workflow.pause import (
    AnswersRequired,
    OpenQuestion,
    PauseReason,
    SchemaMismatch,
    UnresolvableParams,
    UnresolvedDependency,
)
from mcp_baton.workflow.source_values import Missing, SourceValues
from mcp_baton.workflow.sources import (
    Item,
    PromptArg,
    Source,
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

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class KnownValues(SourceValues, frozen=True):
    """The known values of a workflow, and what its steps need of them."""

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

    def with_skips(self) -> Self:
        """The known values, with the steps as skipped that the next run skips, because their conditions are false."""
        statuses = dict(self.statuses)
        known = structs.replace(self, statuses=statuses)
        for step in self.workflow.steps:
            if not statuses[step.name].settled and known.decide_condition(step) is False:
                statuses[step.name] = StepStatus.SKIPPED
        return known

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

    def has_lost_items(self, step: Step) -> bool:
        """Whether the results of a list's calls were too large to be stored, so that it cannot continue."""
        name = f"{ITEMS_PREFIX}{step.name}"
        if name not in self.variables or list_in(self.variables, step.name) is not None:
            return False
        try:
            self.variables[name]
        except ValueLost:
            return True
        except StoreError:
            return False
        return False

    def decide_items(self, step: ListStep, required: frozenset[str]) -> ListElements | PauseReason | str:
        """The items with which a list starts; or why it cannot start, or fails (a text).

        The elements of an earlier run stay, even if the list is another one now.

        Args:
            required: The required arguments of its tool.
        """
        items = self._items_or_reason(step)
        if isinstance(items, ListElements) and not items.open:
            return items  # no call needs the arguments
        answers = self.answers.get(step.name, {})
        shared_sources = {
            name: source
            for name, source in step.arguments.items()
            if name not in answers and not any(isinstance(part, Item) for part in parts_of(source))
        }
        shared_arguments = self._resolve_all(shared_sources, step)
        if not isinstance(shared_arguments, dict):
            return shared_arguments
        given = (step.arguments.keys() - shared_sources.keys()) | shared_arguments.keys() | answers.keys()
        missing = tuple(sorted(required - given))
        # Each call would be refused.
        return SchemaMismatch(step.name, missing, (), step.tool) if missing else items

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

    # Questions

    def question_text(self, step: Step | None, *, whole: bool = False, with_placeholders: bool = False) -> str | None:
        """The question of a step, with its values; `None` if a value is not known yet. Secrets are hidden.

        In the `whole` question, invisible characters of values are escaped. Otherwise each long value is cut by itself:
        the author's words stay.

        Args:
            with_placeholders: Whether values that are not known yet have placeholders.
        """
        if not isinstance(step, Question):
            return None
        bindings = step.template_bindings
        values = self._resolve_all(bindings, step)
        if with_placeholders:
            found = {name: self.resolve(source) for name, source in bindings.items()}
            values = {
                name: self.placeholder(bindings[name]) if isinstance(value, Missing) else value
                for name, value in found.items()
                if not (isinstance(value, Missing) and value.is_left_out)
            }
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
        texts = {**self.shown_texts, **left_out, **texts}
        # A person sees the whole question as it is, without quotes.
        shown = escaped if whole else _beginning
        return fill(step.question, {name: shown(text) for name, text in texts.items()})

    def open_questions(self, reached: Container[str] = ()) -> dict[str, str]:
        """The questions without an answer whose values are known, in order, by the names of their steps.

        Args:
            reached: The steps of questions that a run has asked, whose conditions may need a secret argument.
        """
        known = self.with_skips()
        steps = (step for step in self.workflow.steps if not known.statuses[step.name].settled)
        steps = (step for step in steps if isinstance(step, Question) and not is_early(self.variables, step.name))
        decisions = ((step, known.decide_condition(step)) for step in steps)
        texts = {
            step.name: known.question_text(step)
            for step, decision in decisions
            if decision is True or (decision is not False and step.name in reached)
        }
        return {name: text for name, text in texts.items() if text is not None}

    # Conditions

    def decide_condition(self, step: Step) -> bool | PauseReason:
        """Whether a step runs; or why that cannot be decided. A step without a condition runs."""
        if step.when is None:
            return True
        decision = self.evaluate(step.when)
        if isinstance(decision, bool):
            return decision
        source, cause = decision
        if isinstance(cause, Missing) and cause.producer is not None:
            return self._dependency_pause(cause.producer, step)
        problem = cause if isinstance(cause, str) else self.why_missing(cause)
        return UnresolvableParams(step.name, source_text(source), step.tool or "", problem, step.when.text)

    def may_settle(self, step: Step) -> bool:
        """Whether an answer or a callback settles its step now: its condition holds, and with `parallel` the steps that
        it needs are settled. Without `parallel`, the steps before it run first in any case."""
        if self.workflow.parallel > 1 and not all(self.statuses[name].settled for name in self.workflow.needs(step)):
            return False
        return self.decide_condition(step) is True

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
                source = bound.get(name)
                argument = source.name if isinstance(source, PromptArg) else name
                problem = f"the prompt argument '{argument}' was not given"
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
                return UnresolvableParams(step.name, name, tool, self.why_missing(value))
        return resolved

    def _dependency_pause(self, producer: Step, step: Step) -> PauseReason:
        """Why a step cannot run that needs the output of another one."""
        reason = self.lost_results.get(producer.name, "")
        return UnresolvedDependency(step.name, producer.binding, producer.name, step.tool or "", reason)

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


def _beginning(text: str) -> str:
    """A value in a question, as far as a model reads it there."""
    count = len(text) - MAX_QUOTED_CHARS
    return text if count <= 0 else f"{text[:MAX_QUOTED_CHARS]} … ({count} more characters)"
