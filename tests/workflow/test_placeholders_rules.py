"""Placeholders that a model sends back (docs/workflows.md, Placeholders)."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mcp_baton import Argument, Fetch, ToolStep, Workflow, prompt_arg, step_output, task_variable
from mcp_baton.exceptions import StoreError, StoreUnavailable, ValueNotKept
from mcp_baton.tasks.record import CALL_PREFIX, PROGRESS, RESULT_PREFIX
from mcp_baton.tools.secrets import stored_arguments
from mcp_baton.workflow.placeholders import (
    MAX_PLACEHOLDER_CHARS,
    MAX_PLACEHOLDERS,
    PlaceholderLimits,
    ReplacedArguments,
    is_placeholder,
    replace_placeholders,
    unknown_text,
)
from mcp_baton.workflow.plan import Plan
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.sources import Source
from tests.fakes import plan_of, task_of

ROOM = PlaceholderLimits(1_000_000, 1_000_000)
ODD = "it's' from here"
FLOW = Workflow(
    name="flow",
    description="flow",
    arguments=[Argument("order"), Argument("note"), Argument("pin", secret=True)],
    steps=[
        ToolStep("fetch", tool="get", arguments={"id": prompt_arg("order")}, binding="it"),
        ToolStep("again", tool="get", arguments={"id": step_output("it", "lines.0.id")}),
        Fetch("read", resources=["docs://{x}"], template_bindings={"x": step_output("again", ODD)}),
        ToolStep("pay", tool="pay", arguments={"of": step_output("again"), "to": task_variable("who", "mail")}),
        ToolStep("mail", tool="mail", arguments={"of": step_output("pay", "id"), "v": task_variable("who")}),
        ToolStep("last", tool="mail", arguments={"of": step_output("read"), "to": prompt_arg("note")}),
    ],
)
"""Two steps call `get` and two call `mail`. One only reads a resource."""
STATUSES = "cccpfs"
VALUES: dict[str, Any] = {
    f"{RESULT_PREFIX}fetch": {"lines": [{"id": 7}]},
    f"{RESULT_PREFIX}again": {ODD: "odd", "of": {"a": [1.0, None]}},
    f"{RESULT_PREFIX}read": None,
    f"{RESULT_PREFIX}mail": {"error": "refused"},
    "who": {"mail": "kim@example.com"},
}


def plan(workflow: Workflow | None = FLOW, **other_variables: Any) -> Plan:
    return plan_of(task_of(FLOW, STATUSES, VALUES | other_variables), workflow, {"order": "A-17"})


def replace_in(text: Any, task_plan: Plan | None = None) -> ReplacedArguments:
    return replace_placeholders({"a": text, "b": 1}, task_plan or plan(), ROOM)


@pytest.mark.parametrize(
    ("source", "text", "value"),
    [
        (prompt_arg("order"), "<prompt arg order>", "A-17"),
        (step_output("it", "lines.0.id"), "<field 'lines.0.id' from get (step 'fetch')>", 7),
        (step_output("again"), "<output from get (step 'again')>", VALUES[f"{RESULT_PREFIX}again"]),
        (step_output("again", ODD), f"<field '{ODD}' from get (step 'again')>", "odd"),
        (step_output("read"), "<output from read>", None),
        (task_variable("who"), "<task variable who>", {"mail": "kim@example.com"}),
        (task_variable("who", "mail"), "<field 'mail' from task variable who>", "kim@example.com"),
    ],
)
def test_a_placeholder_of_a_handoff_is_replaced_by_its_value(source: Source, text: str, value: object) -> None:
    assert KnownValues(FLOW, {}, {}, {}, {}, {}).placeholder(source) == text
    assert replace_in(text).arguments == {"a": value, "b": 1}
    assert replace_in(text).unknown == ()
    assert replace_in(text).names == ("a",)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("<prompt arg note>", "started without its argument 'note'"),
        ("<output from pay>", "call pay first"),
        ("<field 'id' from pay>", "call pay first"),
        ("<output from mail (step 'mail')>", "step 'mail' is failed"),
        ("<output from mail (step 'last')>", "step 'last' is skipped"),
        ("<output from get>", "as in <output from get (step 'fetch')>"),
        ("<field 'lines.9' from get (step 'fetch')>", "has no 'lines.9'"),
        ("<field 'x' from task variable who>", "variable 'who'"),
        ("<missing: a>", "you must supply"),
        ("<invalid: a>", "you must supply"),
        ("<secret pin>", "is secret"),
    ],
)
def test_a_placeholder_without_a_value_is_named_with_a_correction(text: str, cause: str) -> None:
    [unknown] = replace_in(text).unknown
    assert (unknown.argument, unknown.placeholder) == ("a", text)
    assert cause in unknown.reason
    assert replace_in(text).arguments["a"] == text
    assert unknown_text((unknown,)) == f"Nothing was run. The argument 'a' is \"{text}\": {unknown.reason}."


def test_a_lost_value_is_not_known() -> None:
    readable_plan = plan()
    unreadable = Unreadable(readable_plan.task.variables, ValueNotKept(9, "exceeds the task's size limit"))
    task_plan = plan_of(replace(readable_plan.task, variables=unreadable), FLOW, {"order": "A-17"})
    [unknown] = replace_in("<output from get (step 'again')>", task_plan).unknown
    assert "is not available: result of 9 bytes exceeds the task's size limit; give the value itself" in unknown.reason


class Unreadable(dict[str, Any]):
    """A task's variables. Only the progress can be read."""

    def __init__(self, values: Mapping[str, Any], error: StoreError) -> None:
        super().__init__(values)
        self._error = error

    def __getitem__(self, name: str) -> Any:
        if name == PROGRESS:
            return super().__getitem__(name)
        raise self._error


