"""Continuation: what a `tools/call` that names a task writes to it (docs/workflows.md). Pure.

The plan is guidance: whatever was called, in whatever order, is recorded where it fits best.
"""

from collections.abc import Callable, Sequence

from mcp_baton.protocol.json import Json
from mcp_baton.tasks.record import (
    EXTRA_PREFIX,
    StepProgress,
    StepStatus,
    TaskRecord,
    pause_of,
)
from mcp_baton.tasks.store import Batch, ClearPause, PauseWrite, SetPause, StepWrite
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.workflow.batch import status_of, stored_result, writes_to_come
from mcp_baton.workflow.drift import statuses_of
from mcp_baton.workflow.host import Failed, Outcome
from mcp_baton.workflow.pause import ToolFailed, step_named_by


def attempts_for(steps: Sequence[StepProgress], tool: str) -> int:
    """How often a continuation must be ready to try: others move each step of its tool at most twice, and the pause."""
    return 2 * sum(step.get("tool") == tool for step in steps) + 8


def continuation_batch(
    task: TaskRecord,
    steps: Sequence[StepProgress],
    tool: str,
    outcome: Outcome,
    variables: TaskVariables,
    retryable: Callable[[str], bool],
) -> Batch:
    """Where a call's outcome goes, decided against the task as it stands.

    The first pending or failed step with that tool takes it; else the last completed one's result is overwritten; else
    it is an extra. A failure never takes the place of a completed step's result: it becomes an extra, too.

    Args:
        task: The task as it stands.
        steps: Its steps.
        tool: The tool that was called.
        outcome: How the call ended.
        variables: What the tool changed.
        retryable: Whether the step of this name is retryable.
    """
    write = _matching_step(steps, tool, outcome)
    extra: dict[str, Json] = {} if write else {f"{EXTRA_PREFIX}{tool}": stored_result(outcome)}
    return Batch(
        steps=(write,) if write else (),
        pause=_pause_write(task, write, tool, outcome, retryable),
        variables=variables.changed | extra,
        removed=variables.removed,
        open_steps=writes_to_come(statuses_of(task) | ({write.name: write.status} if write else {})),
    )


def _matching_step(steps: Sequence[StepProgress], tool: str, outcome: Outcome) -> StepWrite | None:
    candidates = [(index, step) for index, step in enumerate(steps) if step.get("tool") == tool]
    open_statuses = {StepStatus.PENDING.value, StepStatus.FAILED.value}
    for index, step in candidates:
        if step["status"] in open_statuses:
            return _write(index, step, status_of(outcome), outcome)
    for index, step in reversed(candidates):
        if step["status"] == StepStatus.COMPLETED.value and not isinstance(outcome, Failed):
            return _write(index, step, StepStatus.COMPLETED, outcome)
    return None


def _write(index: int, step: StepProgress, status: StepStatus, outcome: Outcome) -> StepWrite:
    return StepWrite(index, step["name"], StepStatus(step["status"]), status, stored_result(outcome))


def _pause_write(
    task: TaskRecord, write: StepWrite | None, tool: str, outcome: Outcome, retryable: Callable[[str], bool]
) -> PauseWrite:
    if write is None:
        return None
    if isinstance(outcome, Failed):
        return SetPause(ToolFailed(write.name, outcome.error, retryable(write.name), tool).to_json())
    stored = pause_of(task)
    if stored is not None and step_named_by(stored) == write.name:
        return ClearPause(stored)
    return None
