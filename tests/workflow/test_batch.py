"""The writes of a run, decided on the current task."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from mcp_baton import ToolStep
from mcp_baton.tasks.record import PAUSE_REASON, PROGRESS, StepStatus, TaskRecord
from mcp_baton.tasks.store import Batch, ClearPause, PauseWrite, SetPause, StepWrite
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.outcomes import Failed, Outcome, Succeeded
from mcp_baton.workflow.batch import run_batch
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.definition_changes import Move
from mcp_baton.workflow.pause import DeadlineExceeded, PauseReason, StepFailed
from mcp_baton.workflow.run import StepTrace
from tests.fakes import task_of

PENDING, COMPLETED, FAILED, SKIPPED = StepStatus
WORKFLOW = Workflow(name="w", description="d", steps=[ToolStep(name, tool=f"do_{name}") for name in "abc"])
FAILED_B = StepFailed("b", "boom", False, "do_b")
LATE_B = DeadlineExceeded("b", "do_b")
LATE_C = DeadlineExceeded("c", "do_c")


def task(letters: str, pause: PauseReason | None = None) -> TaskRecord:
    return task_of(WORKFLOW, letters, pause=pause)


def traces(**outcomes: Outcome) -> list[StepTrace]:
    return [StepTrace(step, {}, (), outcomes[step.name]) for step in WORKFLOW.steps if step.name in outcomes]


def no_variables() -> TaskVariables:
    return TaskVariables({})


def test_a_finished_run_completes_the_task_in_its_last_write() -> None:
    step_traces = traces(a=Succeeded(1), b=Succeeded(None), c=Succeeded({"x": 2}))

    batch = run_batch(task("ppp"), step_traces, None, no_variables(), finished=True)

    assert batch.steps == (
        StepWrite(0, "a", PENDING, COMPLETED, 1),
        StepWrite(1, "b", PENDING, COMPLETED, None),
        StepWrite(2, "c", PENDING, COMPLETED, {"x": 2}),
    )
    assert (batch.pause, batch.result) == (None, {"completed": True, "steps_completed": 3})


def test_a_paused_run_writes_its_results_and_its_pause_reason() -> None:
    step_traces = traces(a=Succeeded(1), b=Failed("boom"))

    batch = run_batch(task("ppp"), step_traces, FAILED_B, no_variables(), finished=False)

    assert batch.steps == (
        StepWrite(0, "a", PENDING, COMPLETED, 1),
        StepWrite(1, "b", PENDING, FAILED, {"error": "boom"}),
    )
    assert (batch.pause, batch.result) == (SetPause(FAILED_B.to_json()), None)


def test_changed_and_removed_variables_are_written() -> None:
    variables = TaskVariables({"gone": 1, "kept": 2})
    variables["new"] = [3]
    del variables["gone"]

    batch = run_batch(task("ppp"), (), LATE_B, variables, finished=False)

    assert (batch.variables, batch.removed) == ({"new": [3]}, frozenset({"gone"}))


RACES = {
    "a failure does not reopen a completed step": ("ccp", Failed("boom"), None),
    "the last result wins": ("ccp", Succeeded(2), StepWrite(1, "b", COMPLETED, COMPLETED, 2)),
    "failed again": ("cfp", Failed("boom"), StepWrite(1, "b", FAILED, FAILED, {"error": "boom"})),
    "a retry that succeeded": ("cfp", Succeeded(2), StepWrite(1, "b", FAILED, COMPLETED, 2)),
    "failed": ("cpp", Failed("boom"), StepWrite(1, "b", PENDING, FAILED, {"error": "boom"})),
}


@pytest.mark.parametrize(("letters", "outcome", "write"), RACES.values(), ids=RACES)
def test_a_lost_race_is_decided_on_the_winners_state(letters: str, outcome: Outcome, write: StepWrite | None) -> None:
    pause = FAILED_B if isinstance(outcome, Failed) else None

    batch = run_batch(task(letters), traces(b=outcome), pause, no_variables(), finished=False)

    assert batch.steps == ((write,) if write else ())


REASONS = {
    "a new reason": ("cpp", None, LATE_B, SetPause(LATE_B.to_json())),
    "replaced": ("cfp", FAILED_B, LATE_B, SetPause(LATE_B.to_json())),
    "the blocked step was completed": ("ccp", None, LATE_B, None),
    "the blocked step was completed, and another step is blocked": ("ccp", LATE_C, LATE_B, None),
    "the stored reason is outdated too": ("ccp", FAILED_B, LATE_B, ClearPause(FAILED_B.to_json())),
    "another run's reason stays": ("cpp", LATE_C, None, None),
    "a checkpoint after the blocked step": ("ccp", FAILED_B, None, ClearPause(FAILED_B.to_json())),
    "a finished run": ("ccc", LATE_C, None, ClearPause(LATE_C.to_json())),
    "nothing to clear": ("ccc", None, None, None),
}


@pytest.mark.parametrize(("statuses", "stored_pause", "pause", "expected_pause"), REASONS.values(), ids=REASONS)
def test_the_pause_reason_matches_the_written_state(
    statuses: str, stored_pause: PauseReason | None, pause: PauseReason | None, expected_pause: PauseWrite
) -> None:
    batch = run_batch(task(statuses, stored_pause), (), pause, no_variables(), finished=statuses == "ccc")

    assert batch.pause == expected_pause


NEXT = Workflow(name="w", description="d", steps=[ToolStep(name, tool=f"do_{name}") for name in "xba"])


def batch_after_move(current: TaskRecord, pause: PauseReason | None = None, **outcomes: Outcome) -> Batch:
    """Return the batch of a run with the next definition that read the task with the previous one."""
    step_traces = [StepTrace(step, {}, (), outcomes[step.name]) for step in NEXT.steps if step.name in outcomes]
    move = Move(WORKFLOW.fingerprint, NEXT)
    return run_batch(current, step_traces, pause, no_variables(), finished=pause is None, move=move)


def with_definition(definition: Workflow, task: TaskRecord) -> TaskRecord:
    return replace(task, definition=definition.fingerprint)


def test_a_move_writes_the_new_steps_and_deletes_the_data_of_removed_ones() -> None:
    current = with_definition(WORKFLOW, task("cfp", LATE_C))

    batch = batch_after_move(current, LATE_B, x=Succeeded(1))

    assert batch.variables == {PROGRESS: NEXT.progress([PENDING, FAILED, COMPLETED])}
    assert batch.steps == (StepWrite(0, "x", PENDING, COMPLETED, 1),)
    assert (batch.removed, batch.definition) == (frozenset({"_workflow.result.c"}), NEXT.fingerprint)
    assert batch.pause == SetPause(LATE_B.to_json())


def test_a_move_deletes_a_pause_reason_whose_step_was_removed() -> None:
    current = with_definition(WORKFLOW, task("cpp", LATE_C))

    batch = run_batch(current, (), None, no_variables(), finished=False, move=Move(WORKFLOW.fingerprint, NEXT))

    assert batch.pause == ClearPause(LATE_C.to_json())


def test_a_removed_step_that_a_continuation_completed_keeps_its_result() -> None:
    batch = batch_after_move(with_definition(WORKFLOW, task("cpc")), LATE_B)

    assert batch.removed == frozenset()


def test_a_task_that_another_run_has_moved_is_not_moved_back() -> None:
    current = with_definition(NEXT, task("cpp"))

    batch = batch_after_move(current, LATE_B, x=Succeeded(1), b=Failed("no"))

    assert (batch.definition, batch.variables, batch.removed) == (None, {}, frozenset())
    # Step `c` is not in this run's definition, and step `x` is not in the task's.
    assert [write.name for write in batch.steps] == ["b"]


def test_a_reason_without_a_step_is_deleted_only_by_a_finished_run() -> None:
    odd_task = task_of(WORKFLOW, "ccc", {PAUSE_REASON: {"type": "?"}})

    assert run_batch(odd_task, (), None, no_variables(), finished=False).pause is None
    assert run_batch(odd_task, (), None, no_variables(), finished=True).pause == ClearPause({"type": "?"})


@pytest.mark.parametrize(
    ("statuses", "outcomes", "result"),
    [
        ("ppp", {"a": Succeeded(1), "b": Succeeded(1), "c": Succeeded(1)}, 3),
        ("csp", {"c": Succeeded(1)}, 2),
        ("cpp", {"c": Succeeded(1)}, None),
        ("cfp", {"c": Succeeded(1)}, None),
    ],
)
def test_a_task_is_completed_when_every_step_is_settled(
    statuses: str, outcomes: Mapping[str, Outcome], result: int | None
) -> None:
    batch = run_batch(task(statuses), traces(**outcomes), None, no_variables(), finished=True)

    assert batch.result == (None if result is None else {"completed": True, "steps_completed": result})
