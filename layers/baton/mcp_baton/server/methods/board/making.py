"""A task as its page shows it: what a call of a workflow's tool with `task_action` returns (docs/console.md)."""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from mcp_baton.exceptions import BatonError, ProtocolError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.methods.board.fitting import Call, Fitted, fitted, of_board, shown, size_of
from mcp_baton.server.methods.board.parts import described, inside, is_outside, parts_of
from mcp_baton.server.methods.engine_host import ServerHost
from mcp_baton.server.methods.handles import handle_of
from mcp_baton.server.methods.recording import plan_of
from mcp_baton.server.methods.task_meta import shown_pause, task_meta
from mcp_baton.server.methods.task_values import TIMINGS_KEY, timings_shown
from mcp_baton.server.published.twin import Twin
from mcp_baton.server.request import Request
from mcp_baton.tasks.record import PAUSED, RESULT_PREFIX, StepStatus, TaskRecord, timestamp
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.drift import differing
from mcp_baton.workflow.handoff import Requirements, remaining_steps, what_happened
from mcp_baton.workflow.next_calls import entries_of
from mcp_baton.workflow.pause import PauseReason, step_named_by
from mcp_baton.workflow.plan import Plan
from mcp_baton.workflow.repeats import may_have_run
from mcp_baton.workflow.resolve import Known, NoOutput, NotGiven, NoVariable, resolve
from mcp_baton.workflow.sources import Found
from mcp_baton.workflow.stored_pause import pause_in

logger = logging.getLogger(__name__)


class State(Struct, frozen=True):
    """How a task stands.

    Attributes:
        task: The task as it was read.
        plan: Its plan, against what is kept in its item.
        pause: Why it does not go on, as every reader is told.
        reason: The same as data.
        why: The same in words.
        warning: Which open steps may have run already, in words; empty if none may.
        running_until: Until when another run holds it, ISO-8601; `None` where none does.
        calls: What remains, in order.
        can_go_on: Whether the server can go on with it now.
    """

    task: TaskRecord
    plan: Plan
    pause: JsonObject | None
    reason: PauseReason | None
    why: str
    warning: str
    running_until: str | None
    calls: Sequence[Call]
    can_go_on: bool

    @property
    def live(self) -> bool:
        """Whether it is not over."""
        return not self.task.status.terminal


def state_of(request: Request, twin: Twin, task: TaskRecord) -> State:
    """How a task of this workflow stands. Nothing is read for it but the task's item, and its arguments where they are
    kept outside it."""
    plan = plan_of(request, inside(task))
    now_ms = request.now_ms()
    pause = shown_pause(task, lambda: now_ms)
    reason = None if pause is None else pause_in(pause)
    held = task.claim is not None and not task.status.terminal and task.claim.holds_at(now_ms)
    until = timestamp(task.claim.until_ms) if held and task.claim is not None else None
    can_go_on = not task.status.terminal and not held and not differing(twin.workflow, task)
    calls = _calls(request, task, plan, can_go_on=can_go_on)
    why = what_happened(reason) if reason else ""
    warning = " ".join(may_have_run(plan.repeats(), plan.why_repeated))
    return State(task, plan, pause, reason, why, warning, until, calls, can_go_on)


def structure_of(request: Request, twin: Twin, state: State, message: str) -> dict[str, Json]:
    """The structured content: that of the workflow's tool, and `board`. At most 40 KB of JSON, beside the steps' names
    and statuses (docs/console.md, How much is shown)."""
    task, meta = state.task, task_meta(request, state.task)
    timings = timings_shown(task).get(TIMINGS_KEY)
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
                "workflow": twin.workflow.name,
                "twin": twin.name,
                "task": _told(state),
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


def _told(state: State) -> JsonObject:
    task = state.task
    created_ms = round(datetime.fromisoformat(task.created_at).timestamp() * 1000)
    told: JsonObject = {
        "task_id": task.task_id,
        "status": task.status.value,
        "status_message": task.status_message or (PAUSED if state.pause and state.live else None),
        "created_at": task.created_at,
        "updated_at": task.updated_at,
        "expires_at": timestamp(created_ms + task.ttl_ms),
    }
    return {**told, "result_by": "client"} if task.by_client else told


def _pause(state: State) -> JsonObject | None:
    if state.pause is None or not state.live:
        return None
    return {**state.pause, "step": step_named_by(state.pause), "message": state.why}


def _secrets(state: State) -> list[str]:
    """The secret arguments that whoever goes on has to give again."""
    known = state.plan.known
    left = known is not None and not all(status.settled for status in known.statuses.values())
    return sorted(known.secrets.names) if known and left and state.live else []


def _calls(request: Request, task: TaskRecord, plan: Plan, *, can_go_on: bool) -> list[Call]:
    """What remains; with every step settled, the workflow's own tool with the task's id."""
    workflow, known = plan.workflow, plan.known
    if workflow is None or known is None or plan.task.status.terminal:
        return []
    tools, handle = ServerHost(request), handle_of(request, workflow, plan.task.task_id)
    made = []
    for step in remaining_steps(workflow, known):
        refused = plan.refused(step)
        for entry in entries_of(step, workflow, known, tools, refused, handle):
            missing = _missing(task, step, workflow, known, tools) | refused if "tool" in entry else frozenset()
            made.append(Call(entry, sorted(missing), _schema(request, step.tool) if "tool" in entry else None))
    if made or not can_go_on:
        return made
    return [Call(entry, (), None) for entry in handle.finishing()]


def _missing(task: TaskRecord, step: Step, workflow: Workflow, known: Known, tools: Requirements) -> frozenset[str]:
    """The arguments that neither a step to come nor a value outside the task's item provides: somebody has to give
    them."""
    required = tools.required(step.tool or "")
    missing = {name for name in required if name not in step.arguments}
    for name, source in step.arguments.items():
        match resolve(source, workflow, known):
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
    """A tool's input schema; `None` where a type of the author's cannot be described."""
    try:
        return request.server.tools[tool or ""].input_schema
    except (BatonError, ProtocolError):
        logger.exception("tool %s: its input schema cannot be shown", tool)
        return None


def done_of(state: State) -> tuple[int, int]:
    """How many of a task's steps are settled, and how many there are."""
    statuses = [StepStatus(step["status"]) for step in state.plan.steps]
    return sum(status.settled for status in statuses), len(statuses)
