"""The board: a task of a workflow as its page shows it, with forms for the remaining calls (docs/console.md)."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from mcp_baton.exceptions import BatonError, ProtocolError, StoreError
from mcp_baton.present.fit import MAX_RESULT_BYTES, MAX_TOTAL_BYTES, cut, fit
from mcp_baton.present.mcp_task import facts_of, read_variable
from mcp_baton.present.pause_sentences import what_happened
from mcp_baton.present.sentences import may_have_run
from mcp_baton.present.view import TaskView
from mcp_baton.protocol.json import Json, JsonObject, json_size
from mcp_baton.tasks.record import (
    RESULT_PREFIX,
    StepProgress,
    StepStatus,
    TaskRecord,
    has_value,
    paused_step,
    timestamp,
)
from mcp_baton.tasks.values import weight_of
from mcp_baton.tools.resource import value_uri
from mcp_baton.workflow.continuations import plan_of
from mcp_baton.workflow.definition_changes import conflicting_steps
from mcp_baton.workflow.execution import Execution
from mcp_baton.workflow.handle import handle_of
from mcp_baton.workflow.remaining import RemainingCalls, uris_of
from mcp_baton.workflow.sources import PromptArg
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.stored_calls import shown_call
from mcp_baton.workflow.stored_pauses import parse_pause
from mcp_baton.workflow.workflow_tool import WorkflowTool

logger = logging.getLogger(__name__)


class WorkflowState:
    """The state of a task of a workflow, for its board and its text.

    Attributes:
        can_resume: Whether a run could continue it now, or later if another run holds it.
        remaining: The calls that remain; `None` if the task has ended, or if they are not known.
        warning: Which open steps may have run.
    """

    def __init__(self, execution: Execution, tool: WorkflowTool, task: TaskRecord, view: TaskView) -> None:
        self.execution = execution
        self.tool = tool
        self.task = task
        self.view = view
        self.plan = plan_of(execution.server, task)
        self.can_resume = not view.ended and not conflicting_steps(tool.workflow, task)
        self.warning = " ".join(may_have_run(self.plan.repeats(), self.plan.was_interrupted))

    @cached_property
    def remaining(self) -> RemainingCalls | None:
        known = None if self.view.ended else self.plan.known
        handle = handle_of(self.execution.server, self.tool.workflow, self.task)
        resume_handle = handle if self.can_resume else None
        changed = conflicting_steps(self.tool.workflow, self.task, settled=False)
        server, reasons = self.execution.server, self.view.reasons
        if known is None:
            return None
        known = known.with_skips() if known.open_steps else known
        return RemainingCalls(known, server, reasons, handle, resume_handle, changed=changed)


class Addition(Struct, frozen=True):
    """A value that is added if there is room: a result or arguments in place of a note, or the schema of a form.

    Attributes:
        size: The bytes of the value.
        places: The objects, and the names of their members.
    """

    value: Json
    size: int
    places: tuple[tuple[dict[str, Json], str], ...]

    @property
    def added_bytes(self) -> int:
        """How much longer the content becomes."""
        return sum(
            self.size - json_size(holder[name]) if name in holder else self.size + len(name) + 4
            for holder, name in self.places
        )


class CallForm(Struct, frozen=True):
    """A call that a person can make.

    Attributes:
        call: As in `next`, with the step, and with the names of the arguments that a person has to give.
        schema: The input schema of its tool; `None` if a type of the author has no schema.
    """

    call: dict[str, Json]
    schema: JsonObject | None

    @property
    def addition(self) -> list[Addition]:
        return [] if self.schema is None else [Addition(self.schema, json_size(self.schema), ((self.call, "schema"),))]


def board_of(state: WorkflowState, content: dict[str, Json]) -> dict[str, Json]:
    """Return the structured content with the results and the board.

    It has at most 40 KB of JSON, not counting the names and statuses of the steps and the pause reasons: hosts cut
    results of more than about 25,000 tokens. The space is used in this order: the first call with its form, the other
    calls, the shortest values and errors, the other forms (docs/console.md, How much is shown).
    """
    results: dict[str, Json] = {}
    values: list[Addition] = []
    facts = facts_of(state.task)
    timings, elements = facts.pop("timings", {}), facts.pop("elements", {})
    steps: list[Json] = []
    for progress in state.plan.steps:
        step = _step(state, progress, timings, elements)
        values += _values(state, progress, step, results)
        steps.append(step)
    forms = list(_forms(state))
    calls: list[Json] = [form.call for form in forms[:1]]
    content |= {"results": results, "board": _board(state, facts, steps, calls)}
    if forms:
        _add(forms[0].addition, content)
    room = MAX_TOTAL_BYTES - json_size(content)
    shown_forms = fit(([form] for form in forms[1:]), room, lambda form: json_size(form.call) + 1, in_order=True)
    calls += [form.call for form in shown_forms]
    values.sort(key=lambda value: value.size)
    _add([*values, *(addition for form in shown_forms for addition in form.addition)], content)
    return content


def _add(additions: Sequence[Addition], content: JsonObject) -> None:
    room = MAX_TOTAL_BYTES - json_size(content)
    for addition in fit(([addition] for addition in additions), room, lambda addition: addition.added_bytes):
        for holder, name in addition.places:
            holder[name] = addition.value


def _board(state: WorkflowState, facts: JsonObject, steps: list[Json], calls: list[Json]) -> dict[str, Json]:
    task, view, remaining = state.task, state.view, state.remaining
    open_calls = remaining.entries(with_failed=True) if remaining else []
    known = remaining.known if remaining else None
    return {
        "workflow": state.tool.workflow.name,
        "workflow_tool": state.tool.name,
        "task": {
            "task_id": view.task_id,
            "status": view.status,
            "status_message": view.message,
            "created_at": view.created,
            "updated_at": view.updated,
            "expires_at": timestamp(task.created_ms + task.ttl_ms),
            **facts,
        },
        "steps": steps,
        **_pauses(state),
        "running_until": view.running_until,
        # For a person, who can correct a call that has failed. `next` leaves that out.
        "suggested_tool": next((str(entry["tool"]) for entry in open_calls if "tool" in entry), None),
        "calls": calls,
        "secrets": sorted(known.secrets.names) if known and known.open_steps else [],
        "can": {
            "go_on": state.can_resume and view.running_until is None,
            "complete": not view.ended,
            "cancel": not view.ended,
        },
    }


def _pauses(state: WorkflowState) -> dict[str, Json]:
    """Return the first reason, and all of them if there are several."""
    pauses: list[Json] = [] if state.view.ended else [_pause(reason) for reason in state.view.pauses]
    return {"pause": pauses[0] if pauses else None} | ({"pauses": pauses} if pauses[1:] else {})


def _pause(stored: Mapping[str, Json]) -> Json:
    reason = parse_pause(stored)
    message = " ".join(what_happened([reason])) if reason else ""
    # The message of an approval is its question.
    return {"message": message, **stored, "step": paused_step(stored)}


def _step(state: WorkflowState, progress: StepProgress, timings: Json, elements: Json) -> dict[str, Json]:
    """Return a step without its values: name; tool, question, wait or resource; status, elements, time."""
    name, known = progress["name"], state.plan.known
    step: dict[str, Json] = {"name": name}
    step |= {kind: progress[kind] for kind in ("tool", "ask", "wait") if kind in progress}
    declared = state.tool.workflow.step(name)
    if len(step) == 1 and declared is not None and known is not None:
        step["resource"] = ", ".join(uris_of(declared, known).values())
    step["status"] = progress["status"]
    if isinstance(elements, Mapping) and name in elements:
        step["elements"] = elements[name]
    timing = timings.get(name) if isinstance(timings, Mapping) else None
    return step | (dict(timing) if isinstance(timing, Mapping) else {})


def _values(
    state: WorkflowState, progress: StepProgress, step: dict[str, Json], results: dict[str, Json]
) -> Iterator[Addition]:
    """Put notes into a step in place of its result and its arguments. Yields the values that may replace the notes."""
    name, completed = progress["name"], progress["status"] == StepStatus.COMPLETED
    variable = f"{RESULT_PREFIX}{name}"
    weight = weight_of(state.task, variable)
    if progress["status"] == StepStatus.FAILED and weight is not None and not weight.large:
        result = read_variable(state.task, variable)
        if isinstance(result, Mapping) and isinstance(result.get("error"), str):
            error = cut(str(result["error"]))
            yield Addition(error, json_size(error), ((step, "error"),))
    if not has_value(progress):
        return
    if completed and weight is not None:
        size = step["bytes"] = weight.text_bytes
        step["result"] = results[name] = {"bytes": size, "uri": value_uri(state.task.task_id, variable)}
        if size <= MAX_RESULT_BYTES and not weight.large:
            yield Addition(read_variable(state.task, variable), size, ((step, "result"), (results, name)))
    arguments = _arguments(state, name, completed=completed) if "tool" in progress else None
    if arguments is not None:
        size = json_size(arguments)
        step["arguments"] = {"bytes": size}
        if size <= MAX_RESULT_BYTES:
            yield Addition(arguments, size, ((step, "arguments"),))


def _arguments(state: WorkflowState, name: str, *, completed: bool) -> JsonObject | None:
    try:
        stored_arguments = shown_call(state.task.variables, name) if completed else None
    except StoreError:
        return None
    step, known = state.tool.workflow.step(name), state.plan.known
    # The definition may have changed since, and the step may call no tool any more.
    if stored_arguments is not None or step is None or step.tool is None or known is None:
        return stored_arguments
    return RemainingCalls(known, state.execution.server, state.view.reasons).arguments(step)


def _forms(state: WorkflowState) -> Iterator[CallForm]:
    """Return the remaining calls of tools that a person can make."""
    remaining = state.remaining
    for step in remaining.known.open_steps if remaining else ():
        for entry in remaining.entries_of(step) if remaining and step.tool else ():
            if entry.get("tool") == step.tool and isinstance(arguments := entry["arguments"], Mapping):
                missing = [name for name, value in arguments.items() if _is_missing(state, step, name, value)]
                yield CallForm({"step": step.name, **entry, "missing": sorted(missing)}, _schema(state, step))


def _is_missing(state: WorkflowState, step: Step, name: str, value: Json) -> bool:
    """Whether a person has to give an argument, because nothing else provides it."""
    source, known = step.arguments.get(name), state.plan.known
    is_missing = isinstance(source, PromptArg) and known is not None and source.name not in known.arguments
    return is_missing or value in (f"<missing: {name}>", f"<invalid: {name}>")


def _schema(state: WorkflowState, step: Step) -> JsonObject | None:
    try:
        return state.execution.server.tools[step.tool or ""].input_schema
    except (BatonError, ProtocolError):
        logger.exception("tool %s: its input schema cannot be shown", step.tool)
        return None
