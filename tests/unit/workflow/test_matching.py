"""Which step a call is."""

from collections.abc import Sequence

import pytest

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import PAUSE_REASON, StepStatus
from mcp_baton.workflow.definition import Argument, Step, Workflow
from mcp_baton.workflow.kept_calls import kept_call
from mcp_baton.workflow.matching import Candidate, Rank, candidates, choose, meant
from mcp_baton.workflow.pause import InvalidField, SchemaMismatch
from mcp_baton.workflow.plan import Plan, TellsApart
from mcp_baton.workflow.secrets import stored_arguments
from mcp_baton.workflow.sources import Source, constant, prompt_arg, step_output
from tests.fakes import plan_of, task_of

PENDING, COMPLETED, FAILED, SKIPPED = StepStatus
ANN: JsonObject = {"to": "ann", "text": "hi"}
BOB: JsonObject = {"to": "bob", "text": "hi"}
TO_ANN = Step("ann", tool="mail", arguments={"to": constant("ann"), "text": constant("hi")})
TO_BOB = Step("bob", tool="mail", arguments={"to": constant("bob"), "text": constant("hi")})
TO_CARL = Step("carl", tool="mail", arguments={"to": constant("carl"), "text": constant("hi")})
TO_CARL_AGAIN = Step("carl again", tool="mail", arguments={"to": constant("carl"), "text": constant("hi")})
FETCH = Step("fetch", tool="fetch")
TO_FOUND = Step("found", tool="mail", arguments={"to": step_output("fetch", "email")})
ANYTHING = Step("anything", tool="mail")


def plan(
    steps: Sequence[tuple[Step, StepStatus]],
    *,
    results: JsonObject | None = None,
    calls: JsonObject | None = None,
    **more: Json,
) -> Plan:
    """The plan of a task with these steps, the results of some, and the calls of continuations that made them."""
    arguments = [Argument("whom"), Argument("pin", secret=True)]
    workflow = Workflow(name="w", description="d", arguments=arguments, steps=[step for step, _ in steps])
    variables: dict[str, Json] = {f"_workflow.result.{name}": value for name, value in (results or {}).items()}
    variables |= {f"_workflow.call.{name}": value for name, value in (calls or {}).items()}
    kept: JsonObject = {"arguments": stored_arguments({"whom": "bob", "pin": "4711"}, {"pin"})}
    task = task_of(workflow, "".join(status[0] for _, status in steps), None, kept, **variables, **more)
    return plan_of(task, workflow, {"whom": "bob"})


def with_tools(made: Plan, tells_apart: TellsApart) -> Plan:
    """The same plan for tools that tell values apart so, and have nothing to convert in what is told apart."""

    def convert(_tool: str, arguments: JsonObject) -> JsonObject:
        raise AssertionError(f"{arguments} were converted")

    return Plan(made.task, made.workflow, lambda _: ({"whom": "bob"}, {"whom": "bob"}), convert, tells_apart)


def ranked(made: Plan, call: JsonObject) -> list[tuple[str, Rank]]:
    return [(candidate.name, candidate.rank) for candidate in candidates(made, "mail", call)]


def test_an_open_step_whose_known_arguments_are_all_the_calls_comes_before_everything() -> None:
    steps = [(TO_ANN, PENDING), (TO_CARL, COMPLETED), (ANYTHING, FAILED), (TO_BOB, PENDING)]
    made = plan(steps, calls={"carl": BOB})

    assert ranked(made, BOB)[0] == ("bob", Rank.EQUAL)


def test_a_repeat_comes_before_an_open_step_that_is_merely_possible() -> None:
    made = plan([(TO_FOUND, PENDING), (FETCH, PENDING), (TO_ANN, COMPLETED)])

    assert ranked(made, ANN) == [("ann", Rank.REPEAT), ("found", Rank.POSSIBLE)]


def test_an_open_step_that_nothing_contradicts_comes_before_a_failed_one_that_is_planned_otherwise() -> None:
    made = plan([(TO_BOB, FAILED), (FETCH, PENDING), (TO_FOUND, PENDING)])

    assert ranked(made, ANN) == [("found", Rank.POSSIBLE), ("bob", Rank.FAILED)]


def test_a_failed_step_comes_before_a_pending_one_where_both_are_planned_otherwise() -> None:
    made = plan([(TO_BOB, PENDING), (TO_CARL, FAILED)])

    assert ranked(made, ANN) == [("carl", Rank.FAILED), ("bob", Rank.PENDING)]


def test_any_open_step_comes_before_a_completed_one_that_was_made_with_other_arguments() -> None:
    made = plan([(TO_BOB, PENDING), (TO_CARL, COMPLETED)])

    assert ranked(made, ANN) == [("bob", Rank.PENDING), ("carl", Rank.LAST)]


