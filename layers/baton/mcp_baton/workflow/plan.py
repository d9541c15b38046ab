"""The plan: the calls of a task's steps, as far as they are known now (docs/workflows.md)."""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property, partial
from typing import Final

from mcp_baton.exceptions import StoreError, ValueLost
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.tasks.record import (
    CALL_PREFIX,
    ELEMENTS_PREFIX,
    RESULT_PREFIX,
    StepProgress,
    StepStatus,
    TaskRecord,
    is_early,
    pauses_of,
    steps_of,
)
from mcp_baton.tasks.values import holds, outside_bytes
from mcp_baton.tools.secrets import Secrets, secret_placeholder
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.definition_changes import given_secrets, has_secrets
from mcp_baton.workflow.json_values import is_equal
from mcp_baton.workflow.list_elements import ListElements
from mcp_baton.workflow.pause import PauseReason, refused_arguments
from mcp_baton.workflow.repeats import Canonical, Repeat, open_repeats, repeat
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.secrets import contains_argument, hidden_in, secrets_in_call
from mcp_baton.workflow.source_values import NO_ELEMENT, Missing
from mcp_baton.workflow.sources import Source, StepOutput, TaskVariable
from mcp_baton.workflow.steps.list_step import ListStep
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.stored_calls import hidden_names, restore_call
from mcp_baton.workflow.stored_pauses import parse_pauses, with_pause


class CallArguments:
    """The arguments of a call, for comparisons: as the tool receives them.

    Args:
        exact: The names of those that Baton has put in for placeholders.
    """

    def __init__(self, tool: str, arguments: JsonObject, canonical: Canonical, exact: Collection[str] = ()) -> None:
        self.tool = tool
        self.arguments = arguments
        self.exact = exact
        self._canonical = canonical

    def have(self, values: JsonObject) -> bool:
        """Whether the call would mean the same if it had these values."""
        others = {name: value for name, value in values.items() if not self._has(name, value)}
        return not others or self._mean_the_same({**self.arguments, **others})

    def equal(self, other: JsonObject) -> bool:
        """Whether a call with these arguments means the same."""
        if other.keys() == self.arguments.keys() and all(self._has(name, value) for name, value in other.items()):
            return True
        return self._mean_the_same(other)

    def _has(self, name: str, value: Json) -> bool:
        return name in self.arguments and is_equal(self.arguments[name], value)

    def _mean_the_same(self, other: JsonObject) -> bool:
        arguments, others = self._canonical_arguments, self._canonical(self.tool, other)
        return arguments.keys() == others.keys() and all(
            is_equal(value, others[name]) for name, value in arguments.items()
        )

    @cached_property
    def _canonical_arguments(self) -> JsonObject:
        return self._canonical(self.tool, self.arguments)


logger = logging.getLogger(__name__)

MAX_COMPARED_BYTES: Final = 8_192
"""A larger stored value is compared with a call's argument by its digest, if possible."""

MIN_FORM_CHARS: Final = 5
"""How many times longer one JSON text of a value can be than another one: `-0.0,` and `0,`, with a margin."""

type PromptArguments = Callable[[TaskRecord], tuple[Mapping[str, str], Mapping[str, Json]] | None]
"""From a task: its prompt arguments as texts, and converted to their types. `None` if they cannot be read."""


