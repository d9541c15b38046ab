"""The writes of a run, decided on the current task."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from mcp_baton import ToolStep
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.record import PAUSE_REASONS, PROGRESS, StepStatus, TaskRecord
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


def test_a_finished_run_completes_the_task_in_its_last_write() -> None:
    step_traces = traces(a=Succeeded(1), b=Succeeded(None), c=Succeeded({"x": 2}))

    batch = run_batch(task("ppp"), step_traces, (), no_variables(), last=True)

    assert batch.steps == (
        StepWrite(0, "a", PENDING, COMPLETED, 1),
        StepWrite(1, "b", PENDING, COMPLETED, None),
        StepWrite(2, "c", PENDING, COMPLETED, {"x": 2}),
    )
    assert (batch.pauses, batch.result) == (None, {"completed": True, "steps_completed": 3})


def test_a_failure_that_a_call_has_recorded_meanwhile_keeps_its_reason_if_the_run_has_none() -> None:
    own_pause = StepFailed("a", "no", True, "do_a")

    batch = run_batch(task("cfp", FAILED_B), traces(a=Failed("no")), (own_pause,), no_variables(), last=True)

    assert (batch.steps, batch.pauses) == ((), (FAILED_B.to_json(),))


def test_a_paused_run_writes_its_results_and_its_pause_reason() -> None:
    step_traces = traces(a=Succeeded(1), b=Failed("boom"))

    batch = run_batch(task("ppp"), step_traces, (FAILED_B,), no_variables(), last=True)

    assert batch.steps == (
        StepWrite(0, "a", PENDING, COMPLETED, 1),
        StepWrite(1, "b", PENDING, FAILED, {"error": "boom"}),
    )
    assert (batch.pauses, batch.result) == ((FAILED_B.to_json(),), None)


def test_changed_and_removed_variables_are_written() -> None:
    variables = TaskVariables({"gone": 1, "kept": 2})
    variables["new"] = [3]
    del variables["gone"]

    batch = run_batch(task("ppp"), (), (LATE_B,), variables, last=True)

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


def test_a_run_stores_the_reasons_of_all_stopped_steps() -> None:
    batch = run_batch(task("cpp"), (), (LATE_B, LATE_C), no_variables(), last=True)

    assert batch.pauses == (LATE_B.to_json(), LATE_C.to_json())


def test_a_checkpoint_keeps_the_reasons_of_other_steps() -> None:
    stored = task_of(WORKFLOW, "cfp", {PAUSE_REASONS: [FAILED_B.to_json(), LATE_C.to_json()]})

    batch = run_batch(stored, traces(b=Succeeded(1)), (), no_variables(), last=False)

    assert batch.pauses == (LATE_C.to_json(),)


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


def test_a_move_deletes_a_pause_reason_whose_step_was_removed() -> None:
    current = with_definition(WORKFLOW, task("cpp", LATE_C))

    batch = run_batch(current, (), (), no_variables(), last=False, move=Move(WORKFLOW.fingerprint, NEXT))

    assert batch.pauses == ()


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
    odd_task = task_of(WORKFLOW, "ccc", {PAUSE_REASONS: [{"type": "?"}]})

    assert run_batch(odd_task, (), (), no_variables(), last=False).pauses == ()
    assert run_batch(odd_task, (), (), no_variables(), last=True).pauses == ()


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
    batch = run_batch(task(statuses), traces(**outcomes), (), no_variables(), last=True)

    assert batch.result == (None if result is None else {"completed": True, "steps_completed": result})
