"""What remains of a workflow: the calls that continue it, as data (docs/workflows.md, Pausing). Pure.

Values from clients and tools are quoted in guidance (`quoting`), because models trust it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct, structs

from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.json import Json, JsonObject, json_size
from mcp_baton.tasks.record import APPROVAL_PREFIX, ITEMS_PREFIX, StepStatus, is_early
from mcp_baton.tasks.step_ids import StepId, step_id
from mcp_baton.tools.arguments import TASK_ID
from mcp_baton.tools.outcomes import MAX_INVALID_FIELDS
from mcp_baton.tools.quoting import MAX_QUOTED_CHARS, encoded_uri, is_long, quoted_guidance
from mcp_baton.tools.templates import as_text, encoded, fill, placeholders
from mcp_baton.workflow.definition import ANSWERS
from mcp_baton.workflow.definition_changes import conflicting_steps
from mcp_baton.workflow.handle import Handle
from mcp_baton.workflow.list_elements import item_name
from mcp_baton.workflow.pause import (
    WAITING_REMEDIES,
    AnswersRequired,
    PauseReason,
    Remedy,
    StepFailed,
    UnresolvableParams,
    Waiting,
    pause_at,
    refused_arguments,
)
from mcp_baton.workflow.plan import Plan
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.source_values import Missing
from mcp_baton.workflow.sources import Constant, Item, PromptArg, StepOutput, TaskVariable
from mcp_baton.workflow.steps.list_step import ListStep
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.steps.wait import Wait


class Requirements(Protocol):
    """The part of a `Host` that knows the tools' required arguments and the limit for placeholders."""

    def required(self, tool: str) -> frozenset[str]:
        """The names of a tool's required arguments."""

    def carries(self, size: int) -> bool:
        """Whether placeholders may put this many bytes into one call."""


def next_calls(
    plan: Plan, tools: Requirements, handle: Handle | None = None, *, with_failed: bool = True
) -> list[JsonObject]:
    """The suggested calls for a stored task, as in `RemainingCalls.entries`.

    Args:
        handle: Names the task in each call's arguments; `None` for calls that name it otherwise.
    """
    workflow, known = plan.workflow, plan.known
    if workflow is None or known is None or plan.task.status.terminal:
        return []
    can_resume = workflow.has_workflow_tool and not conflicting_steps(workflow, plan.task)
    resume_handle = Handle(plan.task.task_id, workflow, given=known.arguments) if can_resume else None
    task_id, changed = plan.task.task_id, conflicting_steps(workflow, plan.task, settled=False)
    known = known.with_skips() if known.open_steps else known
    remaining = RemainingCalls(known, tools, plan.pauses, handle, resume_handle, task_id=task_id, changed=changed)
    return remaining.entries(with_failed=with_failed)


def _prompt_arguments(step: Step) -> Iterator[str]:
    """The arguments of the workflow that a step needs: of a list, for its elements."""
    sources = step.own_sources.values() if isinstance(step, ListStep) else (used.source for used in step.used_sources)
    yield from (source.name for source in sources if isinstance(source, PromptArg))
    yield from (name for uri in step.resources for name in placeholders(uri) if name not in step.template_bindings)


