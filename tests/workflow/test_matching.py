"""Which step a call matches."""

from collections.abc import Sequence
from typing import Any

import pytest

from mcp_baton import ToolStep
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import PAUSE_REASONS, StepStatus
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.outcomes import InvalidField
from mcp_baton.tools.secrets import stored_arguments
from mcp_baton.workflow.continuation import Candidate, Rank, candidates, choose, matching_step
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.pause import SchemaMismatch
from mcp_baton.workflow.plan import Comparison, Plan
from mcp_baton.workflow.sources import Source, constant, prompt_arg, step_output
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.stored_calls import stored_call
from tests.fakes import plan_of, task_of

PENDING, COMPLETED, FAILED, SKIPPED = StepStatus
ANN: JsonObject = {"to": "ann", "text": "hi"}
BOB: JsonObject = {"to": "bob", "text": "hi"}
TO_ANN = ToolStep("ann", tool="mail", arguments={"to": constant("ann"), "text": constant("hi")})
TO_BOB = ToolStep("bob", tool="mail", arguments={"to": constant("bob"), "text": constant("hi")})
TO_CARL = ToolStep("carl", tool="mail", arguments={"to": constant("carl"), "text": constant("hi")})
TO_CARL_AGAIN = ToolStep("carl again", tool="mail", arguments={"to": constant("carl"), "text": constant("hi")})
FETCH = ToolStep("fetch", tool="fetch")
TO_FOUND = ToolStep("found", tool="mail", arguments={"to": step_output("fetch", "email")})
ANYTHING = ToolStep("anything", tool="mail")
VAGUE = ToolStep("vague", tool="mail", arguments={"text": constant("hi")})


def plan(
    steps: Sequence[tuple[Step, StepStatus]],
    *,
    results: JsonObject | None = None,
    calls: JsonObject | None = None,
    **other_variables: Json,
) -> Plan:
    """Return the plan of a task with these steps, stored results, and stored calls of continuations."""
    arguments = [Argument("whom"), Argument("pin", secret=True)]
    workflow = Workflow(name="w", description="d", arguments=arguments, steps=[step for step, _ in steps])
    variables: dict[str, Json] = {f"_workflow.result.{name}": value for name, value in (results or {}).items()}
    variables |= {f"_workflow.call.{name}": value for name, value in (calls or {}).items()}
    stored_data: JsonObject = {"arguments": stored_arguments({"whom": "bob", "pin": "4711"}, {"pin"})}
    task = task_of(workflow, "".join(status[0] for _, status in steps), variables | other_variables, kept=stored_data)
    return plan_of(task, workflow, {"whom": "bob"})


def ranks(task_plan: Plan, call: JsonObject) -> list[tuple[str, Rank]]:
    return [(candidate.name, candidate.rank) for candidate in candidates(task_plan, "mail", call)]


RANKED = {
    "a repeat before a possible open step": (
        [(TO_FOUND, PENDING), (FETCH, PENDING), (TO_ANN, COMPLETED)],
        [("ann", Rank.REPEAT), ("found", Rank.POSSIBLE)],
    ),
    "a possible open step before a failed one with other arguments": (
        [(TO_BOB, FAILED), (FETCH, PENDING), (TO_FOUND, PENDING)],
        [("found", Rank.POSSIBLE), ("bob", Rank.FAILED)],
    ),
    "a failed step before a pending one, both with other arguments": (
        [(TO_BOB, PENDING), (TO_CARL, FAILED)],
        [("carl", Rank.FAILED), ("bob", Rank.PENDING)],
    ),
    "any open step before a completed one with other arguments": (
        [(TO_BOB, PENDING), (TO_CARL, COMPLETED)],
        [("bob", Rank.PENDING), ("carl", Rank.LAST)],
    ),
    "the last completed step": ([(TO_BOB, COMPLETED), (TO_CARL, COMPLETED)], [("carl", Rank.LAST), ("bob", Rank.LAST)]),
    "no skipped step and no other tool": ([(TO_ANN, SKIPPED), (FETCH, PENDING)], []),
    "the equal step with more known arguments": (
        [(VAGUE, PENDING), (TO_ANN, PENDING)],
        [("ann", Rank.EQUAL), ("vague", Rank.EQUAL)],
    ),
}


@pytest.mark.parametrize(("steps", "order"), RANKED.values(), ids=RANKED)
def test_candidates_are_ranked_in_this_order(
    steps: Sequence[tuple[Step, StepStatus]], order: list[tuple[str, Rank]]
) -> None:
    assert ranks(plan(steps), ANN) == order


