"""The writes of a continuation, decided on the current task."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton import Fetch, ToolStep
from mcp_baton.exceptions import ToolError
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.record import StepStatus, TaskRecord, TaskStatus
from mcp_baton.tasks.store import Batch, StepWrite
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.outcomes import Failed, Outcome, Succeeded
from mcp_baton.workflow.continuation import ContinuationCall, attempts_for, continuation_batch, matching_step
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.pause import DeadlineExceeded, PauseReason, SchemaMismatch, StepFailed
from tests.fakes import plan_of, statuses_of, task_of

PENDING, COMPLETED, FAILED, SKIPPED = StepStatus
STEPS = [
    ToolStep("fetch", tool="fetch"),
    ToolStep("mail1", tool="mail"),
    Fetch("policy", resources=["docs://faq"]),
    ToolStep("mail2", tool="mail", retryable=True),
]
WORKFLOW = Workflow(name="w", description="d", steps=STEPS)
BLOCKED_MAIL1 = SchemaMismatch("mail1", ("to",), (), "mail")


def task(letters: str, pause: PauseReason | None = None) -> TaskRecord:
    return task_of(WORKFLOW, letters, pause=pause)


def batch_of(task: TaskRecord, tool: str, outcome: Outcome, variables: TaskVariables | None = None) -> Batch:
    changes, plan = TaskVariables({}) if variables is None else variables, plan_of(task, WORKFLOW)
    return continuation_batch(plan, ContinuationCall(tool, {}), outcome, changes, matching_step(plan, tool, {}))


FITTING = {
    "the first pending one": ("cppp", Succeeded(1), StepWrite(1, "mail1", PENDING, COMPLETED, 1, {})),
    "the next pending one, even after an open step": (
        "pcpp",
        Succeeded(1),
        StepWrite(3, "mail2", PENDING, COMPLETED, 1, {}),
    ),
    "a failed one before a pending one": ("cfpp", Succeeded(1), StepWrite(1, "mail1", FAILED, COMPLETED, 1, {})),
    "a failed one fails again": ("ccpf", Failed("no"), StepWrite(3, "mail2", FAILED, FAILED, {"error": "no"}, {})),
    "a pending one fails": ("cppp", Failed("no"), StepWrite(1, "mail1", PENDING, FAILED, {"error": "no"}, {})),
    "the last completed one is overwritten": ("ccpc", Succeeded(2), StepWrite(3, "mail2", COMPLETED, COMPLETED, 2, {})),
    "a skipped one is passed over": ("ccps", Succeeded(2), StepWrite(1, "mail1", COMPLETED, COMPLETED, 2, {})),
}


@pytest.mark.parametrize(("statuses", "outcome", "expected"), FITTING.values(), ids=FITTING)
def test_a_call_is_recorded_as_the_step_that_it_matches(statuses: str, outcome: Outcome, expected: StepWrite) -> None:
    batch = batch_of(task(statuses), "mail", outcome)

    assert (batch.steps, batch.variables, batch.result) == ((expected,), {}, None)


EXTRA = {
    "no such step": ("pppp", "other", Succeeded([1]), [1]),
    "failed": ("pppp", "other", Failed("no"), {"error": "no"}),
    "a failure never overwrites a completed step's result": ("ccpc", "mail", Failed("no"), {"error": "no"}),
    "all skipped": ("ssss", "mail", Succeeded(1), 1),
}


@pytest.mark.parametrize(("statuses", "tool", "outcome", "value"), EXTRA.values(), ids=EXTRA)
def test_a_call_that_matches_no_step_is_an_extra_call(statuses: str, tool: str, outcome: Outcome, value: Json) -> None:
    batch = batch_of(task(statuses, BLOCKED_MAIL1), tool, outcome)

    assert batch == Batch(variables={f"_workflow.extra.{tool}": value})


def test_a_call_for_a_task_without_progress_is_an_extra_call() -> None:
    bare = TaskRecord("kim", "t", TaskStatus.WORKING, "", "", 1, 1, {})

    assert batch_of(bare, "mail", Succeeded(1)) == Batch(variables={"_workflow.extra.mail": 1})


def test_a_completed_step_deletes_the_pause_reason_that_names_it() -> None:
    batch = batch_of(task("cppp", BLOCKED_MAIL1), "mail", Succeeded(1))

    assert batch.pauses == ()


@pytest.mark.parametrize("pause", [None, DeadlineExceeded("mail2", "mail"), StepFailed("fetch", "x", True, "fetch")])
def test_a_completed_step_keeps_the_pause_reason_of_another_step(pause: PauseReason | None) -> None:
    batch = batch_of(task("fppp", pause), "mail", Succeeded(1))

    assert batch.pauses is None


@pytest.mark.parametrize(("statuses", "step", "retryable"), [("cppp", "mail1", False), ("ccpp", "mail2", True)])
def test_a_failed_step_writes_its_pause_reason(statuses: str, step: str, retryable: bool) -> None:
    batch = batch_of(task(statuses, BLOCKED_MAIL1), "mail", Failed("no"))

    assert batch.pauses == (StepFailed(step, "no", retryable, "mail").to_json(),)


def test_a_final_tool_error_is_not_retryable() -> None:
    failure = Failed("no", cause=ToolError("no", retryable=False))
    batch = batch_of(task("cccp"), "mail", failure)
    assert batch.pauses == (StepFailed("mail2", "no", False, "mail").to_json(),)


def test_variables_of_the_tool_are_written() -> None:
    variables = TaskVariables({"gone": 1})
    variables["new"] = 2
    del variables["gone"]

    batch = batch_of(task("pppp"), "other", Succeeded(3), variables)

    assert batch.variables == {"new": 2, "_workflow.extra.other": 3}
    assert batch.removed == {"gone"}


def test_a_continuation_has_enough_attempts_for_all_other_writers() -> None:
    assert attempts_for(plan_of(task("pppp"), WORKFLOW), "mail") > 2 * 2
    assert attempts_for(plan_of(task("pppp"), WORKFLOW), "other") > 1


STATUSES = st.text("cfps", min_size=4, max_size=4)
OUTCOMES = st.builds(Succeeded, st.integers()) | st.builds(Failed, st.text())


@given(STATUSES, st.sampled_from(["fetch", "mail", "other"]), OUTCOMES)
def test_a_continuation_never_reopens_a_step_or_completes_the_task(statuses: str, tool: str, outcome: Outcome) -> None:
    batch = batch_of(task(statuses), tool, outcome)

    assert batch.result is None
    assert len(batch.steps) + len(batch.variables) == 1
    for write in batch.steps:
        assert STEPS[write.index].name == write.name
        assert STEPS[write.index].tool == tool
        assert write.expected is statuses_of(statuses)[write.index]
        assert write.expected is not SKIPPED
        assert write.status is COMPLETED or write.expected is not COMPLETED