class RemainingCalls(Struct, frozen=True):
    """The calls that remain of a workflow, for the handoff and for `next`.

    Attributes:
        pauses: Why steps have stopped, in the order of the steps; empty if nothing stops the next run.
        handle: Names the task in the calls of tools; `None` for calls that name it otherwise.
        resumable: Names the task in the call that lets the server continue; `None` if the server cannot.
        read_resources: Which resources of the stopped steps were read, as the steps declare them.
        task_id: The task, for calls that name it in `_meta`.
        index: The element of the step's list, in `known.item`.
        changed: The open steps that a deployment has changed. The server makes their calls, as they are now.
    """

    known: KnownValues
    tools: Requirements
    pauses: tuple[PauseReason, ...] = ()
    handle: Handle | None = None
    resumable: Handle | None = None
    read_resources: Mapping[str, frozenset[str]] = MappingProxyType({})
    task_id: str | None = None
    index: int | None = None
    changed: Collection[str] = ()

    @property
    def resume_handle(self) -> Handle | None:
        """`resumable`, with a text for each argument that its call must add."""
        names = list(chain.from_iterable(self._left_out.values()))
        if self.resumable is None or not names:
            return self.resumable
        arguments = {name: self.known.placeholder(PromptArg(name)) for name in names}
        return structs.replace(self.resumable, extra_arguments={**self.resumable.extra_arguments, **arguments})

    @property
    def _left_out(self) -> dict[str, list[str]]:
        """The arguments of the workflow that its client has left out, or that are no lists, by the stopped step that
        needs them, if no call of the model settles this step."""
        steps = [(pause, self.known.workflow.step(pause.step)) for pause in self.pauses]
        return {
            step.name: [name for name in _prompt_arguments(step) if self._is_left_out(name) or self._is_no_list(step)]
            for pause, step in steps
            if isinstance(step, ListStep) or (step and step.tool is None and isinstance(pause, UnresolvableParams))
        }

    def _is_left_out(self, name: str) -> bool:
        is_declared = any(argument.name == name for argument in self.known.workflow.arguments)
        return is_declared and isinstance(self.known.resolve(PromptArg(name)), Missing)

    def steps(self) -> list[Step]:
        """The remaining steps that the model has to do itself. The server runs all others when it continues. A call
        that a person has denied is left out, and so is a step whose result waits for its condition."""
        variables, stopped = self.known.variables, {pause.step for pause in self.pauses}
        steps = [step for step in self._steps() if self._has_calls(step)]
        return [step for step in steps if step.name in stopped or not is_early(variables, step.name)]

    def open_elements(self, step: Step) -> list[int]:
        """The elements of a step's list without a result, except those whose calls a person has denied; after failures
        also except those whose calls wait for an approval, because the server makes them after the decision."""
        items, pause = self.known.items_of(step), pause_at(step.name, self.pauses)
        open_elements = items.open if items else []
        if isinstance(pause, StepFailed) and pause.unapproved_count and self.resume_handle:
            others = {item.index for item in pause.unapproved}
            if pause.unapproved_count > len(others) and pause.failed_items:  # not all of them are stored
                others = set(open_elements) - {item.index for item in pause.failed_items}
            open_elements = [index for index in open_elements if index not in others]
        return [index for index in open_elements if not is_denied(self.known.variables, item_name(step.name, index))]

    def _steps(self) -> list[Step]:
        open_steps, remedies = self.known.open_steps, self.remedies
        if remedies == {Remedy.NONE} or (remedies and remedies <= WAITING_REMEDIES and self.resume_handle is not None):
            return []
        if self.resume_handle is None or self.resume_handle.tool is None:
            steps = [step for step in open_steps if step.client_can_do]
            return steps if self.handle is not None else steps[: self.visible_count(steps)]
        needing_the_model = self._needing_the_model()
        stopped_steps = [step for step in open_steps if step.name in needing_the_model]
        if all(step.tool is not None for step in stopped_steps):
            return self._possible(stopped_steps)
        # The model's reading of a resource is not recorded, so the server would stop there again.
        return self._possible([step for step in open_steps if self.known.decide_condition(step) is True])

    def _possible(self, steps: Sequence[Step]) -> list[Step]:
        """The steps that the model can do in this order: they use no result of another open step."""
        possible, missing = list[Step](), {step.binding for step in self.known.open_steps}
        for step in (step for step in steps if step.client_can_do):
            used = {source.binding for source in step.sources if isinstance(source, StepOutput)}
            if not used & missing - {step.binding}:
                possible.append(step)
                missing.discard(step.binding)
        return possible

    def _needing_the_model(self) -> set[str]:
        """The stopped steps whose calls the model has to make."""
        remedies, left_out = (Remedy.CALLS, Remedy.VALUES), self._left_out
        return {
            pause.step
            for pause in self.pauses
            if self.remedy_of(pause) in remedies
            and pause.step not in self.changed
            and not (pause.is_for_the_operator or pause.server_can_continue or left_out.get(pause.step))
            and not self._would_repeat(pause)
        }

    def _would_repeat(self, pause: PauseReason) -> bool:
        """Whether a failed call of the model would not be recorded, because its arguments cannot name the task, so that
        the server would make it again. A tool that asks the client needs the model's call."""
        if not isinstance(pause, StepFailed) or pause.asks_client or self.handle is None or not pause.suggested_tool:
            return False
        return not self.handle.accepts_id(pause.suggested_tool)

    def _has_calls(self, step: Step) -> bool:
        """Whether a step, or an element of its list, may be called: no person has denied the call."""
        if self.known.items_of(step) is not None:
            return bool(self.open_elements(step))
        if self._has_stored_items(step):
            return False  # they are lost, or cannot be read now
        if self._is_no_list(step):
            return self.step_to_correct(step) is not None
        return not is_denied(self.known.variables, step.name)

    def _has_stored_items(self, step: Step) -> bool:
        """Whether the calls of a list have begun."""
        return isinstance(step, ListStep) and f"{ITEMS_PREFIX}{step.name}" in self.known.variables

    def _is_no_list(self, step: Step) -> bool:
        """Whether the source of a step's list has a value over which it cannot run."""
        if not isinstance(step, ListStep) or self._has_stored_items(step) or self.known.items_of(step) is not None:
            return False
        return not isinstance(self.known.resolve(step.each), Missing) or self.step_to_correct(step) is not None

    def step_to_correct(self, step: Step) -> Step | None:
        """The completed step whose result has to be another one, because a list cannot run over it."""
        if not isinstance(step, ListStep) or not isinstance(step.each, StepOutput) or self.known.is_lost(step.each):
            return None
        producer = self.known.workflow.bound(step.each.binding)
        is_completed = self.known.statuses[producer.name] is StepStatus.COMPLETED
        return producer if is_completed and producer.tool is not None else None

    def visible_count(self, steps: Sequence[Step]) -> int:
        """How many calls a model can make without the task: up to the first one that uses the result of a callback,
        which only the server has."""
        callbacks = [step for step in self.known.open_steps if step.name in self.known.workflow.callbacks]
        uses = [any(step.uses(callback.binding) for callback in callbacks) for step in steps]
        return uses.index(True) if True in uses else len(steps)

    def remedy_of(self, pause: PauseReason) -> Remedy:
        """What lets a stopped step continue. A wait that has timed out cannot be repeated, nor can a list whose results
        are lost: its calls were made."""
        step = self.known.workflow.step(pause.step)
        if isinstance(pause, StepFailed) and isinstance(step, Wait):
            return Remedy.NONE if pause.wait_over else Remedy.SERVER
        if isinstance(pause, StepFailed) and isinstance(step, ListStep) and self.known.has_lost_items(step):
            return Remedy.NONE
        return Remedy.SERVER if isinstance(pause, Waiting) and pause.over else pause.remedy

    @property
    def remedies(self) -> set[Remedy]:
        """What lets the stopped steps continue. Steps that cannot continue only count if no other step can."""
        remedies = set(map(self.remedy_of, self.pauses))
        return remedies - {Remedy.NONE} or remedies

    def answer_call(self) -> JsonObject | None:
        """The call that answers all open questions. Without a task, it may have to start the workflow."""
        if Remedy.ANSWERS not in self.remedies:
            return None
        pauses = (pause for pause in self.pauses if isinstance(pause, AnswersRequired))
        questions = self.known.open_questions([question.name for pause in pauses for question in pause.questions])
        answers: JsonObject = {
            name: f"<{text if len(text) <= MAX_QUOTED_CHARS else f'{text[:MAX_QUOTED_CHARS]} …'}>"
            for name, text in questions.items()
        }
        if not answers:
            return None
        known, handle = self.known, self.resume_handle
        arguments: JsonObject = (
            handle.arguments
            if handle
            else {
                argument.name: known.shown_value(known.arguments[argument.name], PromptArg(argument.name))
                for argument in known.workflow.arguments
                if argument.name in known.arguments
            }
        )
        return {"tool": known.workflow.name, "arguments": {**arguments, ANSWERS: answers}}

    def entries(self, *, with_failed: bool = True) -> list[JsonObject]:
        """The suggested calls, in order: `{"tool", "arguments", "guidance"?}` for a call, `{"resource"}` for a resource
        to read, before or after its step's call as the step has it. Arguments are those of the handoff. The last one is
        a call of the workflow's tool, which lets the server continue, or complete the task. An entry for a call has
        `task_id`, the id of the step for `_meta`, unless its arguments have it.

        Args:
            with_failed: Whether the list has a call that has failed and would fail again, and the calls after it.
        """
        handle = self.resume_handle
        if not self.known.open_steps:
            # A run that only completes the task needs no secret; one that skips steps does.
            is_over = all(status.settled for status in self.known.statuses.values())
            return handle.call({TASK_ID: handle.task_id} if is_over else None) if handle else []
        if self.remedies == {Remedy.NONE}:
            return handle.call(handle.cancel_arguments) if handle else []
        answer = self.answer_call()
        if answer is not None and handle is None:
            return [answer]  # without a task, it starts the workflow again
        resume_calls = handle.call() if handle else []
        calls = [entry for step in self._steps_of_entries(with_failed) for entry in self.entries_of(step)]
        calls = [call for call in calls if call not in resume_calls]
        return [*calls, answer] if answer else [*calls, *resume_calls]

    def _steps_of_entries(self, with_failed: bool) -> list[Step]:
        """The steps whose calls are suggested as data. A call that has failed and would fail again is only suggested in
        texts, with what to correct; so are the calls after it, if the model has to make them in order."""
        steps = self.steps()
        failing = {pause.step for pause in self.pauses if isinstance(pause, StepFailed) and pause.fails_again}
        failing = set() if with_failed else failing
        is_ordered = self.resume_handle is None or self.resume_handle.tool is None
        steps = [step for step in steps if step.name not in failing and not self.is_conditional(step)]
        if failing:
            return [] if is_ordered else self._possible(steps)
        return steps

    def is_conditional(self, step: Step) -> bool:
        """Whether a step that no run has reached may still be skipped: its condition needs the results of others."""
        is_reached = any(pause.step == step.name for pause in self.pauses)
        return not is_reached and self.known.decide_condition(step) is not True

    def suggests_call(self) -> bool:
        """Whether the handoff suggests a call that continues the workflow."""
        return self.remedies != {Remedy.NONE} and bool(self.steps() or self.entries())

    def entries_of(self, step: Step) -> Iterator[JsonObject]:
        """The remaining calls of one step, as in `entries`."""
        uris = uris_of(step, self.known)
        yield from ({"resource": uri} for template, uri in uris.items() if not step.read_after(template))
        resume_calls = self.resume_handle.call() if self.resume_handle else []
        if isinstance(step, ListStep):
            items = self.known.items_of(step)
            for index in self.open_elements(step)[:MAX_INVALID_FIELDS]:
                yield from self.at(index, items.elements[index]).entry_of(step) if items else ()
        elif step.tool is not None and resume_calls and self.is_too_long(step):
            yield from resume_calls
        else:
            yield from self.entry_of(step)
        yield from ({"resource": uri} for template, uri in uris.items() if step.read_after(template))

    def entry_of(self, step: Step) -> Iterator[JsonObject]:
        """The call of a step's tool, as in `entries`."""
        if step.tool is None:
            return
        entry: dict[str, Json] = {"tool": step.tool, "arguments": self.call_of(step, step.tool)}
        task_id = self.handle.task_id if self.handle else self.task_id
        if task_id is not None and not (self.handle and self.handle.accepts_id(step.tool)):
            entry[TASK_ID] = self._id_of(step, task_id).text
        if step.guidance:
            entry["guidance"] = quoted_guidance(step.guidance, self.known.shown_texts)
        yield entry

    def at(self, index: int, element: Json) -> "RemainingCalls":
        """The same for one element of a step's list."""
        return structs.replace(self, known=self.known.at(element), index=index)

    def call_of(self, step: Step, tool: str, limit: int = MAX_QUOTED_CHARS) -> dict[str, Json]:
        """The arguments of a call that names its step, if it has to."""
        arguments = self.arguments(step, limit)
        if self.handle is None or not self.handle.accepts_id(tool):
            return arguments
        return {**arguments, TASK_ID: self._id_of(step, self.handle.task_id).text}

    def _id_of(self, step: Step, task_id: str) -> StepId:
        """The id of a step's call. As long as the elements of a list are not known, its calls name only the task."""
        is_unknown = isinstance(step, ListStep) and self.index is None
        return StepId(task_id) if is_unknown else step_id(task_id, step.name, self.index)

    def arguments(self, step: Step, limit: int = MAX_QUOTED_CHARS) -> dict[str, Json]:
        """A call's arguments. Unknown, invalid and long values are replaced by placeholders."""
        known = self.known
        required, answers = self.tools.required(step.tool or ""), known.answers.get(step.name, {})
        arguments: dict[str, Json] = {}
        for name, source in step.arguments.items():
            if name in answers:
                continue
            if (isinstance(source, Item) and isinstance(known.item, Missing)) or known.shows_placeholder(source):
                arguments[name] = known.placeholder(source)
                continue
            value = known.resolve(source)
            if not isinstance(value, Missing):
                value = known.shown_value(value, source)
                is_lost = known.is_lost(source) and is_long(value, limit)
                arguments[name] = _missing(name) if is_lost else known.shortened(value, source, limit)
            elif not value.is_left_out or name in required:
                may_come = self._may_come(value, step)
                arguments[name] = known.placeholder(source) if may_come else _missing(name)
        for name in sorted(required - step.arguments.keys() - answers.keys()):
            arguments[name] = _missing(name)
        arguments |= {name: known.shown_value(value, None) for name, value in answers.items()}
        return arguments | {name: f"<invalid: {name}>" for name in refused_arguments(step, self.pauses, self.index)}

    def _may_come(self, missing: Missing, step: Step) -> bool:
        """Whether a source that has no value now can get one later, so that its placeholder will work."""
        known = self.known
        if missing.producer is not None:
            # A result that cannot be read now may be readable later.
            return missing.may_come and missing.producer.name not in known.lost_results
        if not isinstance(missing.source, TaskVariable):
            return missing.is_left_out
        if missing.may_come or known.workflow.setters.get(missing.source.name):
            return True
        # If no tool declares that it sets the variable, any earlier step may set it.
        earlier_steps = known.workflow.steps[: known.workflow.steps.index(step)]
        return any(earlier.tool and not known.statuses[earlier.name].settled for earlier in earlier_steps)

    def is_too_long(self, step: Step) -> bool:
        """Whether placeholders would put too many bytes into the step's call, as far as that is known."""
        known, total = self.known, 0
        for source in step.arguments.values():
            if known.shows_placeholder(source):
                is_field = isinstance(source, StepOutput | TaskVariable) and source.path is not None
                total += 0 if is_field else known.stored_bytes(source)
                continue
            value = None if isinstance(source, Constant) else known.resolve(source)
            if not isinstance(value, Missing) and not known.is_lost(source) and is_long(value):
                total += json_size(value)
        return not self.tools.carries(total)


