"""Decides whether a step can run and with which arguments, without running anything."""

from collections.abc import Mapping

import pytest

from mcp_baton import Fetch, ToolStep
from mcp_baton.exceptions import StoreUnavailable
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import StepStatus
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.outcomes import InvalidField, Mismatch, Prepared
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.pause import SchemaMismatch, UnresolvableParams
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.sources import FirstOf, Source, TaskVariable, constant, prompt_arg, step_output
from mcp_baton.workflow.steps.step import Step
from tests.fakes import ScriptedHost

ORDER: dict[str, Json] = {"id": "A-17", "total": 30.0, "note": None, "lines": [{"sku": "x"}], "topic": "a/b"}


def decide(step: Step, *, variables: Mapping[str, Json] | None = None, verdict: Mismatch | None = None) -> object:
    """Return the decision for a step after `fetch`, whose output is bound to `order`."""
    fetch = ToolStep("fetch", tool="fetch_order", binding="order")
    workflow = Workflow(
        name="w", description="d", arguments=[Argument("id"), Argument("amount", type=float)], steps=[fetch, step]
    )
    texts = {"id": "7"}
    statuses = {"fetch": StepStatus.COMPLETED, step.name: StepStatus.PENDING}
    known = KnownValues(workflow, texts, texts, statuses, {"fetch": ORDER}, variables or {})
    if not isinstance(step, ToolStep):
        return known.missing_uri(step)
    return known.prepare(step, ScriptedHost(mismatches={"refund": verdict} if verdict else {}))


def call(**arguments: Source) -> Step:
    return ToolStep("next", tool="refund", arguments=arguments)


def ready(arguments: JsonObject) -> Prepared:
    return Prepared("refund", arguments, dict(arguments))


@pytest.mark.parametrize(
    ("source", "value"),
    [
        (prompt_arg("id"), "7"),
        (constant("for {id}, {amount}"), "for 7, {amount}"),
        (constant([1, {"a": "{id}"}]), [1, {"a": "7"}]),
        (constant(None), None),
        (step_output("order"), ORDER),
        (step_output("order", "total"), 30.0),
        (step_output("order", "lines.0.sku"), "x"),
        (step_output("order", "note"), None),
        (TaskVariable("seen"), {"at": [1]}),
        (TaskVariable("seen", "at.0"), 1),
        (TaskVariable("nothing"), None),
    ],
)
def test_every_source_yields_its_value(source: Source, value: Json) -> None:
    variables: dict[str, Json] = {"seen": {"at": [1]}, "nothing": None}

    assert decide(call(a=source), variables=variables) == ready({"a": value})


@pytest.mark.parametrize(
    ("source", "variables", "problem"),
    [
        (
            step_output("order", "nothing"),
            {},
            "'nothing' is not in the output of step 'fetch': it is an object without this field",
        ),
        (
            step_output("order", "lines.1"),
            {},
            "'lines.1' is not in the output of step 'fetch': 'lines' is a list of 1 item",
        ),
        (TaskVariable("seen"), {}, "the task variable 'seen' is not set"),
        (TaskVariable("seen", "x"), {"seen": {}}, "the task variable 'seen' has no 'x', or its value was lost"),
    ],
)
def test_an_argument_without_a_value_is_unresolvable(
    source: Source, variables: Mapping[str, Json], problem: str
) -> None:
    decision = decide(call(fine=constant(1), a=source), variables=variables)

    assert decision == UnresolvableParams("next", "a", "refund", problem)


class Unreadable(dict[str, Json]):
    """Task variables while the store does not answer."""

    def __getitem__(self, name: str) -> Json:
        raise StoreUnavailable(f"{name} cannot be read")


@pytest.mark.parametrize("source", [TaskVariable("seen"), FirstOf((TaskVariable("seen"), constant(1)))])
def test_a_variable_that_cannot_be_read_now_is_named(source: Source) -> None:
    decision = decide(call(a=source), variables=Unreadable(seen=1))

    problem = "the value of the task variable 'seen' was lost or cannot be read"
    assert decision == UnresolvableParams("next", "a", "refund", problem)


def test_arguments_that_do_not_satisfy_the_schema_are_a_mismatch() -> None:
    verdict = Mismatch(("a", "b"), (InvalidField("c.0", "too small"),))

    assert decide(call(c=constant([1])), verdict=verdict) == SchemaMismatch(
        "next", ("a", "b"), (InvalidField("c.0", "too small; it got [1] from a constant"),), "refund"
    )


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        pytest.param(
            Fetch("next", resources=["docs://{t}"], template_bindings={"t": step_output("order", "nothing")}),
            UnresolvableParams(
                "next", "t", "", "'nothing' is not in the output of step 'fetch': it is an object without this field"
            ),
            id="a missing path",
        ),
        pytest.param(
            Fetch("next", resources=["docs://{t}"], template_bindings={"t": prompt_arg("amount")}),
            UnresolvableParams("next", "t", "", "the prompt argument 'amount' was not given"),
            id="a bound prompt argument that was not given",
        ),
        pytest.param(
            Fetch("next", resources=["docs://{amount}"]),
            UnresolvableParams("next", "amount", "", "the prompt argument 'amount' was not given"),
            id="a prompt argument that was not given",
        ),
        pytest.param(
            ToolStep("next", tool="refund", resources=["docs://{amount}"]),
            UnresolvableParams("next", "amount", "refund", "the prompt argument 'amount' was not given"),
            id="the resource of a tool step",
        ),
    ],
)
def test_a_uri_without_a_value_is_unresolvable(step: Step, reason: UnresolvableParams) -> None:
    assert decide(step) == reason
