"""The remaining calls of a task, as data and as text (docs/workflows.md)."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from mcp_baton import (
    Argument,
    Callback,
    Fetch,
    ListStep,
    Question,
    ToolStep,
    Wait,
    Workflow,
    constant,
    exists,
    is_in,
    item,
    or_default,
    prompt_arg,
    step_output,
)
from mcp_baton.present.recording import RESULT_LOST, recorded_text
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.dynamodb.values import ValuePointer, Variables
from mcp_baton.tasks.record import APPROVAL_PREFIX, PAUSE_REASONS, RESULT_PREFIX, StepStatus, TaskStatus
from mcp_baton.tasks.store import Batch, StepWrite
from mcp_baton.tools.quoting import MAX_QUOTED_CHARS
from mcp_baton.workflow.continuation import ContinuationCall
from mcp_baton.workflow.continuations import Recorded
from mcp_baton.workflow.handle import Handle
from mcp_baton.workflow.pause import PauseReason, StepFailed
from mcp_baton.workflow.plan import Plan
from mcp_baton.workflow.remaining import is_denied, next_calls
from mcp_baton.workflow.steps.step import Step
from tests.fakes import ScriptedHost, plan_of, task_of

PENDING, COMPLETED, FAILED, SKIPPED = StepStatus
LONG = "x" * MAX_QUOTED_CHARS
STEPS = [
    ToolStep("get", tool="get"),
    Fetch(
        "read", resources=["docs://{page}"], template_bindings={"page": step_output("get", "page")}, guidance="Quickly."
    ),
    ToolStep("put", tool="put", arguments={"a": step_output("get"), "b": constant(LONG)}, guidance="For {order}."),
    ToolStep(
        "end",
        tool="end",
        arguments={"of": step_output("put"), "n": prompt_arg("order")},
        resources=["docs://before", "docs://{id}"],
        template_bindings={"id": step_output("end", "id")},
    ),
]


def flow(**changes: Any) -> Workflow:
    arguments = [Argument("order")]
    return Workflow(**{"name": "flow", "description": "flow", "arguments": arguments, "steps": STEPS, **changes})


def plan(letters: str, *, workflow: Workflow | None = None, status: TaskStatus = TaskStatus.WORKING) -> Plan:
    """Return a plan. If its first step is completed, the step's result has a long value."""
    variables: JsonObject = {f"{RESULT_PREFIX}get": {"page": "one", "more": LONG}} if letters[0] == "c" else {}
    task = replace(task_of(flow(), letters, variables), task_id="T-1", status=status)
    return plan_of(task, workflow or flow(), {"order": "A-17"})


def remaining(task_plan: Plan, handle: Handle | None = None) -> list[JsonObject]:
    return next_calls(task_plan, ScriptedHost(), handle)


def text(
    task_plan: Plan,
    *writes: StepWrite,
    pauses: tuple[JsonObject, ...] | None = None,
    oversized: Sequence[str] = (),
    ignored: str | None = None,
) -> str:
    handle = Handle("T-1", task_plan.workflow or flow(), {"get", "put"}.__contains__)
    call = ContinuationCall("get", {}, ignored=ignored)
    recorded = Recorded(task_plan.task, Batch(writes, pauses), oversized, call)
    return recorded_text(recorded, task_plan, remaining(task_plan, handle), handle)


def write_of(name: str, status: StepStatus = COMPLETED) -> StepWrite:
    return StepWrite(0, name, PENDING, status, None)


def test_without_a_workflow_tool_all_open_steps_are_listed_with_their_known_arguments() -> None:
    assert remaining(plan("cpfp", workflow=flow(tool=False))) == [
        {"resource": "docs://one"},
        {
            "tool": "put",
            "arguments": {"a": "<output from get>", "b": LONG},
            "task_id": "T-1/put",
            "guidance": 'For "A-17".',
        },
        {"resource": "docs://before"},
        {"tool": "end", "arguments": {"of": "<output from put>", "n": "A-17"}, "task_id": "T-1/end"},
        {"resource": "docs://<field 'id' from end>"},
    ]


def paused_plan(letters: str, *pauses: PauseReason, workflow: Workflow | None = None) -> Plan:
    workflow = workflow or flow()
    reasons = [pause.to_json() for pause in pauses]
    variables: JsonObject = {f"{RESULT_PREFIX}get": {"page": "one", "more": LONG}, PAUSE_REASONS: reasons}
    task = task_of(workflow, letters, variables)
    return plan_of(replace(task, task_id="T-1"), workflow, {"order": "A-17"})


UNREAD = StepFailed("read", "gone", retryable=False, suggested_tool="", resource="docs://one")


def test_a_resource_that_cannot_be_read_leaves_all_calls_to_the_model() -> None:
    tools = [entry.get("tool") for entry in remaining(paused_plan("cfpp", UNREAD))]
    assert tools == [None, "put", None, "end", None, "flow"]


@pytest.mark.parametrize(
    "source",
    [
        Question("ask", "Which?", str, of="model"),
        Wait("ask", callback=Callback(str, timedelta(hours=1))),
        ToolStep("ask", tool="get", when=exists(step_output("later"))),
    ],
    ids=["question", "callback", "condition"],
)
def test_no_call_is_suggested_that_needs_what_the_model_cannot_do(source: Step) -> None:
    uses = ToolStep("uses", tool="end", arguments={"of": or_default(step_output("ask"), "none")})
    later = ToolStep("later", tool="end", arguments={"of": step_output("uses")})
    steps = [*STEPS[:2], source, uses, later, ToolStep("free", tool="put", arguments={"a": step_output("get")})]
    called_early = StepFailed("uses", "no", retryable=False, suggested_tool="end")
    for letters, pause, expected in (("cfpppp", UNREAD, [None, "put", "flow"]), ("cppfpp", called_early, ["flow"])):
        task_plan = paused_plan(letters, pause, workflow=flow(steps=steps))
        assert [entry.get("tool") for entry in remaining(task_plan)] == expected