def uris_of(step: Step, known: KnownValues) -> dict[str, str]:
    """The URIs of a step's resources by their templates. Unknown and long values are replaced by placeholders."""
    return {resource: _uri_of(resource, step, known) for resource in step.resources}


def _uri_of(resource: str, step: Step, known: KnownValues) -> str:
    values: dict[str, str] = {}
    for name in placeholders(resource):
        source = step.template_bindings.get(name, PromptArg(name))
        value = Missing(source) if known.shows_placeholder(source) else known.resolve(source)
        text = None
        if not isinstance(value, Missing):
            text = as_text(value) if name in step.template_bindings else known.texts[name]
        placeholder = known.placeholder(source) if text is None or is_long(text) else None
        # A value at the beginning of the URI contains its scheme.
        encode = encoded_uri if resource.startswith(f"{{{name}}}") else encoded
        values[name] = placeholder or encode(text or "")
    return fill(resource, values)


def _missing(name: str) -> str:
    """The placeholder of an argument that the model must supply."""
    return f"<missing: {name}>"


def is_denied(variables: Mapping[str, Json], name: str) -> bool:
    """Whether a person has denied the last call of a step, or of an element of its list (`item_name`)."""
    try:
        note = variables.get(f"{APPROVAL_PREFIX}{name}")
    except StoreError:
        return False  # it is outside the task's item and cannot be read now; the guard of the call checks the approval
    return isinstance(note, Mapping) and note.get("denied") is not None
