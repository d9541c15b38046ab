"""The board of a task, and what of it fits into a result: hosts cut results of more than about 25,000 tokens
(docs/console.md, How much is shown)."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from msgspec import Struct

from mcp_baton.exceptions import BatonError, ProtocolError, StoreError
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.server.definitions.resource import value_uri
from mcp_baton.server.definitions.workflow_tool import WorkflowTool
from mcp_baton.server.request import Request
from mcp_baton.server.workflows.continuations import plan_of
from mcp_baton.server.workflows.engine_host import ServerHost
from mcp_baton.server.workflows.result_meta import task_meta
from mcp_baton.server.workflows.task_ids import handle_of
from mcp_baton.server.workflows.task_view import facts_of, readable, shown_pause
from mcp_baton.tasks.record import PAUSED, RESULT_PREFIX, StepStatus, TaskRecord, paused_step, timestamp
from mcp_baton.tasks.values import StoredValues, Weight, weight_of
from mcp_baton.workflow.definition import ANSWERS, Step
from mcp_baton.workflow.definition_changes import differing
from mcp_baton.workflow.handoff import RemainingCalls, Requirements, answer_call, uris_of
from mcp_baton.workflow.pause import PauseReason, parse_pause
from mcp_baton.workflow.plan import Plan
from mcp_baton.workflow.repeats import may_have_run
from mcp_baton.workflow.resolve import Known, NoOutput, NotGiven, NoVariable
from mcp_baton.workflow.run_text import cut
from mcp_baton.workflow.sources import Found
from mcp_baton.workflow.stored_calls import shown_call

LONG: Final = 2_000
"""The longest value in a board, bytes of JSON. A longer one is replaced by `{bytes, uri}`, or `{bytes}`."""

ALL: Final = 40_000
"""The longest structured content, bytes of JSON."""


class Part(Struct, frozen=True):
    """A value of a step.

    Attributes:
        step: The index of the step.
        member: `result` or `arguments`.
        value: The value. `None` if it was not read.
        size: Its length, bytes of JSON.
        note: Replaces it if it does not fit.
    """

    step: int
    member: str
    value: Json
    size: int
    note: JsonObject

    @property
    def more(self) -> int:
        """The bytes that the value takes more than its note. A result appears twice: in its step, and in `results`."""
        return (self.size - size_of(self.note)) * (2 if self.member == "result" else 1)


class RemainingCall(Struct, frozen=True):
    """A remaining call, or a resource that remains to be read.

    Attributes:
        entry: Its entry in `next`.
        missing: The names of the arguments without a value.
        schema: The input schema of its tool, without `task_id`. `None` for a resource.
    """

    entry: JsonObject
    missing: Sequence[str]
    schema: JsonObject | None


class Fitted(Struct, frozen=True):
    """What fits into the structured content.

    Attributes:
        whole: The parts with their values. The others are replaced by their notes.
        calls: The calls, at least the first.
        with_schema: The indexes of the calls with their schemas.
    """

    whole: frozenset[tuple[int, str]]
    calls: Sequence[RemainingCall]
    with_schema: frozenset[int]


def fitted(bare: int, parts: Sequence[Part], calls: Sequence[RemainingCall]) -> Fitted:
    """Choose what fits: the first call with its schema, the next calls in order, the shortest values, and the schemas
    of the other calls.

    Args:
        bare: The bytes of the structure with notes only and without calls.
        parts: The values.
        calls: The remaining calls, in order.
    """
    left = ALL - bare
    shown: list[RemainingCall] = []
    with_schema: set[int] = set()
    for place, call in enumerate(calls):
        cost = _cost(call)
        if place and cost > left:
            break
        shown.append(call)
        left -= cost
        if place == 0 and call.schema is not None and size_of(call.schema) <= left:
            with_schema.add(place)
            left -= size_of(call.schema)
    whole: set[tuple[int, str]] = set()
    for part in sorted(parts, key=lambda part: part.size):
        if part.size <= LONG and part.more <= left:
            whole.add((part.step, part.member))
            left -= part.more
    for place, call in enumerate(shown):
        if place not in with_schema and call.schema is not None and size_of(call.schema) <= left:
            with_schema.add(place)
            left -= size_of(call.schema)
    return Fitted(frozenset(whole), shown, frozenset(with_schema))


def _cost(call: RemainingCall) -> int:
    """An entry appears twice: in `next`, and in that of the board, which also has the missing arguments."""
    return 2 * size_of(call.entry) + size_of(list(call.missing)) + len('"missing":,"schema":,,')


def size_of(value: Json) -> int:
    """The length of a value, bytes of JSON."""
    return len(dumps(value).encode())


def shown(part: Part, fits: Fitted) -> Json:
    """The value or its note."""
    return part.value if (part.step, part.member) in fits.whole else dict(part.note)


def of_board(call: RemainingCall, *, with_schema: bool) -> Mapping[str, Json]:
    """The entry of a call in the board."""
    made: dict[str, Json] = {**call.entry}
    if "tool" in call.entry:
        made["missing"] = list(call.missing)
    return made | {"schema": call.schema} if with_schema and call.schema is not None else made


class Inside(StoredValues):
    """The variables in a task's item. Of the others only the sizes are known: nothing is fetched."""

    def __init__(self, task: TaskRecord) -> None:
        self._task = task
        self._variables = task.variables
        self._names = {name: None for name in task.variables if not is_outside(task, name)}

    def __getitem__(self, name: str) -> Json:
        if name not in self._names:
            raise KeyError(name)
        return self._variables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def weight(self, name: str) -> Weight:
        """The size of a value, wherever it is stored."""
        weight = weight_of(self._task, name)
        if weight is None:
            raise KeyError(name)
        return weight

    def holds(self, _name: str, _text: bytes) -> bool | None:
        """Unknown until the value is read."""
        return None

    def text(self, name: str) -> Iterator[str]:
        """The JSON text of a value."""
        yield dumps(self[name])

    def read_ahead(self, _names: Iterable[str]) -> None:
        """Do nothing: all of them have been read."""


