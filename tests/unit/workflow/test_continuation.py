"""What a call that names a task writes to it, decided against the task as it stands."""

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import PAUSE_REASON, PROGRESS, StepStatus, TaskRecord, TaskStatus, steps_of
from mcp_baton.tasks.store import Batch, ClearPause, SetPause, StepWrite
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.workflow.continuation import Call, attempts_for, continuation_batch
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.host import Failed, Outcome, Succeeded
from mcp_baton.workflow.pause import DeadlineExceeded, PauseReason, SchemaMismatch, ToolFailed
from tests.fakes import plan_of

PENDING, COMPLETED, FAILED, SKIPPED = StepStatus
STEPS = [
    Step("fetch", tool="fetch"),
    Step("mail1", tool="mail"),
    Step("policy", resources=["docs://faq"]),
    Step("mail2", tool="mail", retryable=True),
]
WORKFLOW = Workflow(name="w", description="d", steps=STEPS)
BLOCKED_MAIL1 = SchemaMismatch("mail1", ("to",), (), "mail")


def task(*statuses: StepStatus, pause: PauseReason | None = None) -> TaskRecord:
    variables: dict[str, Json] = {PROGRESS: cast("JsonObject", WORKFLOW.progress(statuses))}
    if pause:
        variables[PAUSE_REASON] = pause.to_json()
    return TaskRecord("kim", "t", TaskStatus.WORKING, "", "", 1, 1, variables)


def continued(task: TaskRecord, tool: str, outcome: Outcome, variables: TaskVariables | None = None) -> Batch:
    changes = TaskVariables({}) if variables is None else variables
    return continuation_batch(plan_of(task, WORKFLOW), Call(tool, {}), outcome, changes)


@pytest.mark.parametrize(
    ("statuses", "outcome", "written"),
    [
        pytest.param(
            (COMPLETED, PENDING, PENDING, PENDING),
            Succeeded(1),
            StepWrite(1, "mail1", PENDING, COMPLETED, 1, {}),
            id="the first pending one",
        ),
        pytest.param(
            (PENDING, COMPLETED, PENDING, PENDING),
            Succeeded(1),
            StepWrite(3, "mail2", PENDING, COMPLETED, 1, {}),
            id="the next pending one, whatever stands before it",
        ),
        pytest.param(
            (COMPLETED, FAILED, PENDING, PENDING),
            Succeeded(1),
            StepWrite(1, "mail1", FAILED, COMPLETED, 1, {}),
            id="a failed one before a pending one",
        ),
        pytest.param(
            (COMPLETED, COMPLETED, PENDING, FAILED),
            Failed("no"),
            StepWrite(3, "mail2", FAILED, FAILED, {"error": "no"}, {}),
            id="a failed one fails again",
        ),
        pytest.param(
            (COMPLETED, PENDING, PENDING, PENDING),
            Failed("no"),
            StepWrite(1, "mail1", PENDING, FAILED, {"error": "no"}, {}),
            id="a pending one fails",
        ),
        pytest.param(
            (COMPLETED, COMPLETED, PENDING, COMPLETED),
            Succeeded(2),
            StepWrite(3, "mail2", COMPLETED, COMPLETED, 2, {}),
            id="the last completed one is overwritten",
        ),
        pytest.param(
            (COMPLETED, COMPLETED, PENDING, SKIPPED),
            Succeeded(2),
            StepWrite(1, "mail1", COMPLETED, COMPLETED, 2, {}),
            id="a skipped one is passed over",
        ),
    ],
)
def test_a_call_is_recorded_in_the_step_that_it_fits(
    statuses: tuple[StepStatus, ...], outcome: Outcome, written: StepWrite
) -> None:
    batch = continued(task(*statuses), "mail", outcome)

    assert (batch.steps, batch.variables, batch.result) == ((written,), {}, None)


