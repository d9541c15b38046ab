"""The description of a workflow's tool."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton import Fetch, ToolStep
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.workflow_tool import MAX_DESCRIPTION_CHARS, describe_workflow, shorten, title_of

STEPS = [
    ToolStep("fetch", tool="fetch_order"),
    Fetch("policy", resources=["docs://policy", "docs://limits"]),
    ToolStep("refund", tool="refund"),
]
SUMMARIES = {"fetch_order": "Fetch one order.", "refund": ""}


def workflow(
    description: str = "refund an order", steps: Sequence[Step] | None = None, title: str | None = None
) -> Workflow:
    return Workflow(name="refund_order", description=description, steps=STEPS if steps is None else steps, title=title)


def test_the_description_lists_the_steps_and_explains_pauses() -> None:
    assert describe_workflow(workflow(), SUMMARIES.__getitem__) == (
        "Refund an order. The server runs 3 steps: 1. fetch: Fetch one order. "
        "2. policy: read docs://policy, docs://limits. 3. refund. "
        "It may pause, for instance where a step fails or a value is missing. The result then says which calls remain "
        "and gives a task_id: make those calls, or call this tool again with task_id alone to let the server continue."
    )


def test_steps_are_only_named_if_tool_summaries_are_too_long_and_counted_if_their_names_are() -> None:
    steps = [ToolStep(f"step_{number}", tool="work") for number in range(1, 9)]
    description = describe_workflow(
        workflow(steps=steps), lambda _: "Does a great deal of work, and then some more of it."
    )
    assert "8 steps: 1. step_1. 2. step_2. " in description
    assert "8. step_8. It may pause" in description

    steps = [ToolStep(f"a_rather_long_name_of_a_step_{number}", tool="work") for number in range(1, 101)]
    description = describe_workflow(workflow(steps=steps), lambda _: "Works.")
    assert "100 steps: 1. a_rather_long_name_of_a_step_1. " in description
    shown_count = description.count("a_rather_long_name_of_a_step_")
    assert f"… and {100 - shown_count} more. It may pause" in description


@pytest.mark.parametrize("length", range(1, 80))
def test_the_count_always_fits(length: int) -> None:
    steps = [ToolStep("n" * length, tool="work") for _ in range(100)]
    description = describe_workflow(workflow("g" * 150, steps), lambda _: "")
    assert MAX_DESCRIPTION_CHARS - length - 30 < len(description) <= MAX_DESCRIPTION_CHARS


@given(st.text(max_size=1_000), st.text(max_size=400), st.lists(st.text(min_size=1, max_size=300), max_size=30))
def test_a_description_is_short_and_ends_with_how_to_continue(goal: str, summary: str, names: list[str]) -> None:
    description = describe_workflow(workflow(goal, [ToolStep(name, tool="work") for name in names]), lambda _: summary)
    assert len(description) <= MAX_DESCRIPTION_CHARS
    assert description.endswith("to let the server continue.")
    assert "\n" not in description


@pytest.mark.parametrize(
    ("goal", "title", "expected"),
    [
        ("refund an order.", None, "Refund an order"),
        ("refund an order", "Refunds", "Refunds"),
        ("", None, "refund_order"),
    ],
)
def test_the_title_is_the_workflows_or_comes_from_the_description(goal: str, title: str | None, expected: str) -> None:
    assert title_of(workflow(goal, title=title)) == expected


@pytest.mark.parametrize(
    ("text", "short"), [("one two three", "one two …"), ("onetwothree", "onetwoth …"), ("one  two", "one two")]
)
def test_a_text_is_shortened_between_words(text: str, short: str) -> None:
    assert shorten(text, 10) == short
    assert len(short) <= 10