def inside(task: TaskRecord) -> TaskRecord:
    """A task with only the variables in its item."""
    return replace(task, variables=Inside(task))


def is_outside(task: TaskRecord, name: str) -> bool:
    """Whether a variable exists and is stored outside the task's item."""
    weight = weight_of(task, name)
    return weight is not None and weight.outside


def described(plan: Plan, timings: Mapping[str, Json]) -> list[dict[str, Json]]:
    """The steps without their values: name, tool or resource, status, error.

    Args:
        plan: The plan of the task.
        timings: When each step ran, `{"at", "ms"}` by its name.
    """
    made = []
    for step in plan.steps:
        entry: dict[str, Json] = {"name": step["name"]}
        if "tool" in step:
            entry["tool"] = step["tool"]
        elif "ask" in step:
            entry["ask"] = step["ask"]
        else:
            entry |= _resource(plan, step["name"])
        entry["status"] = step["status"]
        if step["status"] == StepStatus.FAILED:
            entry |= _error(plan.task, step["name"])
        timing = timings.get(step["name"])
        made.append({**entry, **(timing if isinstance(timing, Mapping) else {})})
    return made


def parts_of(task: TaskRecord, plan: Plan, tools: Requirements) -> list[Part]:
    """The results of completed steps, and the known arguments of all steps.

    Args:
        task: The task as it was read.
        plan: Its plan, with only the variables in its item.
        tools: The required arguments of the tools.
    """
    made: list[Part] = []
    for place, step in enumerate(plan.steps):
        if "tool" not in step:
            continue
        if step["status"] == StepStatus.COMPLETED:
            made += _result(task, place, step["name"])
        arguments = _arguments(plan, step["name"], tools, done=step["status"] == StepStatus.COMPLETED)
        if arguments is not None:
            size = size_of(arguments)
            made.append(Part(place, "arguments", arguments, size, {"bytes": size}))
    return made


def _result(task: TaskRecord, place: int, step: str) -> Iterator[Part]:
    name = f"{RESULT_PREFIX}{step}"
    weight = weight_of(task, name)
    if weight is None:
        return
    at_hand = weight.text_bytes <= LONG and not weight.outside
    size = weight.text_bytes if at_hand else max(weight.text_bytes, LONG + 1)
    note: JsonObject = {"bytes": weight.text_bytes, "uri": value_uri(task.task_id, name)}
    yield Part(place, "result", readable(task, name) if at_hand else None, size, note)


