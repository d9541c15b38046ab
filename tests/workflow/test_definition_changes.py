"""Resumes after the definition of a workflow has changed (docs/workflows.md, "When the workflow changes")."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from mcp_baton import (
    Argument,
    Callback,
    Fetch,
    ListStep,
    Question,
    Retry,
    Server,
    ToolStep,
    Wait,
    Workflow,
    constant,
    item,
    prompt_arg,
    step_output,
)
from mcp_baton.testing import Client, Connect, JsonRpcError
from mcp_baton.workflow.steps.step import Step
from tests.sent import Requests
from tests.support.client import Table
from tests.support.handler import MakeClient

FETCH = ToolStep("fetch", tool="fetch_order", arguments={"order_id": prompt_arg("order_id")})
BROKEN_REFUND = ToolStep("refund", tool="refund", arguments={"amount": step_output("fetch", "totl")})
CORRECTED_REFUND = ToolStep("refund", tool="refund", arguments={"amount": step_output("fetch", "total")})
NOTIFY = ToolStep("notify", tool="send_mail", arguments={"text": constant("Refunded")})
BOOK = ToolStep("book", tool="book_entry", arguments={"entry": step_output("refund")})
FIRST = ToolStep("first", tool="book_entry", arguments={"entry": constant("x")})
ORDER_ID = Argument("order_id", required=True)
ORDER = {"order_id": "A-17"}
TOOLS = ("fetch_order", "refund", "send_mail", "book_entry")


def version(*steps: Step, arguments: tuple[Argument, ...] = (ORDER_ID,)) -> Server:
    """Return a server with this definition of the workflow."""
    server = Server("orders")

    @server.tool
    def fetch_order(order_id: str = "none") -> dict[str, Any]:
        return {"id": order_id, "total": 30.0}

    @server.tool
    def refund(amount: float) -> str:
        return f"R-{amount}"

    @server.tool
    def send_mail(text: str) -> str:
        return text

    @server.tool
    def book_entry(entry: str) -> str:
        return f"booked {entry}"

    server.add_workflow(Workflow(name="refund_order", description="refund", arguments=arguments, steps=list(steps)))
    return server


@pytest.fixture
def old_client(baton: Connect) -> Client:
    """A client of the version whose step `refund` cannot be resolved."""
    return baton(version(FETCH, BROKEN_REFUND, NOTIFY))


@pytest.fixture
def task(old_client: Client) -> str:
    """A task that is paused at the step `refund`."""
    run = old_client.get_prompt("refund_order", ORDER)
    assert run.pause.type == "unresolvableParams"
    return run.task_id


def called_tools(client: Client) -> set[str]:
    """Return the names of the tools that this version has called."""
    return {tool for tool in TOOLS if client.calls(tool)}


def test_changed_definitions_resume_with_two_writes(make_client: MakeClient, table: Table, requests: Requests) -> None:
    old_answer = make_client(version(FETCH, BROKEN_REFUND, NOTIFY)).get_prompt("refund_order", ORDER)
    task, item = old_answer.task_id, table.item(old_answer.task_id)
    requests.take()

    new_server = version(FETCH, CORRECTED_REFUND, BOOK, NOTIFY)
    answer = make_client(new_server).get_prompt("refund_order", task=task)

    assert requests.take() == ["UpdateItem", "UpdateItem"]
    assert answer.meta["task_status"] == "completed"
    assert (
        table.item(task)["definition"] == {"S": new_server.workflows["refund_order"].fingerprint} != item["definition"]
    )


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(
            (ToolStep("fetch", tool="fetch_order", arguments={"order_id": constant("B")}), NOTIFY), id="changed"
        ),
        pytest.param((NOTIFY,), id="gone"),
        pytest.param((ToolStep("got", tool="fetch_order", arguments=FETCH.arguments), NOTIFY), id="renamed"),
    ],
)
def test_a_changed_completed_step_is_named_and_the_resume_is_refused(
    old_client: Client, task: str, steps: tuple[Step, ...]
) -> None:
    state_before = old_client.task(task)
    client = old_client.deployed(version(*steps))

    with pytest.raises(JsonRpcError, match=r": fetch$") as error_info:
        client.resume(task)

    assert error_info.value.code == -32602
    assert (called_tools(client), client.task(task)) == (set(), state_before)


@pytest.mark.parametrize(
    ("tool", "arguments", "refund", "notify"),
    [
        ("send_mail", {"text": "by hand"}, "failed", "completed"),
        ("refund", {"amount": 5.0}, "completed", "pending"),
    ],
)
def test_a_continuation_during_the_resume_is_not_lost(
    old_client: Client, task: str, tool: str, arguments: dict[str, Any], refund: str, notify: str
) -> None:
    """The continuation has read the task before the resume changed it. It is recorded in the new definition."""
    client = old_client.deployed(version(FIRST, FETCH, CORRECTED_REFUND, NOTIFY))
    client.tool_raises("refund", "closed")
    client.during("book_entry", lambda: old_client.call_tool(tool, arguments, task=task))

    run = client.resume(task)

    state = client.task(task)
    assert run.steps == state.steps
    assert state.steps == {"first": "completed", "fetch": "completed", "refund": refund, "notify": notify}
    expected = {"send_mail": ("notify", "by hand"), "refund": ("refund", "R-5.0")}
    assert state.variables[f"_workflow.result.{expected[tool][0]}"] == expected[tool][1]


def test_results_of_removed_steps_are_deleted(baton: Connect) -> None:
    old_client = baton(version(FETCH, CORRECTED_REFUND, NOTIFY))
    old_client.tool_raises("refund", "no")
    task = old_client.get_prompt("refund_order", ORDER).task_id
    client = old_client.deployed(version(FETCH, NOTIFY))
    assert client.task(task).pause.step == "refund"

    assert client.resume(task).steps == {"fetch": "completed", "notify": "completed"}

    names = {"_workflow.progress", "_workflow.result.fetch", "_workflow.result.notify"}
    assert set(client.task(task).variables) == names


@pytest.mark.parametrize(
    ("options", "last_tool"),
    [
        ({"arguments": {"text": constant("Hi")}}, "book_entry"),
        ({"each": constant(["Eve", "Bob"])}, "book_entry"),
        ({"each": None}, "book_entry"),
        ({"when": prompt_arg("order_id") == "x"}, "refund_order"),
        ({"name": "others"}, "refund_order"),
    ],
)
def test_calls_that_are_suggested_after_a_list_has_changed_can_be_made(
    baton: Connect, options: dict[str, Any], last_tool: str
) -> None:
    fields: dict[str, Any] = {"tool": "send_mail", "each": constant(["Ann", "Bob"]), "arguments": {"text": item()}}
    old_client = baton(version(ListStep("mails", **fields), FIRST))
    old_client.tool_raises("send_mail", "no", times=1)
    task = old_client.get_prompt("refund_order", ORDER).task_id
    changed = {name: value for name, value in {"name": "mails", **fields, **options}.items() if value is not None}
    step = ListStep(**changed) if "each" in changed else ToolStep(**{**changed, "arguments": {"text": constant("Hi")}})
    client = old_client.deployed(version(step, FIRST))

    assert "send_mail" not in client.call_workflow("refund_order", {"task_action": "show"}, task).text
    following: Any = client.call_tool("send_mail", {"text": "Ann"}, task=f"{task}/mails/0").meta["next"]

    assert following[-1]["tool"] == last_tool
    if last_tool == "refund_order":
        assert client.resume(task).completed
        variables = client.task(task).variables
        assert [name for name in variables if name.startswith(("_workflow.items.", "_workflow.elements."))] == []


def test_a_late_run_does_not_restore_the_old_definition(baton: Connect) -> None:
    old_client = baton(version(FETCH, CORRECTED_REFUND, NOTIFY))
    old_client.tool_raises("refund", "closed", times=1)
    task = old_client.get_prompt("refund_order", ORDER).task_id
    new_client = old_client.deployed(version(FIRST, FETCH, CORRECTED_REFUND, NOTIFY))
    new_client.tool_raises("refund", "closed")

    def expire_claim_and_resume() -> None:
        old_client.clock.advance(60)
        new_client.resume(task)

    old_client.during("refund", expire_claim_and_resume)

    run = old_client.resume(task)

    assert run.meta["superseded"] is True
    state = new_client.task(task)
    assert list(state.steps) == ["first", "fetch", "refund", "notify"]
    assert state.steps["refund"] == "failed"


RETRIED = ToolStep("s", tool="work", retry=Retry(attempts=2, first_s=3600, max_s=3600, jitter=False))
EACH_RETRIED = ListStep("s", tool="work", each=constant([1]), retry=RETRIED.retry)
SLEEP = Wait("s", sleep=timedelta(hours=3))
CALLBACK = Wait("s", Callback(int, timedelta(hours=2)))


@pytest.mark.parametrize("new", [RETRIED, EACH_RETRIED, SLEEP, CALLBACK], ids=["retry", "list", "sleep", "callback"])
@pytest.mark.parametrize("old", [RETRIED, EACH_RETRIED, SLEEP, CALLBACK], ids=["retry", "list", "sleep", "callback"])
def test_a_step_that_was_changed_does_not_wait_for_what_the_earlier_one_waited(
    baton: Connect, old: Step, new: Step
) -> None:
    def server_with(step: Step) -> Server:
        server = Server("orders")
        server.tool(name="work")(lambda: 1)
        server.add_workflow(Workflow(name="flow", description="flow", steps=[step], background=True))
        return server

    old_client = baton(server_with(old))
    old_client.tool_raises("work", "no", times=1)
    started = old_client.start_task("flow")
    old_client.clock.advance(60)
    task: Any = old_client.request("tasks/get", {"taskId": started.task_id})["_meta"]
    client = old_client.deployed(server_with(new))

    run = client.start_task("flow", {"task_id": task["_workflow.task_id"]})
    client.clock.advance(1)

    if old is new or not isinstance(new, Wait):
        assert run.poll().over is (old is not new)
    else:
        pause = client.task(task["_workflow.task_id"]).pause
        waited_s = datetime.fromisoformat(pause.until).timestamp() - client.clock.now_ms() / 1000
        assert round(waited_s) == {"callback": 7200, "time": 10800}[new.waits_for] - 1


@pytest.mark.parametrize(
    "step",
    [
        Question("refund", "How much?", returns=float),
        Wait("refund", sleep=timedelta(hours=1)),
        Wait("refund", Callback(float, timedelta(hours=1))),
        Fetch("refund", ["docs://policy"]),
        ListStep("refund", tool="refund", arguments={"amount": item()}, each=constant([1.0])),
    ],
    ids=["question", "time", "callback", "resource", "list"],
)
def test_a_task_is_shown_although_its_open_step_has_another_kind(old_client: Client, task: str, step: Step) -> None:
    server = version(FETCH, step, NOTIFY)
    server.resource("docs://policy", name="policy")(lambda: "Refund within 30 days.")
    client = old_client.deployed(server)

    def shown_tool() -> str | None:
        board: Any = client.call_workflow("refund_order", {"task_id": task, "task_action": "show"}).structured
        tool: str | None = board["board"]["steps"][1].get("tool")
        return tool

    assert shown_tool() == "refund"
    client.resume(task)
    assert shown_tool() == step.tool


@pytest.mark.parametrize("kind", ["tool", "prompt"])
def test_a_call_of_a_removed_workflow_says_that_it_was_removed(old_client: Client, task: str, kind: str) -> None:
    new_client = old_client.deployed(Server("orders"))
    call = new_client.call_tool if kind == "tool" else new_client.get_prompt
    with pytest.raises(JsonRpcError, match="The workflow 'refund_order' was removed from this server") as error_info:
        call("refund_order", {}, task=task)
    assert "cancel it with tasks/cancel, or publish the workflow again" in str(error_info.value)
    assert new_client.task(task).status == "working"
    with pytest.raises(JsonRpcError, match="Unknown tool: refund_order"):
        new_client.call_tool("refund_order", {"task_id": "another"})


def test_a_call_of_a_removed_tool_says_that_it_was_removed(old_client: Client, task: str) -> None:
    server = version(FETCH)
    del server.tools["refund"]
    new_client = old_client.deployed(server)
    with pytest.raises(JsonRpcError, match="The tool 'refund' was removed from this server") as error_info:
        new_client.call_tool("refund", {"amount": 1.0}, task=task)
    assert f'call refund_order with {{"task_id": "{task}"}}' in str(error_info.value)
    with pytest.raises(JsonRpcError, match="Unknown tool: refund"):
        new_client.call_tool("refund", {"amount": 1.0})