def test_a_workflow_with_many_open_steps_has_its_calls_without_comparing_each_step_with_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Step, "__eq__", lambda one, other: pytest.fail(f"{one} is compared with {other}"))
    steps = [*STEPS[:2], *(ToolStep(f"put{number}", tool="put") for number in range(60))]
    task_plan = paused_plan("cf" + 60 * "p", UNREAD, workflow=flow(steps=steps))
    assert len(remaining(task_plan)) == 62


def test_no_call_is_suggested_that_needs_a_call_that_would_fail_again() -> None:
    failed = StepFailed("put", "no", retryable=False, suggested_tool="put")
    calls = next_calls(paused_plan("cffp", UNREAD, failed), ScriptedHost(), with_failed=False)
    assert [entry.get("tool") for entry in calls] == [None, "flow"]


@pytest.mark.parametrize(("letters", "names"), [("cp", ["task_id", "pin"]), ("cs", ["task_id"])])
def test_the_call_that_skips_the_last_steps_has_the_secret_arguments(letters: str, names: list[str]) -> None:
    arguments = [Argument("pin", secret=True, required=True)]
    end = ToolStep("end", tool="end", when=is_in(step_output("get", "page"), ["two"]))
    workflow = Workflow(name="flow", description="flow", arguments=arguments, steps=[STEPS[0], end])
    task = replace(task_of(workflow, letters, {f"{RESULT_PREFIX}get": {"page": "one"}}), task_id="T-1")
    [call] = remaining(plan_of(task, workflow, {"pin": "1234"}))
    values: JsonObject = {"task_id": "T-1", "pin": "<secret pin>"}
    assert call["arguments"] == {name: values[name] for name in names}


def test_calls_have_the_ids_of_their_steps_as_an_argument_if_their_tools_accept_it() -> None:
    task_plan, handle = plan("ccpp", workflow=flow(tool=False)), Handle("T-1", flow(tool=False), {"put"}.__contains__)
    calls = [(entry["arguments"], entry.get("task_id")) for entry in remaining(task_plan, handle) if "tool" in entry]
    assert calls == [
        ({"a": "<output from get>", "b": LONG, "task_id": "T-1/put"}, None),
        ({"of": "<output from put>", "n": "A-17"}, "T-1/end"),
    ]


def test_calls_of_elements_have_ids_as_soon_as_the_list_is_known() -> None:
    each = ListStep("each put", {"a": item()}, tool="put", each=step_output("get"))
    workflow = Workflow(name="flow", description="flow", steps=[STEPS[0], each], tool=False)
    task = replace(task_of(workflow, "pp"), task_id="T-1")
    unknown = remaining(plan_of(task, workflow))
    known_task = replace(task_of(workflow, "cp", {f"{RESULT_PREFIX}get": ["x", "y"]}), task_id="T-1")
    known = remaining(plan_of(known_task, workflow))
    assert [entry["task_id"] for entry in unknown] == ["T-1/get"]
    assert [entry["task_id"] for entry in known] == ["T-1/each%20put/0", "T-1/each%20put/1"]


def test_if_only_resources_remain_the_server_can_continue() -> None:
    prefix = "Recorded as step 'end' (3 of 4 done). Next:"
    next_call = f'{prefix} call flow with {{"task_id": "T-1"}}: the server continues.'
    assert text(plan("cpcc"), write_of("end")) == next_call
    task_plan = plan("cpcc", workflow=flow(tool=False))
    assert (
        text(task_plan, write_of("end"))
        == f"{prefix} read the resource docs://one. No call is left; the client completes the task."
    )


def test_an_extra_call_also_says_that_all_steps_are_done() -> None:
    task_plan = plan("cccc")
    end = 'All 4 steps are done. Call flow with {"task_id": "T-1"} to finish.'
    assert text(task_plan, write_of("get")) == end
    assert text(task_plan) == f"Recorded as an extra call, not as a step (4 of 4 done). {end}"
    assert text(task_plan, write_of("get"), oversized=["_workflow.result.get"]) == f"{RESULT_LOST} {end}"


def test_a_task_without_its_workflow_has_steps_but_no_next_call() -> None:
    task_plan = plan("cppp")
    plan_without_workflow = plan_of(task_plan.task, None)
    assert text(plan_without_workflow, write_of("get")) == "Recorded as step 'get' (1 of 4 done)."
    ended_plan = plan_of(plan("cccc").task, None)
    assert text(ended_plan, write_of("get")) == "All 4 steps are done; the client completes the task."


NOTE = f"{APPROVAL_PREFIX}pay"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, False),
        ({NOTE: {"digest": "d", "repeat": 0}}, False),
        ({NOTE: {"digest": "d", "repeat": 0, "denied": {}}}, True),
        # A value outside the task's item, while DynamoDB does not answer.
        (Variables({NOTE: ValuePointer("b", 300, 300, 300).attribute()}), False),
    ],
    ids=["no approval", "not denied", "denied", "unreadable"],
)
def test_a_step_is_denied_if_the_note_of_its_approval_says_so(variables: JsonObject, expected: bool) -> None:
    assert is_denied(variables, "pay") is expected