def test_an_open_step_with_equal_arguments_comes_first() -> None:
    steps = [(TO_ANN, PENDING), (TO_CARL, COMPLETED), (ANYTHING, FAILED), (TO_BOB, PENDING)]

    assert ranks(plan(steps, calls={"carl": BOB}), BOB)[0] == ("bob", Rank.EQUAL)


def test_a_step_without_sources_counts_as_equal() -> None:
    task_plan = plan([(ToolStep("one", tool="mail"), COMPLETED), (ANYTHING, PENDING)], calls={"one": ANN})

    assert ranks(task_plan, ANN) == [("anything", Rank.EQUAL), ("one", Rank.REPEAT)]


def test_an_argument_is_known_once_its_step_has_a_result() -> None:
    steps = [(TO_FOUND, PENDING), (FETCH, COMPLETED), (ANYTHING, PENDING)]
    task_plan = plan(steps, results={"fetch": {"email": "ann"}})

    assert dict(ranks(task_plan, ANN))["found"] is Rank.EQUAL
    assert dict(ranks(task_plan, BOB))["found"] is Rank.PENDING


def test_a_prompt_argument_is_known() -> None:
    task_plan = plan(
        [(TO_ANN, PENDING), (ToolStep("whom", tool="mail", arguments={"to": prompt_arg("whom")}), PENDING)]
    )

    assert ranks(task_plan, BOB)[0] == ("whom", Rank.EQUAL)


def test_a_call_that_omits_a_planned_argument_does_not_contradict_it() -> None:
    task_plan = plan([(TO_BOB, PENDING), (TO_ANN, PENDING)])

    assert ranks(task_plan, {"to": "ann"}) == [("ann", Rank.POSSIBLE), ("bob", Rank.PENDING)]


def test_an_argument_that_the_schema_refused_is_not_compared() -> None:
    mismatch = SchemaMismatch("bob", (), (InvalidField("to", "no such person"),), "mail").to_json()
    refused: Any = {PAUSE_REASONS: [mismatch]}
    task_plan = plan([(TO_BOB, PENDING), (TO_CARL, PENDING)], **refused)

    assert ranks(task_plan, ANN) == [("bob", Rank.EQUAL), ("carl", Rank.PENDING)]


@pytest.mark.parametrize(("earlier_call", "rank"), [(ANN, Rank.REPEAT), (BOB, Rank.LAST)])
def test_stored_arguments_count_before_planned_ones(earlier_call: JsonObject, rank: Rank) -> None:
    task_plan = plan([(TO_ANN, COMPLETED), (TO_CARL, PENDING)], calls={"ann": earlier_call})

    assert dict(ranks(task_plan, ANN))["ann"] is rank


@pytest.mark.parametrize(("text", "rank"), [("x" * 9_000, Rank.REPEAT), ("y" * 9_000, Rank.LAST)])
def test_calls_are_compared_by_stored_digests(text: str, rank: Rank) -> None:
    earlier_call = stored_call({"to": "ann", "text": "x" * 9_000})
    task_plan = plan([(TO_ANN, COMPLETED), (TO_CARL, PENDING)], calls={"ann": earlier_call})

    assert dict(ranks(task_plan, {"to": "ann", "text": text}))["ann"] is rank


def test_calls_with_secrets_are_compared_by_their_other_arguments() -> None:
    secret: dict[str, Source] = {"pin": prompt_arg("pin"), "head": constant("Pin {pin}")}
    steps = [
        ToolStep(name, tool="mail", arguments={"to": constant(name), "text": constant("hi"), **secret})
        for name in ("carl", "ann", "bob")
    ]
    call: JsonObject = {**ANN, "pin": "4711", "head": "Pin 4711"}

    assert ranks(plan([(step, PENDING) for step in steps]), call)[0] == ("ann", Rank.EQUAL)
    assert ranks(plan([(step, COMPLETED) for step in steps]), call)[0] == ("ann", Rank.REPEAT)


def test_numbers_that_clients_write_differently_are_equal() -> None:
    amounts = [
        (ToolStep(f"a{amount}", tool="mail", arguments={"n": constant(amount)}), PENDING) for amount in (20, 30.0)
    ]

    assert ranks(plan(amounts), {"n": 30})[0] == ("a30.0", Rank.EQUAL)


def candidate(index: int, rank: Rank, equal: int = 0) -> Candidate:
    status = {Rank.REPEAT: COMPLETED, Rank.LAST: COMPLETED, Rank.FAILED: FAILED}.get(rank, PENDING)
    return Candidate(index, {"name": f"s{index}", "tool": "mail", "status": status}, rank, equal)