def test_of_completed_steps_the_last_comes_first() -> None:
    made = plan([(TO_BOB, COMPLETED), (TO_CARL, COMPLETED)])

    assert ranked(made, ANN) == [("carl", Rank.LAST), ("bob", Rank.LAST)]


def test_skipped_steps_and_other_tools_are_no_candidates() -> None:
    assert ranked(plan([(TO_ANN, SKIPPED), (FETCH, PENDING)]), ANN) == []


def test_the_step_of_which_the_plan_knows_more_that_is_equal_comes_first() -> None:
    vague = Step("vague", tool="mail", arguments={"text": constant("hi")})
    made = plan([(vague, PENDING), (TO_ANN, PENDING)])

    assert ranked(made, ANN) == [("ann", Rank.EQUAL), ("vague", Rank.EQUAL)]


def test_a_step_that_has_no_sources_is_as_equal_as_it_will_ever_be() -> None:
    made = plan([(Step("one", tool="mail"), COMPLETED), (ANYTHING, PENDING)], calls={"one": ANN})

    assert ranked(made, ANN) == [("anything", Rank.EQUAL), ("one", Rank.REPEAT)]


def test_an_argument_becomes_known_with_the_output_that_it_comes_from() -> None:
    steps = [(TO_FOUND, PENDING), (FETCH, COMPLETED), (ANYTHING, PENDING)]
    made = plan(steps, results={"fetch": {"email": "ann"}})

    assert dict(ranked(made, ANN))["found"] is Rank.EQUAL
    assert dict(ranked(made, BOB))["found"] is Rank.PENDING


def test_a_prompt_argument_is_known() -> None:
    made = plan([(TO_ANN, PENDING), (Step("whom", tool="mail", arguments={"to": prompt_arg("whom")}), PENDING)])

    assert ranked(made, BOB)[0] == ("whom", Rank.EQUAL)


def test_a_call_that_leaves_out_what_is_planned_does_not_contradict_it() -> None:
    made = plan([(TO_BOB, PENDING), (TO_ANN, PENDING)])

    assert ranked(made, {"to": "ann"}) == [("ann", Rank.POSSIBLE), ("bob", Rank.PENDING)]


def test_an_argument_that_the_schema_has_refused_is_not_held_against_the_call() -> None:
    refused = SchemaMismatch("bob", (), (InvalidField("to", "no such person"),), "mail").to_json()
    made = plan([(TO_BOB, PENDING), (TO_CARL, PENDING)], **{PAUSE_REASON: refused})

    assert ranked(made, ANN) == [("bob", Rank.EQUAL), ("carl", Rank.PENDING)]


@pytest.mark.parametrize(("kept", "rank"), [(ANN, Rank.REPEAT), (BOB, Rank.LAST)])
def test_what_a_continuation_was_called_with_counts_and_not_what_the_plan_says(kept: JsonObject, rank: Rank) -> None:
    made = plan([(TO_ANN, COMPLETED), (TO_CARL, PENDING)], calls={"ann": kept})

    assert dict(ranked(made, ANN))["ann"] is rank


@pytest.mark.parametrize(("text", "rank"), [("x" * 9_000, Rank.REPEAT), ("y" * 9_000, Rank.LAST)])
def test_a_call_of_which_only_a_digest_was_kept_is_told_from_another(text: str, rank: Rank) -> None:
    kept = kept_call({"to": "ann", "text": "x" * 9_000})
    made = plan([(TO_ANN, COMPLETED), (TO_CARL, PENDING)], calls={"ann": kept})

    assert dict(ranked(made, {"to": "ann", "text": text}))["ann"] is rank


def test_secret_arguments_are_told_apart_by_the_others() -> None:
    secret: dict[str, Source] = {"pin": prompt_arg("pin"), "head": constant("Pin {pin}")}
    steps = [
        Step(name, tool="mail", arguments={"to": constant(name), "text": constant("hi"), **secret})
        for name in ("carl", "ann", "bob")
    ]
    call: JsonObject = {**ANN, "pin": "4711", "head": "Pin 4711"}

    assert ranked(plan([(step, PENDING) for step in steps]), call)[0] == ("ann", Rank.EQUAL)
    assert ranked(plan([(step, COMPLETED) for step in steps]), call)[0] == ("ann", Rank.REPEAT)


def test_numbers_that_clients_write_differently_are_equal() -> None:
    amounts = [Step(f"a{n}", tool="mail", arguments={"n": constant(n)}) for n in (20, 30.0)]

    assert ranked(plan([(step, PENDING) for step in amounts]), {"n": 30})[0] == ("a30.0", Rank.EQUAL)


def test_the_only_step_with_the_tool_is_not_held_against_the_call() -> None:
    assert choose(candidates(plan([(TO_BOB, PENDING)]), "mail", ANN)) is not None
    assert meant(candidates(plan([(TO_BOB, PENDING)]), "mail", ANN)) == "bob"


