"""Which step a call means (docs/reference/workflow-rules.md, Which step a continuation means)."""

from collections.abc import Sequence
from typing import Any

import pytest

from mcp_baton import ListStep, ToolStep
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import PAUSE_REASONS, StepStatus
from mcp_baton.tasks.step_ids import StepId, parse_step_id, step_id
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.outcomes import InvalidField
from mcp_baton.tools.secrets import stored_arguments
from mcp_baton.workflow.continuation import ContinuationCall, match_again, matching_step, named_step
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.pause import SchemaMismatch
from mcp_baton.workflow.plan import CallArguments, Plan
from mcp_baton.workflow.sources import Item, Source, constant, prompt_arg, step_output
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.stored_calls import stored_call
from tests.fakes import plan_of, task_of

PENDING, COMPLETED, FAILED, SKIPPED = StepStatus
ANN: JsonObject = {"to": "ann", "text": "hi"}
BOB: JsonObject = {"to": "bob", "text": "hi"}
TO_ANN = ToolStep("ann", tool="mail", arguments={"to": constant("ann"), "text": constant("hi")})
TO_BOB = ToolStep("bob", tool="mail", arguments={"to": constant("bob"), "text": constant("hi")})
TO_CARL = ToolStep("carl", tool="mail", arguments={"to": constant("carl"), "text": constant("hi")})
TO_ANN_AGAIN = ToolStep("again", tool="mail", arguments=TO_ANN.arguments)
FETCH = ToolStep("fetch", tool="fetch")
TO_FOUND = ToolStep("found", tool="mail", arguments={"to": step_output("fetch", "email")})
ANYTHING = ToolStep("anything", tool="mail")
VAGUE = ToolStep("vague", tool="mail", arguments={"text": constant("hi")})
TO_ALL = ListStep("all", tool="mail", each=constant(["ann", "bob"]), arguments={"to": Item(), "text": constant("hi")})


def plan(steps: Sequence[tuple[Step, StepStatus]], *, calls: JsonObject | None = None, **other_variables: Json) -> Plan:
    """Return the plan of a task with these steps, and with stored calls of continuations."""
    arguments = [Argument("whom"), Argument("pin", secret=True)]
    workflow = Workflow(name="w", description="d", arguments=arguments, steps=[step for step, _ in steps])
    variables: dict[str, Json] = {f"_workflow.call.{name}": value for name, value in (calls or {}).items()}
    stored_data: JsonObject = {"arguments": stored_arguments({"whom": "bob", "pin": "4711"}, {"pin"})}
    task = task_of(workflow, "".join(status[0] for _, status in steps), variables | other_variables, kept=stored_data)
    return plan_of(task, workflow, {"whom": "bob"})


def meant(task_plan: Plan, call: JsonObject) -> str | None:
    """The step, or element, that a call with a bare id means."""
    match = matching_step(task_plan, "mail", call)
    return None if match is None else match.call_name


def is_certain(task_plan: Plan, call: JsonObject) -> bool:
    match = matching_step(task_plan, "mail", call)
    return match is not None and match.is_certain


RULES = {
    "1: the first open step whose known arguments are equal": (
        [(TO_BOB, PENDING), (VAGUE, FAILED), (TO_ANN, PENDING), (ANYTHING, COMPLETED)],
        "vague",
    ),
    "1: an equal open step, even if an equal call has completed another": (
        [(TO_ANN, COMPLETED), (TO_ANN_AGAIN, PENDING)],
        "again",
    ),
    "1: an element whose known arguments are equal": ([(TO_BOB, PENDING), (TO_ALL, PENDING)], "all[0]"),
    "2: the last completed step with an equal call": (
        [
            (TO_ANN, COMPLETED),
            (ToolStep("again", tool="mail", arguments=TO_ANN.arguments), COMPLETED),
            (TO_BOB, PENDING),
        ],
        "again",
    ),
    "2: a completed step before an open one of which nothing is known": (
        [(FETCH, PENDING), (TO_FOUND, PENDING), (ANYTHING, PENDING), (TO_ANN, COMPLETED)],
        "ann",
    ),
    "3: the first open step": ([(TO_CARL, COMPLETED), (TO_BOB, PENDING), (ANYTHING, FAILED)], "bob"),
    "4: the last completed step": ([(TO_BOB, COMPLETED), (TO_CARL, COMPLETED), (TO_ANN, SKIPPED)], "carl"),
    "5: no skipped step and no other tool": ([(TO_ANN, SKIPPED), (FETCH, PENDING)], None),
    "5: no list": ([(FETCH, PENDING), (ListStep("all", tool="mail", each=step_output("fetch")), PENDING)], None),
}


@pytest.mark.parametrize(("steps", "step"), RULES.values(), ids=RULES)
def test_a_call_that_names_no_step_follows_the_rules(
    steps: Sequence[tuple[Step, StepStatus]], step: str | None
) -> None:
    assert meant(plan(steps), ANN) == step


