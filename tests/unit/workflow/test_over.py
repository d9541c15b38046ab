"""What the last message says of a run whose task came to an end under way."""

import pytest

from mcp_baton.tasks.record import StepStatus, TaskStatus
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.host import Failed, Outcome, Succeeded
from mcp_baton.workflow.lease import Superseded, TaskOver
from mcp_baton.workflow.resolve import Known
from mcp_baton.workflow.run import EndedRun, Persisted, StepTrace
from mcp_baton.workflow.run_text import why_stopped

STEPS = [Step(name, tool="work") for name in ("a", "b", "c", "d")]
WORKFLOW = Workflow(name="w", description="do it", steps=STEPS)
PENDING, COMPLETED, FAILED, SKIPPED = StepStatus


def said(statuses: list[StepStatus], ran: dict[int, Outcome], *, replayed: tuple[int, ...] = ()) -> str:
    """What is said of a run with these steps' statuses that was cancelled, after the first sentence."""
    known = Known({}, {}, dict(zip("abcd", statuses, strict=True)), {}, TaskVariables({}))
    traces = tuple(
        StepTrace(STEPS[place], {}, (), ran.get(place, Succeeded(1)), replayed=place in replayed)
        for place in sorted({*ran, *replayed})
    )
    over = TaskOver(TaskStatus.CANCELLED)
    head, tail = why_stopped(EndedRun(WORKFLOW, known, traces, over, None), over).split(" under way. ")
    assert head == "The task was cancelled while this run was"
    return tail


@pytest.mark.parametrize(
    ("persisted", "told"),
    [
        (True, "Its results are recorded"),
        (False, "Some of its results are not recorded, and those steps may have run twice"),
        ("unknown", "Whether its results are recorded is not known"),
    ],
)
def test_a_run_that_was_superseded_says_whether_what_it_did_is_recorded(persisted: Persisted, told: str) -> None:
    known = Known({}, {}, dict.fromkeys("abcd", COMPLETED), {}, TaskVariables({}))
    run = EndedRun(WORKFLOW, known, (), Superseded(), None, persisted)
    assert why_stopped(run, Superseded()) == (
        "This run was superseded: its claim expired, and another run has taken over the task. "
        f"{told}; read the task for its state. The run ran no step. No step was left to run."
    )


@pytest.mark.parametrize(
    ("statuses", "ran", "replayed", "told"),
    [
        ([COMPLETED, COMPLETED, PENDING, PENDING], {0: Succeeded(1), 1: Succeeded(2)}, (), "'b' ran last|'c', 'd'"),
        ([COMPLETED, FAILED, PENDING, SKIPPED], {1: Failed("no")}, (0,), "'b' ran last|'c'"),
        ([COMPLETED, PENDING, FAILED, PENDING], {}, (0,), "ran no step|'b', 'c', 'd'"),
        ([COMPLETED] * 4, {3: Succeeded(1)}, (0, 1, 2), "'d' ran last|No step was left"),
    ],
    ids=["as planned", "a step failed", "nothing ran", "all had run"],
)
def test_which_step_ran_last_and_which_were_not_run(
    statuses: list[StepStatus], ran: dict[int, Outcome], replayed: tuple[int, ...], told: str
) -> None:
    last, left = told.split("|")
    text = said(statuses, ran, replayed=replayed)
    assert last in text
    assert left in text
    assert text.count("'") == told.count("'")