EQUALS = [candidate(0, Rank.EQUAL, 2), candidate(1, Rank.EQUAL, 2)]
LESS = [candidate(2, Rank.EQUAL, 1), candidate(3, Rank.PENDING)]


@pytest.mark.parametrize(("fraction", "index"), [(0.0, 0), (0.49, 0), (0.5, 1), (0.99, 1)])
def test_after_a_lost_race_one_of_the_equally_good_steps_is_chosen(fraction: float, index: int) -> None:
    assert choose([*EQUALS, *LESS], lambda: fraction) == EQUALS[index]
    assert choose([*EQUALS, *LESS]) == EQUALS[0]


def test_completed_steps_are_not_chosen_at_random() -> None:
    completed = [candidate(4, Rank.LAST), candidate(3, Rank.LAST)]

    assert choose(completed, lambda: 0.99) == completed[0]
    assert choose([]) is None


@pytest.mark.parametrize(
    ("ranks", "step"),
    [
        pytest.param([Rank.EQUAL], "s0", id="the only open one"),
        pytest.param([Rank.PENDING], "s0", id="the only open one, with other arguments"),
        pytest.param(
            [Rank.EQUAL, Rank.PENDING, Rank.FAILED, Rank.LAST], "s0", id="the only one without a contradiction"
        ),
        pytest.param([Rank.EQUAL, Rank.REPEAT], "s0", id="an equal open one beside an equal completed one"),
        pytest.param([Rank.EQUAL, Rank.EQUAL], None, id="two open ones"),
        pytest.param([Rank.EQUAL, Rank.POSSIBLE], None, id="an equal one and a possible one"),
        pytest.param([Rank.POSSIBLE, Rank.PENDING], "s0", id="the only possible one"),
        pytest.param([Rank.REPEAT, Rank.POSSIBLE], None, id="a repeat or a possible one"),
        pytest.param([Rank.REPEAT, Rank.FAILED, Rank.LAST], "s0", id="one repeat"),
        pytest.param([Rank.REPEAT, Rank.REPEAT], None, id="a repeat of one of two"),
        pytest.param([Rank.FAILED, Rank.LAST], "s0", id="the only open one, with corrected arguments"),
        pytest.param([Rank.FAILED, Rank.PENDING], None, id="one of two open ones, with other arguments"),
        pytest.param([Rank.LAST], "s0", id="the only step"),
        pytest.param([Rank.LAST, Rank.LAST], None, id="one of two completed ones"),
        pytest.param([], None, id="no step"),
    ],
)
def test_a_call_has_a_steps_key_only_if_exactly_one_step_matches(ranks: list[Rank], step: str | None) -> None:
    assert matching_step([candidate(index, rank) for index, rank in enumerate(ranks)]) == step


FILLED = ToolStep("filled", tool="mail", arguments={"to": constant("{whom}"), "text": constant("hi")})
REFUSED: Any = {PAUSE_REASONS: [SchemaMismatch("ann", (), (InvalidField("to", "no address"),), "mail").to_json()]}
FIXED = {
    "another value rules a step out": (
        plan([(TO_ANN, COMPLETED), (TO_CARL, PENDING), (TO_CARL_AGAIN, FAILED)]),
        [("carl again", Rank.FAILED), ("carl", Rank.PENDING), ("ann", Rank.LAST)],
    ),
    "the arguments of the continuation count, not the step's": (
        plan([(TO_ANN, COMPLETED), (TO_CARL, PENDING)], calls={"ann": BOB}),
        [("ann", Rank.REPEAT), ("carl", Rank.PENDING)],
    ),
    "a filled constant is compared after filling": (
        plan([(FILLED, PENDING), (TO_CARL, PENDING)]),
        [("filled", Rank.EQUAL), ("carl", Rank.PENDING)],
    ),
    "a refused value does not contradict the call": (
        plan([(TO_ANN, PENDING), (TO_CARL, PENDING)], **REFUSED),
        [("ann", Rank.EQUAL), ("carl", Rank.PENDING)],
    ),
}


@pytest.mark.parametrize(("task_plan", "order"), FIXED.values(), ids=FIXED)
def test_a_constant_is_compared_with_the_call(task_plan: Plan, order: list[tuple[str, Rank]]) -> None:
    assert ranks(task_plan, BOB) == order


def equal(left: Any, right: Any) -> bool:
    return Comparison({"value": left}, dict).equals({"value": right})


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