@pytest.mark.parametrize(("steps", "rule"), [(steps, name[0]) for name, (steps, _) in RULES.items()], ids=RULES)
def test_only_equal_arguments_make_the_step_certain(steps: Sequence[tuple[Step, StepStatus]], rule: str) -> None:
    assert is_certain(plan(steps), ANN) is (rule in "12")


REFUSED: Any = {PAUSE_REASONS: [SchemaMismatch("bob", (), (InvalidField("to", "no such person"),), "mail").to_json()]}


def test_an_argument_that_the_schema_refused_is_not_compared() -> None:
    assert is_certain(plan([(TO_BOB, PENDING), (TO_CARL, PENDING)], **REFUSED), ANN)


@pytest.mark.parametrize(("earlier_call", "step"), [(ANN, "ann"), (BOB, "carl")])
def test_stored_arguments_count_before_planned_ones(earlier_call: JsonObject, step: str) -> None:
    assert meant(plan([(TO_ANN, COMPLETED), (TO_CARL, PENDING)], calls={"ann": earlier_call}), ANN) == step


@pytest.mark.parametrize(("text", "step"), [("x" * 9_000, "ann"), ("y" * 9_000, "carl")])
def test_calls_are_compared_by_stored_digests(text: str, step: str) -> None:
    earlier_call = stored_call({"to": "ann", "text": "x" * 9_000})
    task_plan = plan([(TO_ANN, COMPLETED), (TO_CARL, PENDING)], calls={"ann": earlier_call})

    assert meant(task_plan, {"to": "ann", "text": text}) == step


@pytest.mark.parametrize("status", [PENDING, COMPLETED])
def test_calls_with_secrets_are_compared_by_their_other_arguments(status: StepStatus) -> None:
    secret: dict[str, Source] = {"pin": prompt_arg("pin"), "head": constant("Pin {pin}")}
    steps = [
        ToolStep(name, tool="mail", arguments={"to": constant(name), "text": constant("hi"), **secret})
        for name in ("carl", "ann", "bob")
    ]
    task_plan, call = plan([(step, status) for step in steps]), {**ANN, "pin": "4711", "head": "Pin 4711"}

    assert (meant(task_plan, call), is_certain(task_plan, call)) == ("ann", True)


# Names


NAMED = plan([(TO_ANN, COMPLETED), (TO_BOB, PENDING), (FETCH, PENDING), (TO_ALL, PENDING), (TO_CARL, SKIPPED)])


@pytest.mark.parametrize("name", ["ann", "bob", "carl", "all/0", "all/1", "%61nn"])
def test_a_call_is_of_the_step_that_it_names(name: str) -> None:
    match = named_step(NAMED, "mail", parse_step_id(f"t/{name}"))

    assert match is not None
    assert match.is_certain
    assert step_id("t", match.name, match.item).path == name.replace("%61", "a")


@pytest.mark.parametrize(
    "name",
    ["", "an", "Ann", "fetch", "ann/0", "all", "all/2", "all/01", "all/-1", "all/1/", "all/1/2", "all[0]", "%ff"],
)
def test_a_name_that_is_no_step_with_this_tool_is_ignored(name: str) -> None:
    assert named_step(NAMED, "mail", parse_step_id(f"t/{name}")) is None
    assert named_step(NAMED, "mail", StepId("t")) is None


# Lost races


def again(task_plan: Plan, call: JsonObject, step: StepId | None, *, is_fixed: bool = False) -> str | None:
    match = match_again(task_plan, ContinuationCall("mail", call, step, is_fixed))
    return None if match is None else match.call_name


def test_a_call_keeps_its_step_while_the_step_is_open() -> None:
    assert again(plan([(TO_BOB, PENDING), (TO_ANN, FAILED)]), BOB, step_id("t", "ann")) == "ann"


def test_a_call_whose_step_another_call_has_completed_is_decided_again() -> None:
    task_plan = plan([(TO_ANN, COMPLETED), (TO_CARL, PENDING)], calls={"ann": BOB})

    assert again(task_plan, ANN, step_id("t", "ann")) == "carl"
    assert again(task_plan, ANN, step_id("t", "ann"), is_fixed=True) == "ann"
    assert again(plan([(TO_ANN, SKIPPED), (TO_CARL, PENDING)]), ANN, step_id("t", "ann")) == "carl"


def equal(left: Any, right: Any) -> bool:
    return CallArguments("mail", {"value": left}, lambda _, arguments: arguments).equal({"value": right})


@pytest.mark.parametrize(
    ("left", "right"), [(1, True), (False, 0), (True, 1.0), (1, "1"), (0, None), ("a", "b"), (1, 2)]
)
def test_values_that_differ_as_json_make_another_call(left: Any, right: Any) -> None:
    assert not equal(left, right)


@pytest.mark.parametrize(
    ("left", "right"), [(30, 30.0), (True, True), ("a", "a"), (7, 7), ({"a": 1, "b": 2.0}, {"b": 2, "a": 1})]
)
def test_values_that_are_equal_as_json_make_the_same_call(left: Any, right: Any) -> None:
    assert equal(left, right)