@pytest.mark.parametrize(
    ("statuses", "tool", "outcome", "extra"),
    [
        pytest.param((PENDING,) * 4, "other", Succeeded([1]), {"_workflow.extra.other": [1]}, id="no such step"),
        pytest.param((PENDING,) * 4, "other", Failed("no"), {"_workflow.extra.other": {"error": "no"}}, id="failed"),
        pytest.param(
            (COMPLETED, COMPLETED, PENDING, COMPLETED),
            "mail",
            Failed("no"),
            {"_workflow.extra.mail": {"error": "no"}},
            id="a failure never overwrites a completed step's result",
        ),
        pytest.param((SKIPPED,) * 4, "mail", Succeeded(1), {"_workflow.extra.mail": 1}, id="all skipped"),
    ],
)
def test_a_call_that_fits_no_step_is_an_extra_and_changes_nothing_else(
    statuses: tuple[StepStatus, ...], tool: str, outcome: Outcome, extra: dict[str, Json]
) -> None:
    batch = continued(task(*statuses, pause=BLOCKED_MAIL1), tool, outcome)

    still_open = sum(not status.settled for status in statuses)
    assert batch == Batch(variables=extra, open_steps=max(1, still_open))


def test_a_call_against_a_task_without_progress_is_an_extra() -> None:
    bare = TaskRecord("kim", "t", TaskStatus.WORKING, "", "", 1, 1, {})

    assert continued(bare, "mail", Succeeded(1)) == Batch(variables={"_workflow.extra.mail": 1}, open_steps=1)


def test_a_completed_step_takes_the_reason_that_names_it_away() -> None:
    batch = continued(task(COMPLETED, PENDING, PENDING, PENDING, pause=BLOCKED_MAIL1), "mail", Succeeded(1))

    assert batch.pause == ClearPause(BLOCKED_MAIL1.to_json())


@pytest.mark.parametrize("pause", [None, DeadlineExceeded("mail2", "mail"), ToolFailed("fetch", "x", True, "fetch")])
def test_a_completed_step_leaves_another_steps_reason(pause: PauseReason | None) -> None:
    batch = continued(task(FAILED, PENDING, PENDING, PENDING, pause=pause), "mail", Succeeded(1))

    assert batch.pause is None


@pytest.mark.parametrize(
    ("statuses", "step", "retryable"),
    [
        ((COMPLETED, PENDING, PENDING, PENDING), "mail1", False),
        ((COMPLETED, COMPLETED, PENDING, PENDING), "mail2", True),
    ],
)
def test_a_step_that_fails_leaves_its_reason(statuses: tuple[StepStatus, ...], step: str, retryable: bool) -> None:
    batch = continued(task(*statuses, pause=BLOCKED_MAIL1), "mail", Failed("no"))

    assert batch.pause == SetPause(ToolFailed(step, "no", retryable, "mail").to_json())


def test_what_the_tool_changed_goes_along() -> None:
    variables = TaskVariables({"gone": 1})
    variables["new"] = 2
    del variables["gone"]

    batch = continued(task(PENDING, PENDING, PENDING, PENDING), "other", Succeeded(3), variables)

    assert batch.variables == {"new": 2, "_workflow.extra.other": 3}
    assert batch.removed == {"gone"}


def test_every_continuation_has_attempts_for_all_that_others_can_change() -> None:
    assert attempts_for(steps_of(task(*[PENDING] * 4)), "mail") > 2 * 2
    assert attempts_for(steps_of(task(*[PENDING] * 4)), "other") > 1


STATUSES = st.tuples(*[st.sampled_from(list(StepStatus))] * 4)
OUTCOMES = st.builds(Succeeded, st.integers()) | st.builds(Failed, st.text())


@given(STATUSES, st.sampled_from(["fetch", "mail", "other"]), OUTCOMES)
def test_no_call_takes_a_settled_step_back_or_completes_the_task(
    statuses: tuple[StepStatus, ...], tool: str, outcome: Outcome
) -> None:
    batch = continued(task(*statuses), tool, outcome)

    assert batch.result is None
    assert len(batch.steps) + len(batch.variables) == 1
    for write in batch.steps:
        assert STEPS[write.index].name == write.name
        assert STEPS[write.index].tool == tool
        assert write.expected is statuses[write.index]
        assert write.expected is not SKIPPED
        assert write.status is COMPLETED or write.expected is not COMPLETED