def _arguments(plan: Plan, name: str, tools: Requirements, *, done: bool) -> JsonObject | None:
    """The arguments of a step, with placeholders for secrets and long values."""
    try:
        kept = shown_call(plan.task.variables, name) if done else None
    except StoreError:
        return None
    step = plan.workflow.step(name) if plan.workflow else None
    if kept is not None or step is None or plan.known is None:
        return kept
    return RemainingCalls(plan.known, tools, plan.pause).arguments(step)


def _resource(plan: Plan, name: str) -> dict[str, Json]:
    step = plan.workflow.step(name) if plan.workflow else None
    if step is None or plan.known is None:
        return {}
    return {"resource": ", ".join(uris_of(step, plan.known).values())}


def _error(task: TaskRecord, step: str) -> dict[str, Json]:
    name = f"{RESULT_PREFIX}{step}"
    weight = weight_of(task, name)
    if weight is None or weight.outside:
        return {}
    stored = readable(task, name)
    error = stored.get("error") if isinstance(stored, Mapping) else None
    return {"error": cut(error)} if isinstance(error, str) else {}


logger = logging.getLogger(__name__)


class State(Struct, frozen=True):
    """The state of a task.

    Attributes:
        task: The task as it was read.
        plan: Its plan, with only the variables in its item.
        pause: The pause reason as JSON.
        reason: The pause reason.
        why: The pause reason as a text.
        warning: A text that names the open steps that may have run already; empty if there are none.
        running_until: When the claim of the current run expires, ISO 8601. `None` without a run.
        calls: The remaining calls, in order.
        can_go_on: Whether the server can resume it now.
    """

    task: TaskRecord
    plan: Plan
    pause: JsonObject | None
    reason: PauseReason | None
    why: str
    warning: str
    running_until: str | None
    calls: Sequence[RemainingCall]
    can_go_on: bool

    @property
    def live(self) -> bool:
        """Whether it has not ended."""
        return not self.task.status.terminal


def state_of(request: Request, tool: WorkflowTool, task: TaskRecord) -> State:
    """The state of a task of this workflow. Only the task's item is read, and its arguments if they are stored outside
    it."""
    plan = plan_of(request, inside(task))
    now_ms = request.now_ms()
    pause = shown_pause(task, lambda: now_ms)
    reason = parse_pause(pause)
    held = task.claim is not None and not task.status.terminal and task.claim.holds_at(now_ms)
    until = timestamp(task.claim.until_ms) if held and task.claim is not None else None
    can_go_on = not task.status.terminal and not held and not differing(tool.workflow, task)
    calls = _calls(request, task, plan, can_go_on=can_go_on)
    why = reason.what_happened() if reason else ""
    warning = " ".join(may_have_run(plan.repeats(), plan.why_repeated))
    return State(task, plan, pause, reason, why, warning, until, calls, can_go_on)


def structure_of(request: Request, tool: WorkflowTool, state: State, message: str) -> dict[str, Json]:
    """The structured content: that of the workflow's tool, and `board`. It has at most 40 KB of JSON, not counting the
    names and statuses of the steps (docs/console.md, How much is shown)."""
    task, meta = state.task, task_meta(request, state.task)
    facts = facts_of(task)
    timings = facts.pop("timings", None)
    steps = described(state.plan, timings if isinstance(timings, Mapping) else {})
    parts = parts_of(task, state.plan, ServerHost(request))
    made: dict[str, Json] = {"message": message}
    made |= {name: meta[name] for name in ("task_id", "task_status", "steps", "pause_reason") if name in meta}
    if state.running_until is not None:
        made["running_until"] = state.running_until
    elif state.warning:
        made["warning"] = state.warning
    nothing = Fitted(frozenset(), (), frozenset())

    def filled(fits: Fitted) -> dict[str, Json]:
        values: list[dict[str, Json]] = [{} for _ in steps]
        for part in parts:
            values[part.step][part.member] = shown(part, fits)
        results = {part.step: part for part in parts if part.member == "result"}
        for place, part in results.items():
            values[place]["bytes"] = part.note["bytes"]
        return {
            **made,
            "results": {str(steps[place]["name"]): shown(part, fits) for place, part in results.items()},
            "next": [call.entry for call in fits.calls],
            "board": {
                "workflow": tool.workflow.name,
                "workflow_tool": tool.name,
                "task": {**_head(state), **facts},
                "steps": [{**step, **value} for step, value in zip(steps, values, strict=True)],
                "pause": _pause(state),
                "running_until": state.running_until,
                "next": [
                    of_board(call, with_schema=place in fits.with_schema) for place, call in enumerate(fits.calls)
                ],
                "secrets": _secrets(state),
                "can": {"go_on": state.can_go_on, "complete": state.live, "cancel": state.live},
            },
        }

    return filled(fitted(size_of(filled(nothing)), parts, state.calls))


