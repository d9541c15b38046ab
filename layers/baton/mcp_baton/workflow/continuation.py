"""Continuation: what a `tools/call` that names a task writes to it (docs/workflows.md). Pure.

The plan is guidance: whatever was called, in whatever order, is recorded where it fits best.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from msgspec import Struct

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import EXTRA_PREFIX, StepProgress, StepStatus, pause_of
from mcp_baton.tasks.store import Batch, ClearPause, PauseWrite, SetPause, StepWrite, Timing
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.workflow.batch import status_of, stored_result, writes_to_come
from mcp_baton.workflow.host import Failed, Outcome, Succeeded
from mcp_baton.workflow.kept_calls import kept_call
from mcp_baton.workflow.matching import Candidate, candidates, choose
from mcp_baton.workflow.pause import ToolFailed, step_named_by
from mcp_baton.workflow.plan import Plan


class Call(Struct, frozen=True):
    """A call of a tool that names a task.

    Attributes:
        tool: The tool.
        arguments: Its arguments, as the client sent them.
        exact: The arguments whose values Baton has put in, exactly as they are stored.
        step: The step whose idempotency key the tool was given, if it was given one: the call is recorded there or
            beside the steps, and never in another one.
    """

    tool: str
    arguments: JsonObject
    step: str | None = None
    exact: tuple[str, ...] = ()


def attempts_for(steps: Sequence[StepProgress], tool: str) -> int:
    """How often a continuation must be ready to try: others move each step of its tool at most twice, and the pause."""
    return 2 * sum(step.get("tool") == tool for step in steps) + 8


def continuation_batch(
    plan: Plan,
    call: Call,
    outcome: Outcome,
    variables: TaskVariables,
    drawn: Callable[[], float] | None = None,
    ranked: Sequence[Candidate] | None = None,
    timing: Timing | None = None,
) -> Batch:
    """Where a call's outcome goes, decided against the task as it stands.

    The step that it fits best takes it; without one it is an extra. A failure never takes the place of a completed
    step's result: it becomes an extra, too.

    Args:
        plan: The plan, against the task as it stands.
        call: The call that was made.
        outcome: How it ended.
        variables: What the tool changed.
        drawn: Gives a number from 0 up to 1: after a lost race, see `choose`.
        ranked: The steps that the call may be, where that has been found out.
        timing: When the call was made, and how long it took.
    """
    place = _place(plan, call, drawn, ranked)
    outcome = _without_secrets(plan, place, call, outcome)
    write = _step_write(plan, place, call, outcome, timing) if place else None
    after = {step["name"]: StepStatus(step["status"]) for step in plan.steps}
    if write:
        after[write.name] = write.status
    extra: dict[str, Json] = {} if write else {f"{EXTRA_PREFIX}{call.tool}": stored_result(outcome)}
    return Batch(
        steps=(write,) if write else (),
        pause=_pause_write(plan, write, call.tool, outcome),
        variables=variables.changed | extra,
        removed=variables.removed,
        open_steps=writes_to_come(after),
    )


def _place(
    plan: Plan, call: Call, drawn: Callable[[], float] | None, ranked: Sequence[Candidate] | None
) -> tuple[int, StepProgress] | None:
    if call.step is not None:
        places = ((index, step) for index, step in enumerate(plan.steps) if step["name"] == call.step)
        return next(places, None)
    chosen = choose(candidates(plan, call.tool, call.arguments, call.exact) if ranked is None else ranked, drawn)
    return (chosen.index, chosen.step) if chosen else None


def _without_secrets(plan: Plan, place: tuple[int, StepProgress] | None, call: Call, outcome: Outcome) -> Outcome:
    """The outcome as it is stored: an error may quote what the tool was called with."""
    if place is None or isinstance(outcome, Succeeded):
        return outcome
    return replace(outcome, error=plan.without_secrets(place[1]["name"], call.arguments, outcome.error))


def _step_write(
    plan: Plan, place: tuple[int, StepProgress], call: Call, outcome: Outcome, timing: Timing | None
) -> StepWrite | None:
    index, step = place
    before = StepStatus(step["status"])
    if before is StepStatus.SKIPPED or (before is StepStatus.COMPLETED and isinstance(outcome, Failed)):
        return None
    kept = kept_call(call.arguments, plan.hidden(step["name"], call.arguments))
    return StepWrite(index, step["name"], before, status_of(outcome), stored_result(outcome), kept, timing)


def _pause_write(plan: Plan, write: StepWrite | None, tool: str, outcome: Outcome) -> PauseWrite:
    if write is None:
        return None
    if isinstance(outcome, Failed):
        retryable = _is_retryable(plan, write.name, outcome)
        return SetPause(ToolFailed(write.name, outcome.error, retryable, tool, error_id=outcome.error_id).to_json())
    stored = pause_of(plan.task)
    if stored is not None and step_named_by(stored) == write.name:
        return ClearPause(stored)
    return None


def _is_retryable(plan: Plan, name: str, failed: Failed) -> bool:
    step = plan.workflow.step(name) if plan.workflow else None
    return step is not None and step.retryable and not failed.final