def test_a_value_that_cannot_be_read_is_not_known_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    task = task_of(FLOW, STATUSES, {**VALUES, f"{CALL_PREFIX}fetch": {"id": "A-17"}})
    task_plan = plan_of(replace(task, variables=Unreadable(task.variables, StoreUnavailable("down"))), FLOW)
    with caplog.at_level("WARNING"):
        assert task_plan.known is not None
        assert "again" not in task_plan.known.outputs
        assert not task_plan.was_called_with("fetch", task_plan.call_arguments("get", {"id": "A-17"}))
    assert [record.getMessage() for record in caplog.records] == [
        "task t: the result of step again cannot be read",
        "task t: the call of step fetch cannot be read",
    ]


def test_the_placeholder_of_a_secret_has_no_value() -> None:
    task = replace(plan().task, large_values={"arguments": stored_arguments({"order": "A-17", "pin": "4711"}, ["pin"])})
    task_plan = plan_of(task, FLOW, {"order": "A-17", "pin": "<secret pin>"})
    [unknown] = replace_in("<prompt arg pin>", task_plan).unknown
    assert "is secret" in unknown.reason


def test_a_value_that_looks_like_a_secrets_placeholder_is_a_value() -> None:
    variables: dict[str, Any] = {"who": "<secret pin>"}
    assert replace_in("<task variable who>", plan(**variables)).arguments["a"] == "<secret pin>"


@pytest.mark.parametrize(
    "value",
    [
        "<prompt arg nobodys>",
        "<output from nobodys>",
        "<field 'x' from nobodys>",
        "<output from get (step 'nobodys')>",
        "<task variable nobodys>",
        "<secret nobodys>",
        "<missing: nobodys>",
        "<invalid: b>",
        "<output from >",
        "<b>",
        "<output of pay>",
        "<prompt argument note>",
        "<output from pay",
        "<output from " + "p" * MAX_PLACEHOLDER_CHARS + ">",
        None,
        5,
        "",
    ],
)
def test_texts_that_are_no_placeholder_of_the_workflow_are_not_changed(value: object) -> None:
    result = replace_in(value)
    assert (result.arguments, result.unknown, result.names, result.digest) == ({"a": value, "b": 1}, (), (), None)


@pytest.mark.parametrize("task_plan", [None, plan(workflow=None)])
def test_without_a_task_or_a_workflow_no_value_is_known(task_plan: Plan | None) -> None:
    result = replace_placeholders({"a": "<prompt arg order>", "b": 1}, task_plan, ROOM)
    assert [item.argument for item in result.unknown] == ["a"]
    assert replace_placeholders({"a": "order"}, task_plan, ROOM).arguments == {"a": "order"}


def test_a_digest_changes_only_with_the_values() -> None:
    text = "<output from get (step 'again')>"
    new_result: dict[str, Any] = {f"{RESULT_PREFIX}again": 8}
    assert replace_in(text).digest == replace_placeholders({"a": text, "b": 2}, plan(), ROOM).digest
    assert replace_in(text).digest != replace_in(text, plan(**new_result)).digest


def test_a_value_is_a_copy() -> None:
    value: Any = replace_in("<output from get (step 'again')>").arguments["a"]
    value["of"]["a"].append("changed")
    assert VALUES[f"{RESULT_PREFIX}again"] == {ODD: "odd", "of": {"a": [1.0, None]}}


@given(st.text(max_size=40), st.text(min_size=1, max_size=20))
def test_any_text_can_be_checked_for_placeholders(text: str, name: str) -> None:
    for shape in ("<output from {}>", "<field '{}' from {}>", "<prompt arg {}>", "<task variable {}>", "<{}: {}>"):
        candidate = shape.format(*(text, name)[: shape.count("{}")])
        assert isinstance(is_placeholder(candidate), bool)
        assert len(replace_in(candidate).unknown) <= 1


def test_a_call_with_too_many_placeholders_is_refused() -> None:
    arguments = {f"a{number:03}": "<prompt arg order>" for number in range(MAX_PLACEHOLDERS + 1)}

    assert replace_placeholders(dict(list(arguments.items())[:MAX_PLACEHOLDERS]), plan(), ROOM).unknown == ()
    [refused] = replace_placeholders(arguments, plan(), ROOM).unknown
    assert refused.argument == f"a{MAX_PLACEHOLDERS:03}"
    assert f"at most {MAX_PLACEHOLDERS} placeholders" in unknown_text((refused,))
