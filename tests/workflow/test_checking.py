"""An invalid workflow is refused before it is served. The error names the workflow, the step and the cause.

Common mistakes and their remedies are tested in tests/mistakes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypedDict, cast

import pytest

from mcp_baton import Fetch, ToolStep
from mcp_baton.exceptions import WorkflowError
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.labels import Labels
from mcp_baton.tools.tool import Tool
from mcp_baton.workflow.checking import MAX_STEP_NAME_CHARS, MAX_STEPS
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.function_checks import check_workflows
from mcp_baton.workflow.sources import Source, TaskVariable, constant, prompt_arg, step_output
from mcp_baton.workflow.steps.step import Step


class Line(TypedDict):
    total: float
    email: str


class Order(TypedDict):
    lines: list[Line]


def fetch_order(order_id: str) -> None: ...
def fetch_lines(order_id: str) -> Order: ...  # type: ignore[empty-body]
def pay(order_id: str, amount: float) -> None: ...
def ping() -> None: ...
def unpublished() -> None: ...


def published(tools: Mapping[str, Callable[..., object]], **options: Any) -> dict[str, Tool]:
    return {name: Tool(function, name, Labels(), **options) for name, function in tools.items()}


TOOLS = published({"fetch": fetch_order, "refund": pay, "ping": ping})
FETCH = ToolStep("fetch", tool="fetch", arguments={"order_id": prompt_arg("order_id")}, binding="order")


def workflow(*steps: Step, arguments: Sequence[Argument] = (Argument("order_id"),)) -> Workflow:
    return Workflow(name="refund_order", description="refund an order", arguments=arguments, steps=steps)


def checked(definition: Workflow, tools: Mapping[str, Tool] = TOOLS) -> Workflow:
    return check_workflows({definition.name: definition}, tools, in_full=True)[definition.name]


def error_of(definition: Workflow, tools: Mapping[str, Tool] = TOOLS) -> WorkflowError:
    with pytest.raises(WorkflowError) as error_info:
        checked(definition, tools)
    return error_info.value


def not_a_source(value: object) -> Source:
    """Pass a value that a user without a type checker may write."""
    return cast("Source", value)


def fetch(source: Source, parameter: str = "order_id") -> Step:
    """Return a step that calls `fetch` with this argument."""
    return ToolStep("s", tool="fetch", arguments={parameter: source})


def reads(source: Source) -> Step:
    """Return a step that reads a resource whose URI contains this value."""
    return Fetch("s", resources=["docs://{t}"], template_bindings={"t": source})


NOT_WORKING = {
    "no tool": (ToolStep("s"), "it has no tool"),
    "no resources": (Fetch("s", []), "it has no resources"),
    "resources that are one text": (Fetch("s", "docs://a"), "write resources=['docs://a']"),
    "resources that are no list": (ToolStep("s", resources=cast("Any", 5), tool="ping"), "resources is a list of URIs"),
    "a number as the tool": (ToolStep("s", tool=cast("Any", 7)), "its tool is a tool's name or its function"),
    "a number as the name": (ToolStep(cast("Any", 7), tool="ping"), "its name is not a text; write one"),
    "a list as arguments": (ToolStep("s", cast("Any", ["a"]), tool="ping"), "arguments={'a': prompt_arg('a')}"),
    "a text as the condition": (ToolStep("s", tool="ping", when="a"), "when: "),
    "a later step in a template": (
        reads(step_output("later", "x")),
        "step_output('later', 'x') does not refer to an earlier step; put 'later' before 's'",
    ),
    "itself in a template, without a tool": (
        reads(step_output("s")),
        "step_output('s') does not refer to an earlier step",
    ),
    "unknown prompt argument in a template": (reads(prompt_arg("id")), "prompt_arg('id') names no argument"),
    "in a template": (reads(not_a_source(7)), "constant("),
    "NaN constant": (fetch(constant(float("nan"))), "'order_id'"),
    "a binding twice": (ToolStep("s", tool="ping", binding="order"), "the binding 'order' is taken"),
    "a name that is a binding": (ToolStep("order", tool="ping"), "the binding 'order' is taken"),
}


@pytest.mark.parametrize(("step", "cause"), NOT_WORKING.values(), ids=NOT_WORKING)
def test_an_error_in_a_step_names_the_workflow_the_step_and_the_cause(step: Step, cause: str) -> None:
    error = error_of(workflow(FETCH, step, ToolStep("later", tool="ping")))

    assert (error.workflow, error.step) == ("refund_order", step.name)
    assert cause in error.cause
    assert str(error) == f"workflow 'refund_order', step {step.name!r}: {error.cause}"


def flow_with(*arguments: Argument) -> Workflow:
    return workflow(FETCH, arguments=arguments)


@pytest.mark.parametrize(
    ("definition", "cause"),
    [
        pytest.param(
            workflow(*(ToolStep(f"s{index}", tool="ping") for index in range(MAX_STEPS + 1))), "101", id="101"
        ),
        pytest.param(workflow(ToolStep("", tool="ping")), "empty name", id="a step without a name"),
        pytest.param(flow_with(Argument("order_id"), Argument("order_id")), "'order_id'", id="argument twice"),
        pytest.param(flow_with(Argument("order_id", required=True, default="A-17")), "is required", id="default"),
        pytest.param(flow_with(Argument("order_id", default=cast("Any", datetime.now(UTC)))), "is not JSON", id="time"),
    ],
)
def test_an_error_in_a_workflow_names_the_workflow_and_the_cause(definition: Workflow, cause: str) -> None:
    error = error_of(definition)

    assert (error.workflow, error.step) == ("refund_order", None)
    assert cause in error.cause


def test_a_step_with_a_long_name_is_refused() -> None:
    error = error_of(workflow(ToolStep("s" * (MAX_STEP_NAME_CHARS + 1), tool="ping")))

    assert "its name has 65 characters; give it one of at most 64" in error.cause
    longest = workflow(ToolStep("s" * MAX_STEP_NAME_CHARS, tool="ping"))
    assert checked(longest, TOOLS) is longest


def test_the_maximum_number_of_steps_is_allowed() -> None:
    definition = workflow(*(ToolStep(f"s{index}", tool="ping") for index in range(MAX_STEPS)))

    assert checked(definition, TOOLS) is definition


@pytest.mark.parametrize("name", ["", "1st", "-a", "a.b", "größe", "a b", "n" * 65, "name\n"])
def test_a_name_that_a_host_may_reject_is_refused(name: str) -> None:
    assert "1 to 64" in error_of(replace(workflow(FETCH), name=name)).cause
    assert error_of(flow_with(Argument("order_id"), Argument(name))).cause.startswith(f"the argument {name!r}")


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"durable": False}, "leave out durable=False"),
        ({"tool": False}, "leave out tool=False"),
        ({"ask": True}, "leave out one"),
        ({"arguments": [Argument("card", secret=True)]}, "the argument 'card' is secret"),
    ],
    ids=str,
)
def test_a_workflow_that_workers_cannot_run_must_not_be_background(changes: dict[str, Any], remedy: str) -> None:
    ping = ToolStep("ping", tool="ping")
    checked(replace(workflow(ping), background=True), TOOLS)
    checked(replace(workflow(ping), **changes), TOOLS)
    assert remedy in error_of(replace(workflow(ping), background=True, **changes)).cause


def test_a_suggested_path_keeps_its_remaining_keys() -> None:
    tools = {**TOOLS, **published({"fetch": fetch_lines})}
    step = ToolStep(
        "s", tool="ping", resources=["a://{t}"], template_bindings={"t": step_output("order", "linse.0.total")}
    )

    cause = error_of(workflow(FETCH, step), tools).cause

    assert cause == (
        "step_output('order', 'linse.0.total'): the output of the tool 'fetch' has no 'linse', only lines; "
        "did you mean 'lines.0.total'?"
    )


def test_a_step_that_only_reads_resources_has_no_fields() -> None:
    error = error_of(workflow(Fetch("policy", resources=["docs://faq"]), fetch(step_output("policy", "text"))))

    assert error.cause == (
        "step_output('policy', 'text'): the output of the step 'policy', which has no tool, has no 'text'"
    )


class Desk:
    def sell(self) -> None: ...


def test_a_method_is_resolved_to_the_tool_of_its_object() -> None:
    first_desk, second_desk = Desk(), Desk()
    tools = published({"one": first_desk.sell, "other": second_desk.sell})

    assert checked(workflow(ToolStep("s", tool=second_desk.sell)), tools).steps[0].tool == "other"


def test_a_function_must_be_published_as_exactly_one_tool() -> None:
    two_tools, one_tool = published({"a": pay, "b": pay}), published({"unpublished": pay})

    assert "published as 'a' and 'b'" in error_of(workflow(ToolStep("s", tool=pay)), two_tools).cause
    assert (
        "'unpublished' is not a tool of this server"
        in error_of(workflow(ToolStep("s", tool=unpublished)), one_tool).cause
    )


def test_a_tool_that_needs_more_scopes_than_the_workflow_is_not_named() -> None:
    step = fetch(TaskVariable("seen", "id"))
    hidden = published({"look": ping}, sets=("seen",), requires=frozenset({"admin"}))
    admins = published({"fetch": fetch_order}, requires=frozenset({"admin"}))

    assert checked(workflow(step), {**TOOLS, **hidden}).setters == {}
    assert checked(workflow(step), {**TOOLS, **hidden, **admins}).setters == {"seen": ("look",)}
