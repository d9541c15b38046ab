"""Definitions of workflows and steps are immutable. Fingerprints change with what a step does."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from mcp_baton import Server, ToolStep, WorkflowError
from mcp_baton.tools.arguments import Argument
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.sources import Source, TaskVariable, constant, prompt_arg, source_json, step_output
from mcp_baton.workflow.steps.step import Step

FETCH = ToolStep("fetch", tool="fetch", arguments={"order_id": prompt_arg("order_id")}, binding="order")


def workflow(*steps: Step, arguments: Sequence[Argument] = (Argument("order_id"),)) -> Workflow:
    return Workflow(name="refund_order", description="refund an order", arguments=arguments, steps=steps)


@pytest.mark.parametrize(
    ("part", "field"), [(part, field) for part in (FETCH, workflow(FETCH)) for field in vars(part)]
)
def test_the_fields_of_steps_and_workflows_cannot_be_set(part: Step | Workflow, field: str) -> None:
    with pytest.raises(AttributeError):
        setattr(part, field, None)


def test_later_changes_of_its_parts_do_not_change_a_definition() -> None:
    sources: dict[str, Source] = {"order_id": constant("a")}
    bindings: dict[str, Source] = {"t": constant("a")}
    uris, steps, arguments = ["docs://{t}"], [FETCH], [Argument("order_id")]
    step = ToolStep("s", tool="fetch", arguments=sources, resources=uris, template_bindings=bindings)
    definition = Workflow(name="w", description="d", arguments=arguments, steps=steps)

    sources["order_id"] = bindings["t"] = constant("b")
    uris.append("docs://more")
    steps.append(step)
    arguments.clear()

    assert source_json(step.arguments["order_id"]) == source_json(constant("a"))
    assert source_json(step.template_bindings["t"]) == source_json(constant("a"))
    assert step.resources == ("docs://{t}",)
    assert (definition.steps, definition.arguments) == ((FETCH,), (Argument("order_id"),))
    with pytest.raises(TypeError):
        cast("dict[str, Source]", step.arguments)["x"] = constant(1)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"steps": ["pay"]}, r"'pay' is not a step; write ToolStep\('pay', tool='pay'"),
        ({"steps": FETCH}, r"steps is a list; write steps=\[ToolStep"),
        ({"steps": [FETCH], "arguments": "order"}, r"Argument\('order'\), in a list: arguments=\["),
    ],
)
def test_members_of_another_type_are_refused_with_the_other_errors(options: dict[str, Any], problem: str) -> None:
    billing, shop = Server("billing"), Server("shop")
    billing.add_workflow(Workflow(name="refund", description="refund", **options))
    shop.include(billing, prefix="billing_")
    with pytest.raises(WorkflowError, match=f"^workflow 'billing_refund': .*{problem}"):
        shop.check()


@pytest.mark.parametrize(
    "changes",
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
def test_a_fingerprint_changes_with_what_a_step_does(changes: dict[str, Any]) -> None:
    assert FETCH.replace(**changes).fingerprint != FETCH.fingerprint


@pytest.mark.parametrize("changes", [{"guidance": "careful"}, {"retryable": True}, {"checkpoint": True}])
def test_a_fingerprint_does_not_change_with_texts_and_hints(changes: dict[str, Any]) -> None:
    assert FETCH.replace(**changes).fingerprint == FETCH.fingerprint


def test_fingerprints_of_different_sources_differ() -> None:
    sources: list[Source] = [
        constant("a"),
        prompt_arg("a"),
        step_output("a"),
        step_output("a", "b"),
        TaskVariable("a"),
    ]
    fingerprints = {ToolStep("s", tool="fetch", arguments={"order_id": source}).fingerprint for source in sources}

    assert len(fingerprints) == len(sources)
