"""The writes of a run, decided on the current task."""

import pytest
from msgspec.structs import replace

from mcp_baton import ToolStep
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.record import PROGRESS, StepStatus, TaskRecord
from mcp_baton.tasks.store import Batch, StepWrite
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.outcomes import Failed, Outcome, Succeeded
from mcp_baton.workflow.batch import run_batch
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.definition_changes import Move
from mcp_baton.workflow.pause import DeadlineExceeded, PauseReason, StepFailed
from mcp_baton.workflow.step_run import StepRun
from tests.fakes import task_of

PENDING, COMPLETED, FAILED, SKIPPED = StepStatus
WORKFLOW = Workflow(name="w", description="d", steps=[ToolStep(name, tool=f"do_{name}") for name in "abc"])
FAILED_B = StepFailed("b", "boom", False, "do_b")
LATE_B = DeadlineExceeded("b", "do_b")
LATE_C = DeadlineExceeded("c", "do_c")


def task(letters: str, pause: PauseReason | None = None) -> TaskRecord:
    return task_of(WORKFLOW, letters, pause=pause)


def traces(**outcomes: Outcome) -> list[StepRun]:
    return [StepRun(step, {}, (), outcomes[step.name]) for step in WORKFLOW.steps if step.name in outcomes]


def no_variables() -> TaskVariables:
    return TaskVariables({})


def test_a_failure_that_a_call_has_recorded_meanwhile_keeps_its_reason_if_the_run_has_none() -> None:
    own_pause = StepFailed("a", "no", True, "do_a")

    batch = run_batch(task("cfp", FAILED_B), traces(a=Failed("no")), (own_pause,), no_variables(), last=True)

    assert (batch.steps, batch.pauses) == ((), (FAILED_B.to_json(),))


RACES = {
    "a failure does not reopen a completed step": ("ccp", Failed("boom"), None),
    "the last result wins": ("ccp", Succeeded(2), StepWrite(1, "b", COMPLETED, COMPLETED, 2)),
    "failed again": ("cfp", Failed("boom"), StepWrite(1, "b", FAILED, FAILED, {"error": "boom"})),
    "a retry that succeeded": ("cfp", Succeeded(2), StepWrite(1, "b", FAILED, COMPLETED, 2)),
    "failed": ("cpp", Failed("boom"), StepWrite(1, "b", PENDING, FAILED, {"error": "boom"})),
}


@pytest.mark.parametrize(("letters", "outcome", "write"), RACES.values(), ids=RACES)
def test_a_lost_race_is_decided_on_the_winners_state(letters: str, outcome: Outcome, write: StepWrite | None) -> None:
    pauses = (FAILED_B,) if isinstance(outcome, Failed) else ()

    batch = run_batch(task(letters), traces(b=outcome), pauses, no_variables(), last=False)

    assert batch.steps == ((write,) if write else ())


REASONS = {
    "a new reason": ("cpp", None, LATE_B, (LATE_B.to_json(),)),
    "replaced": ("cfp", FAILED_B, LATE_B, (LATE_B.to_json(),)),
    "the blocked step was completed": ("ccp", None, LATE_B, None),
    "the blocked step was completed, and the stored reason is older": ("ccp", LATE_C, LATE_B, ()),
    "the stored reason is outdated too": ("ccp", FAILED_B, LATE_B, ()),
    "another run's reason stays": ("cpp", LATE_C, None, None),
    "a checkpoint after the blocked step": ("ccp", FAILED_B, None, ()),
    "a finished run": ("ccc", LATE_C, None, ()),
    "nothing to clear": ("ccc", None, None, None),
}


@pytest.mark.parametrize(("statuses", "stored_pause", "pause", "expected"), REASONS.values(), ids=REASONS)
def test_the_pause_reason_matches_the_written_state(
    statuses: str, stored_pause: PauseReason | None, pause: PauseReason | None, expected: tuple[Json, ...] | None
) -> None:
    pauses, is_last = (pause,) if pause else (), pause is not None or statuses == "ccc"

    batch = run_batch(task(statuses, stored_pause), (), pauses, no_variables(), last=is_last)

    assert batch.pauses == expected


NEXT = Workflow(name="w", description="d", steps=[ToolStep(name, tool=f"do_{name}") for name in "xba"])


def batch_after_move(current: TaskRecord, pause: PauseReason | None = None, **outcomes: Outcome) -> Batch:
    """Return the batch of a run with the next definition that read the task with the previous one."""
    step_traces = [StepRun(step, {}, (), outcomes[step.name]) for step in NEXT.steps if step.name in outcomes]
    move = Move(WORKFLOW.fingerprint, NEXT)
    return run_batch(current, step_traces, (pause,) if pause else (), no_variables(), last=True, move=move)


def with_definition(definition: Workflow, task: TaskRecord) -> TaskRecord:
    return replace(task, definition=definition.fingerprint)


def test_a_move_writes_the_new_steps_and_deletes_the_data_of_removed_ones() -> None:
    current = with_definition(WORKFLOW, task("cfp", LATE_C))

    batch = batch_after_move(current, LATE_B, x=Succeeded(1))

    assert batch.variables == {PROGRESS: NEXT.progress([PENDING, FAILED, COMPLETED])}
    assert batch.steps == (StepWrite(0, "x", PENDING, COMPLETED, 1),)
    assert (batch.removed, batch.definition) == (frozenset({"_workflow.result.c"}), NEXT.fingerprint)
    assert batch.pauses == (LATE_B.to_json(),)


def test_a_removed_step_that_a_continuation_completed_keeps_its_result() -> None:
    batch = batch_after_move(with_definition(WORKFLOW, task("cpc")), LATE_B)

    assert batch.removed == frozenset()
