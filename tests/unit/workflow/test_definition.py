"""A workflow's definition: immutable, and refused while the server is put together when it cannot work."""

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from mcp_baton.exceptions import WorkflowError
from mcp_baton.tasks.record import StepStatus
from mcp_baton.workflow.definition import MAX_STEPS, Argument, Step, Workflow, check
from mcp_baton.workflow.sources import Source, constant, prompt_arg, step_output, task_variable

TOOLS = {"fetch": frozenset({"order_id"}), "refund": frozenset({"order_id", "amount"}), "ping": frozenset[str]()}
FETCH = Step("fetch", tool="fetch", arguments={"order_id": prompt_arg("order_id")}, binding="order")


def workflow(*steps: Step, arguments: Sequence[Argument] = (Argument("order_id"),)) -> Workflow:
    return Workflow(name="refund_order", description="refund an order", arguments=arguments, steps=steps)


def refused(made: Workflow) -> WorkflowError:
    with pytest.raises(WorkflowError) as caught:
        check(made, TOOLS)
    return caught.value


def not_a_source(value: object) -> Source:
    """What a user without a type checker may write."""
    return cast("Source", value)


def test_a_workflow_that_can_work_is_accepted() -> None:
    check(
        workflow(
            FETCH,
            Step("policy", resources=["docs://{topic}/{order_id}"], template_bindings={"topic": step_output("order")}),
            Step("refund", tool="refund", arguments={"amount": step_output("order", "total"), "order_id": constant(1)}),
            Step("both", tool="ping", resources=["docs://faq"]),
            Step("own", tool="ping", resources=["docs://{t}"], template_bindings={"t": step_output("own", "id")}),
            Step("last", tool="fetch", arguments={"order_id": task_variable("seen")}),
        ),
        TOOLS,
    )


@pytest.mark.parametrize(
    ("step", "cause"),
    [
        pytest.param(Step("s", tool="nothing"), "unknown tool 'nothing'", id="unknown tool"),
        pytest.param(Step("s"), "neither a tool nor resources", id="neither tool nor resources"),
        pytest.param(
            Step("s", resources=["docs://a"], arguments={"x": constant(1)}), "takes no arguments", id="resource-only"
        ),
        pytest.param(Step("s", arguments={"x": constant(1)}), "neither a tool nor resources", id="arguments alone"),
        pytest.param(
            Step("s", tool="fetch", arguments={"order_id": step_output("nobody")}),
            "step_output('nobody') refers to an unknown binding",
            id="unknown binding",
        ),
        pytest.param(
            Step("s", tool="fetch", arguments={"order_id": step_output("fetch")}),
            "step_output('fetch') refers to an unknown binding",
            id="a step's name where it has another binding",
        ),
        pytest.param(
            Step("s", tool="fetch", arguments={"order_id": step_output("later")}),
            "step_output('later') does not refer to an earlier step",
            id="a later step",
        ),
        pytest.param(
            Step("s", tool="fetch", arguments={"order_id": step_output("s")}),
            "step_output('s') does not refer to an earlier step",
            id="itself",
        ),
        pytest.param(
            Step("s", resources=["docs://{t}"], template_bindings={"t": step_output("later", "x")}),
            "step_output('later') does not refer to an earlier step",
            id="a later step in a template",
        ),
        pytest.param(
            Step("s", resources=["docs://{t}"], template_bindings={"t": step_output("s")}),
            "step_output('s') does not refer to an earlier step",
            id="itself in a template, without a tool",
        ),
        pytest.param(
            Step("s", tool="fetch", arguments={"order": constant(1)}), "no parameter 'order'", id="unknown parameter"
        ),
        pytest.param(
            Step("s", tool="fetch", arguments={"order_id": prompt_arg("id")}),
            "prompt_arg('id') names no argument",
            id="unknown prompt argument",
        ),
        pytest.param(
            Step("s", resources=["docs://{t}"], template_bindings={"t": prompt_arg("id")}),
            "prompt_arg('id') names no argument",
            id="unknown prompt argument in a template",
        ),
        pytest.param(Step("s", resources=["docs://{topic}"]), "{topic}", id="unbound placeholder"),
        pytest.param(
            Step("s", tool="fetch", arguments={"order_id": not_a_source("A-17")}), "constant(", id="a bare value"
        ),
        pytest.param(
            Step("s", resources=["docs://{t}"], template_bindings={"t": not_a_source(7)}),
            "constant(",
            id="in a template",
        ),
        pytest.param(
            Step("s", tool="fetch", arguments={"order_id": constant(float("nan"))}), "'order_id'", id="NaN constant"
        ),
        pytest.param(
            Step("s", tool="fetch", arguments={"order_id": constant(cast("Any", datetime.now(UTC)))}),
            "'order_id'",
            id="constant that is not JSON",
        ),
        pytest.param(Step("fetch", tool="ping"), "step names are unique", id="a name twice"),
        pytest.param(Step("s", tool="ping", binding="order"), "the binding 'order' is taken", id="a binding twice"),
        pytest.param(Step("order", tool="ping"), "the binding 'order' is taken", id="a name that is a binding"),
    ],
)
def test_a_step_that_cannot_work_is_named_with_its_workflow_and_the_cause(step: Step, cause: str) -> None:
    error = refused(workflow(FETCH, step, Step("later", tool="ping")))

    assert (error.workflow, error.step) == ("refund_order", step.name)
    assert cause in error.cause
    assert str(error) == f"workflow 'refund_order', step {step.name!r}: {error.cause}"