def candidate(index: int, rank: Rank, equal: int = 0) -> Candidate:
    status = {Rank.REPEAT: COMPLETED, Rank.LAST: COMPLETED, Rank.FAILED: FAILED}.get(rank, PENDING)
    return Candidate(index, {"name": f"s{index}", "tool": "mail", "status": status}, rank, equal)


EQUALS = [candidate(0, Rank.EQUAL, 2), candidate(1, Rank.EQUAL, 2)]
LESS = [candidate(2, Rank.EQUAL, 1), candidate(3, Rank.PENDING)]


@pytest.mark.parametrize(("drawn", "chosen"), [(0.0, 0), (0.49, 0), (0.5, 1), (0.99, 1)])
def test_after_a_lost_race_any_step_that_fits_as_well_may_be_chosen_and_no_other(drawn: float, chosen: int) -> None:
    assert choose([*EQUALS, *LESS], lambda: drawn) == EQUALS[chosen]
    assert choose([*EQUALS, *LESS]) == EQUALS[0]


def test_of_completed_steps_none_is_drawn() -> None:
    completed = [candidate(4, Rank.LAST), candidate(3, Rank.LAST)]

    assert choose(completed, lambda: 0.99) == completed[0]
    assert choose([]) is None


@pytest.mark.parametrize(
    ("ranks", "step"),
    [
        pytest.param([Rank.EQUAL], "s0", id="the only open one"),
        pytest.param([Rank.EQUAL, Rank.PENDING, Rank.FAILED, Rank.LAST], "s0", id="the only one not contradicted"),
        pytest.param([Rank.EQUAL, Rank.REPEAT], "s0", id="an equal open one beside an equal completed one"),
        pytest.param([Rank.EQUAL, Rank.EQUAL], None, id="two open ones"),
        pytest.param([Rank.EQUAL, Rank.POSSIBLE], None, id="an equal one and a possible one"),
        pytest.param([Rank.POSSIBLE, Rank.PENDING], "s0", id="the only possible one"),
        pytest.param([Rank.REPEAT, Rank.POSSIBLE], None, id="a repeat or a possible one"),
        pytest.param([Rank.REPEAT, Rank.FAILED, Rank.LAST], "s0", id="one repeat"),
        pytest.param([Rank.REPEAT, Rank.REPEAT], None, id="a repeat of one of two"),
        pytest.param([Rank.FAILED, Rank.LAST], "s0", id="the only open one, with corrected arguments"),
        pytest.param([Rank.FAILED, Rank.PENDING], None, id="one of two open ones, with other arguments"),
        pytest.param([Rank.LAST], "s0", id="the only step there is"),
        pytest.param([Rank.LAST, Rank.LAST], None, id="one of two completed ones"),
        pytest.param([], None, id="no step"),
    ],
)
def test_a_call_means_a_step_only_where_it_can_mean_no_other(ranks: list[Rank], step: str | None) -> None:
    assert meant([candidate(index, rank) for index, rank in enumerate(ranks)]) == step


DIFFERENT: TellsApart = lambda _tool, _argument, one, other: one != other  # noqa: E731 - one line says it


def test_a_step_whose_fixed_argument_is_another_is_ruled_out_without_reading_or_converting_anything() -> None:
    made = with_tools(plan([(TO_ANN, COMPLETED), (TO_CARL, PENDING), (TO_CARL_AGAIN, FAILED)]), DIFFERENT)
    assert ranked(made, BOB) == [("carl again", Rank.FAILED), ("carl", Rank.PENDING), ("ann", Rank.LAST)]


def test_a_continuations_own_arguments_count_and_not_those_that_its_step_was_defined_with() -> None:
    made = with_tools(plan([(TO_ANN, COMPLETED), (TO_CARL, PENDING)], calls={"ann": BOB}), DIFFERENT)
    assert ranked(made, BOB) == [("ann", Rank.REPEAT), ("carl", Rank.PENDING)]


def test_a_fixed_argument_that_is_filled_in_rules_nothing_out() -> None:
    filled = Step("filled", tool="mail", arguments={"to": constant("{whom}"), "text": constant("hi")})
    made = with_tools(plan([(filled, PENDING), (TO_CARL, PENDING)]), DIFFERENT)
    assert ranked(made, BOB) == [("filled", Rank.EQUAL), ("carl", Rank.PENDING)]


def test_a_fixed_argument_that_the_tool_has_refused_rules_nothing_out() -> None:
    reason = SchemaMismatch("ann", (), (InvalidField("to", "no address"),), "mail").to_json()
    made = with_tools(plan([(TO_ANN, PENDING), (TO_CARL, PENDING)], **{PAUSE_REASON: reason}), DIFFERENT)
    assert ranked(made, BOB) == [("ann", Rank.EQUAL), ("carl", Rank.PENDING)]