class Outputs(Mapping[str, Json]):
    """The results of completed steps by name. Each is read on first access; one that cannot be read is missing."""

    def __init__(self, task: TaskRecord, statuses: Mapping[str, StepStatus]) -> None:
        self._task = task
        self._statuses = statuses
        self._read: dict[str, Json] = {}
        self.lost_results: dict[str, str] = {}

    def __getitem__(self, step: str) -> Json:
        if step in self._read:
            return self._read[step]
        if self._statuses.get(step) is not StepStatus.COMPLETED:
            raise KeyError(step)
        try:
            value = self._task.variables[f"{RESULT_PREFIX}{step}"]
        except StoreError as error:
            logger.warning("task %s: the result of step %s cannot be read", self._task.task_id, step, exc_info=error)
            if isinstance(error, ValueLost):
                self.lost_results[step] = str(error)
            raise KeyError(step) from error
        self._read[step] = value
        return value

    def __iter__(self) -> Iterator[str]:
        return (step for step in self._statuses if step in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Plan:
    """The plan for one state of a task. Values are resolved on first access.

    Args:
        workflow: Its workflow; `None` if the server does not have it any more.
    """

    def __init__(
        self, task: TaskRecord, workflow: Workflow | None, prompt_arguments: PromptArguments, canonical: Canonical
    ) -> None:
        self.task = task
        self.workflow = workflow
        self._prompt_arguments = prompt_arguments
        self._canonical = canonical

    @cached_property
    def steps(self) -> list[StepProgress]:
        """The task's steps, in the stored order."""
        return steps_of(self.task)

    @cached_property
    def pauses(self) -> tuple[PauseReason, ...]:
        """The stored reasons of the task's stopped steps, in order."""
        return parse_pauses(pauses_of(self.task))

    @property
    def is_parallel(self) -> bool:
        """Whether several steps may run at the same time, so that several may have stopped."""
        return self.workflow is not None and self.workflow.parallel > 1

    def pauses_with(self, name: str, reason: PauseReason | None) -> tuple[JsonObject, ...] | None:
        """The reasons to store after a call of a step that has stopped, or not any more; `None` if they do not change.
        Without parallel steps there is at most one."""
        stored = pauses_of(self.task)
        others = stored if reason is None or self.is_parallel else ()
        pauses = with_pause(others, name, reason, [step["name"] for step in self.steps])
        return None if pauses == stored else pauses

    @cached_property
    def known(self) -> KnownValues | None:
        """The known values; `None` without a workflow or its arguments."""
        prompt_arguments = self._prompt_arguments(self.task) if self.workflow else None
        if self.workflow is None or prompt_arguments is None:
            return None
        texts, arguments = prompt_arguments
        stored_statuses = {step["name"]: StepStatus(step["status"]) for step in self.steps}
        # A step that is new in the definition is pending. No step uses a value before the condition of its step holds.
        statuses = {
            step.name: StepStatus.PENDING
            if is_early(self.task.variables, step.name) and stored_statuses.get(step.name) is not StepStatus.SKIPPED
            else stored_statuses.get(step.name, StepStatus.PENDING)
            for step in self.workflow.steps
        }
        secrets = Secrets(given_secrets(self.workflow, self.task))
        secret_texts = {name: secret_placeholder(name) for name in secrets.names}
        outputs = Outputs(self.task, stored_statuses)
        return KnownValues(
            self.workflow,
            {**texts, **secret_texts},
            {**arguments, **secret_texts},
            statuses,
            outputs,
            self.task.variables,
            secrets,
            lost_results=outputs.lost_results,
            outside=partial(outside_bytes, self.task),
        )

    def items_of(self, name: str) -> ListElements | None:
        """The items of a step with `each`, if its list is known."""
        step = self._step(name)
        return None if step is None or self.known is None else self.known.items_of(step)

    def has_list(self, name: str) -> bool:
        """Whether a step calls its tool for each element of a list; of a step that the definition has removed, whether
        it did."""
        step = self._step(name)
        return isinstance(step, ListStep) or (step is None and f"{ELEMENTS_PREFIX}{name}" in self.task.variables)

    def results_of(self, name: str) -> list[Json] | None:
        """The result of a completed list; `None` if it is not available."""
        result = self.known.outputs.get(name) if self.known else None
        return result if isinstance(result, list) else None

    def fits(
        self, name: str, call: CallArguments, element: Json | Missing = NO_ELEMENT, index: int | None = None
    ) -> bool:
        """Whether all arguments of a step, or of an element, that are known now equal those of a call. If none is
        known, only a call without arguments fits, of a step that has none either."""
        planned = self._planned(name, call, element, index)
        if planned is None:
            return False
        arguments, is_complete = planned
        return call.have(arguments) if arguments else is_complete and call.equal({})

    def was_called_with(self, name: str, call: CallArguments) -> bool:
        """Whether a completed step was called with equal arguments: those of its continuation, otherwise those of its
        sources. A secret of the step is not stored, so it cannot differ."""
        variable = f"{CALL_PREFIX}{name}"
        if variable in self.task.variables:
            try:
                earlier_call = restore_call(self.task.variables[variable], call.arguments)
            except StoreError as error:
                logger.warning("task %s: the call of step %s cannot be read", self.task.task_id, name, exc_info=error)
                return False
            # A value that was hidden because it is secret in another step can differ. So the call may be meant for that
            # step, whose approval it must not avoid.
            is_comparable = hidden_names(self.task.variables[variable]) <= self._secret_arguments(name)
            return is_comparable and earlier_call is not None and call.equal(earlier_call)
        planned = self._planned(name, call, NO_ELEMENT)
        if planned is None:
            return False
        arguments, is_complete = planned
        secrets = {secret: call.arguments[secret] for secret in self._secret_arguments(name) & call.arguments.keys()}
        return is_complete and call.equal({**arguments, **secrets})

    def _planned(
        self, name: str, call: CallArguments, element: Json | Missing, index: int | None = None
    ) -> tuple[dict[str, Json], bool] | None:
        """The arguments of a step's call, or of an element's, that are known now, without secret ones and those that
        the tool's schema has refused; and whether these are all. `None` if one of them differs from the call's."""
        step = self._step(name)
        if step is None or step.tool != call.tool or self.known is None:
            return {}, False
        all_known = self.known if isinstance(element, Missing) else self.known.at(element)
        left_out = refused_arguments(step, self.pauses, index) | self._secret_arguments(name)
        arguments: dict[str, Json] = {}
        is_complete = True
        for argument, source in step.arguments.items():
            if argument in left_out:
                continue
            is_equal = self._is_same(source, argument, call)
            if is_equal is False:
                return None
            if is_equal:
                arguments[argument] = call.arguments[argument]
                continue
            value = all_known.resolve(source)
            if not isinstance(value, Missing):
                arguments[argument] = value
            elif not value.is_left_out:
                is_complete = False
        return arguments, is_complete

    def _secret_arguments(self, name: str) -> frozenset[str]:
        step = self._step(name)
        if self.workflow is None or step is None or not self.workflow.secrets:
            return frozenset()
        secrets = self.workflow.secrets
        return frozenset(name for name, source in step.arguments.items() if contains_argument(source, secrets))

    def _is_same(self, source: Source, argument: str, call: CallArguments) -> bool | None:
        """Whether an argument of a call equals a large stored value, without reading that value.

        A value that Baton has put in equals the stored text exactly. A value of the client may be written differently.
        It is read and compared, unless its text is much shorter than the stored one.

        Returns:
            `None` if the value must be read, or is not a large stored value.
        """
        if self.known is None or not isinstance(source, StepOutput | TaskVariable):
            return None
        size = self.known.stored_bytes(source)
        if source.path is not None or size <= MAX_COMPARED_BYTES:
            return None
        if argument not in call.arguments:
            return False
        text = dumps(call.arguments[argument]).encode()
        if argument in call.exact or len(text) * MIN_FORM_CHARS < size:
            return holds(self.task, self.known.stored_name(source), text)
        return None

    def repeats(self) -> tuple[Repeat, ...]:
        """The open steps that a run may have run without recording them: it was killed, or has not ended yet."""
        if self.known is None or not self._may_repeat:
            return ()
        return open_repeats(self.known, self.task.task_id, self._canonical)

    def repeated(self, name: str, call: JsonObject) -> tuple[Repeat, ...]:
        """The step of a continuation, if such a run may have run it before."""
        step = self._step(name)
        if step is None or self.known is None or not self._may_repeat:
            return ()
        if self.hidden(name, step.tool or "", call):
            return (Repeat(name, None),)
        return (repeat(step, call, self.known, self.task.task_id, self._canonical),)

    def is_skipped(self, step: StepProgress) -> bool:
        """Whether a step was skipped, or its condition is false so that the next run skips it."""
        if step["status"] == StepStatus.SKIPPED:
            return True
        declared = self._step(step["name"])
        if step["status"] == StepStatus.COMPLETED or declared is None or self.known is None:
            return False
        return self.known.decide_condition(declared) is False

    def _step(self, name: str) -> Step | None:
        return self.workflow.step(name) if self.workflow else None

    @property
    def _may_repeat(self) -> bool:
        claim = None if self.task.status.terminal else self.task.claim
        return claim is not None and (claim.interrupted or claim.until_ms > 0)

    @property
    def was_interrupted(self) -> bool:
        """Whether an earlier run ended before it recorded what it did. Otherwise another run has the task."""
        return self.task.claim is not None and self.task.claim.interrupted

    def hidden(self, name: str | None, tool: str, call: JsonObject) -> frozenset[str]:
        """The arguments of a call of this step, or of an extra call, that must not be stored or shown."""
        if self.workflow is None or (name is not None and self._step(name) is None):
            # The definition that named the secret arguments is gone.
            return frozenset(call) if has_secrets(self.task) else frozenset()
        return hidden_in(call, self._sources(name, tool, call), self.workflow.secrets)

    def without_secrets(self, name: str | None, tool: str, call: JsonObject, text: str) -> str:
        """A text from a call of this step, or from an extra call, with the call's secrets replaced."""
        if self.workflow is None or not self.workflow.secrets:
            return text
        return secrets_in_call(call, self._sources(name, tool, call), self.workflow.secrets).hide_text(text)

    def _sources(self, name: str | None, tool: str, call: JsonObject) -> Mapping[str, Source]:
        """The sources of a call's arguments. A caller may name another step than the one whose arguments it gives. So
        an argument that is secret in another step with this tool counts as secret, unless its value is that of this
        step."""
        step = self._step(name) if name else None
        sources = {} if step is None else dict(step.arguments)
        if self.workflow is None or not self.workflow.secrets:
            return sources
        for other in self.workflow.steps:
            for argument, source in other.arguments.items() if other.tool == tool else ():
                is_secret = argument in call and contains_argument(source, self.workflow.secrets)
                if is_secret and not self._has_value(name, sources.get(argument), call[argument]):
                    sources[argument] = source
        return sources

    def _has_value(self, name: str | None, source: Source | None, value: Json) -> bool:
        """Whether a value is that of a step's source, or of one of the elements of its list."""
        if self.known is None or source is None:
            return False
        items = self.items_of(name) if name and self.has_list(name) else None
        known = [self.known.at(element) for element in items.elements] if items else [self.known]
        resolved = (each.resolve(source) for each in known)
        return any(not isinstance(found, Missing) and is_equal(found, value) for found in resolved)

    def call_arguments(self, tool: str, arguments: JsonObject, exact: Collection[str] = ()) -> CallArguments:
        """A call's arguments, for comparisons. `exact` as in `CallArguments`."""
        return CallArguments(tool, arguments, self._canonical, exact)