@pytest.mark.parametrize(
    ("made", "cause"),
    [
        pytest.param(workflow(), "no steps", id="no steps"),
        pytest.param(workflow(*(Step(f"s{n}", tool="ping") for n in range(MAX_STEPS + 1))), "101", id="too many steps"),
        pytest.param(workflow(Step("", tool="ping")), "empty name", id="a step without a name"),
        pytest.param(
            workflow(FETCH, arguments=[Argument("order_id"), Argument("order_id")]), "'order_id'", id="argument twice"
        ),
    ],
)
def test_a_workflow_that_cannot_work_is_named_with_the_cause(made: Workflow, cause: str) -> None:
    error = refused(made)

    assert (error.workflow, error.step) == ("refund_order", None)
    assert cause in error.cause


def test_as_many_steps_as_are_allowed_are_allowed() -> None:
    check(workflow(*(Step(f"s{n}", tool="ping") for n in range(MAX_STEPS))), TOOLS)


def test_resources_given_as_one_string_are_refused_before_they_become_letters() -> None:
    with pytest.raises(TypeError, match="list"):
        Step("s", resources="docs://faq")


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Step)])
def test_a_steps_fields_cannot_be_set(field: str) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(FETCH, field, None)


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Workflow)])
def test_a_workflows_fields_cannot_be_set(field: str) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(workflow(FETCH), field, None)


def test_what_a_definition_was_made_of_does_not_change_it() -> None:
    sources: dict[str, Source] = {"order_id": constant("a")}
    bindings: dict[str, Source] = {"t": constant("a")}
    uris, steps, arguments = ["docs://{t}"], [FETCH], [Argument("order_id")]
    step = Step("s", tool="fetch", arguments=sources, resources=uris, template_bindings=bindings)
    made = Workflow(name="w", description="d", arguments=arguments, steps=steps)

    sources["order_id"] = bindings["t"] = constant("b")
    uris.append("docs://more")
    steps.append(step)
    arguments.clear()

    assert step.arguments == {"order_id": constant("a")}
    assert step.template_bindings == {"t": constant("a")}
    assert step.resources == ("docs://{t}",)
    assert (made.steps, made.arguments) == ((FETCH,), (Argument("order_id"),))
    with pytest.raises(TypeError):
        cast("dict[str, Source]", step.arguments)["x"] = constant(1)


def test_a_step_is_bound_under_its_name_unless_it_is_given_another() -> None:
    assert Step("s", tool="ping").binding == "s"
    assert FETCH.binding == "order"
    assert workflow(FETCH).bound("order") is FETCH
    assert workflow(FETCH).step("fetch") is FETCH
    assert workflow(FETCH).step("order") is None


def test_progress_lists_every_step_and_leaves_out_the_tool_of_one_without() -> None:
    made = workflow(FETCH, Step("policy", resources=["docs://faq"]))

    assert made.progress([StepStatus.COMPLETED, StepStatus.PENDING]) == {
        "goal": "refund_order: refund an order",
        "steps": [
            {"name": "fetch", "tool": "fetch", "status": "completed"},
            {"name": "policy", "status": "pending"},
        ],
        "schemaVersion": 1,
    }


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "other"},
        {"tool": "ping"},
        {"arguments": {"order_id": constant("order_id")}},
        {"arguments": {}},
        {"binding": "else"},
        {"resources": ["docs://faq"]},
        {"template_bindings": {"t": step_output("x", "y")}},
    ],
)
def test_a_fingerprint_changes_with_what_a_step_does(changed: dict[str, Any]) -> None:
    assert dataclasses.replace(FETCH, **changed).fingerprint != FETCH.fingerprint


@pytest.mark.parametrize("changed", [{"guidance": "careful"}, {"retryable": True}, {"checkpoint": True}])
def test_a_fingerprint_does_not_change_with_texts_and_hints(changed: dict[str, Any]) -> None:
    assert dataclasses.replace(FETCH, **changed).fingerprint == FETCH.fingerprint


def test_fingerprints_tell_the_kinds_of_sources_apart() -> None:
    sources: list[Source] = [
        constant("a"),
        prompt_arg("a"),
        step_output("a"),
        step_output("a", "b"),
        task_variable("a"),
    ]
    prints = {Step("s", tool="fetch", arguments={"order_id": source}).fingerprint for source in sources}

    assert len(prints) == len(sources)


def test_a_workflows_fingerprint_has_one_part_a_step() -> None:
    made = workflow(FETCH, Step("p", tool="ping"))

    assert made.fingerprint.split() == [step.fingerprint for step in made.steps]
