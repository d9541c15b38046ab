"""The writes of a continuation, decided on the current task."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton import Fetch, ToolStep
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.record import StepStatus, TaskRecord
from mcp_baton.tasks.store import Batch
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.outcomes import Failed, Outcome, Succeeded
from mcp_baton.workflow.continuation import ContinuationCall, continuation_batch, matching_step
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.pause import PauseReason, SchemaMismatch
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


def test_variables_of_the_tool_are_written() -> None:
    variables = TaskVariables({"gone": 1})
    variables["new"] = 2
    del variables["gone"]

    batch = batch_of(task("pppp"), "other", Succeeded(3), variables)

    assert batch.variables == {"new": 2, "_workflow.extra.other": 3}
    assert batch.removed == {"gone"}


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