def _head(state: State) -> JsonObject:
    task = state.task
    created_ms = round(datetime.fromisoformat(task.created_at).timestamp() * 1000)
    return {
        "task_id": task.task_id,
        "status": task.status.value,
        "status_message": task.status_message or (PAUSED if state.pause and state.live else None),
        "created_at": task.created_at,
        "updated_at": task.updated_at,
        "expires_at": timestamp(created_ms + task.ttl_ms),
    }


def _pause(state: State) -> JsonObject | None:
    if state.pause is None or not state.live:
        return None
    return {**state.pause, "step": paused_step(state.pause), "message": state.why}


def _secrets(state: State) -> list[str]:
    """The secret arguments that a resume needs again."""
    known = state.plan.known
    left = known is not None and not all(status.settled for status in known.statuses.values())
    return sorted(known.secrets.names) if known and left and state.live else []


def _calls(request: Request, task: TaskRecord, plan: Plan, *, can_go_on: bool) -> list[RemainingCall]:
    """The remaining calls. If every step is settled, the call of the workflow's tool that finishes the task."""
    workflow, known = plan.workflow, plan.known
    if workflow is None or known is None or plan.task.status.terminal:
        return []
    tools, handle = ServerHost(request), handle_of(request.server, workflow, plan.task.task_id)
    made = []
    answer, remaining = answer_call(known, handle), RemainingCalls(known, tools, plan.pause, handle)
    own = request.server.workflow_tool(workflow.name)
    if answer is not None and own is not None:
        made.append(RemainingCall(answer, [ANSWERS], own.input_schema))
    for step in known.open_steps:
        if step.ask is not None:
            continue
        refused = plan.refused(step)
        for entry in remaining.entries_of(step):
            missing = _missing(task, step, known, tools) | refused if "tool" in entry else frozenset()
            made.append(RemainingCall(entry, sorted(missing), _schema(request, step.tool) if "tool" in entry else None))
    if made or not can_go_on:
        return made
    return [RemainingCall(entry, (), None) for entry in handle.finishing()]


def _missing(task: TaskRecord, step: Step, known: Known, tools: Requirements) -> frozenset[str]:
    """The arguments that must be given: no later step and no value outside the task's item provides them."""
    required = tools.required(step.tool or "")
    missing = {name for name in required if name not in step.arguments}
    for name, source in step.arguments.items():
        match known.resolve(source):
            case Found():
                continue
            case NotGiven():
                missing |= {name} & required
            case NoOutput(step=producer) if _is_to_come(task, producer, known):
                continue
            case NoVariable(name=variable) if is_outside(task, variable):
                continue
            case _:
                missing.add(name)
    return frozenset(missing - known.answers.get(step.name, {}).keys())


def _is_to_come(task: TaskRecord, producer: Step, known: Known) -> bool:
    return not known.statuses[producer.name].settled or is_outside(task, f"{RESULT_PREFIX}{producer.name}")


def _schema(request: Request, tool: str | None) -> JsonObject | None:
    """A tool's input schema. `None` if a type of the author cannot be described."""
    try:
        return request.server.tools[tool or ""].input_schema
    except (BatonError, ProtocolError):
        logger.exception("tool %s: its input schema cannot be shown", tool)
        return None


def done_of(state: State) -> tuple[int, int]:
    """The numbers of settled steps and of all steps."""
    statuses = [StepStatus(step["status"]) for step in state.plan.steps]
    return sum(status.settled for status in statuses), len(statuses)
