"""Resumes after the definition of a workflow has changed (docs/workflows.md, "When the workflow changes")."""

from typing import Any

import pytest

from mcp_baton import Argument, Server, Step, Workflow, constant, prompt_arg, step_output
from mcp_baton.testing import Client, Connect, JsonRpcError
from tests.e2e.conftest import MakeClient
from tests.e2e.support import Table
from tests.sent import Requests

FETCH = Step("fetch", tool="fetch_order", arguments={"order_id": prompt_arg("order_id")})
BROKEN = Step("refund", tool="refund", arguments={"amount": step_output("fetch", "totl")})
CORRECTED = Step("refund", tool="refund", arguments={"amount": step_output("fetch", "total")})
NOTIFY = Step("notify", tool="send_mail", arguments={"text": constant("Refunded")})
BOOK = Step("book", tool="book_entry", arguments={"entry": step_output("refund")})
FIRST = Step("first", tool="book_entry", arguments={"entry": constant("x")})
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
def old(baton: Connect) -> Client:
    """A client of the version whose step `refund` cannot be resolved."""
    return baton(version(FETCH, BROKEN, NOTIFY))


@pytest.fixture
def task(old: Client) -> str:
    """A task that is paused at the step `refund`."""
    run = old.get_prompt("refund_order", ORDER)
    assert run.pause.type == "unresolvableParams"
    return run.task_id


def called(client: Client) -> set[str]:
    """Return the names of the tools that this version has called."""
    return {tool for tool in TOOLS if client.calls(tool)}


def test_a_changed_definition_is_resumed_with_two_writes(
    make_client: MakeClient, table: Table, requests: Requests
) -> None:
    paused = make_client(version(FETCH, BROKEN, NOTIFY)).get_prompt("refund_order", ORDER)
    task, before = paused.task_id, table.item(paused.task_id)
    requests.take()

    new = version(FETCH, CORRECTED, BOOK, NOTIFY)
    answer = make_client(new).get_prompt("refund_order", task=task)

    assert requests.take() == ["UpdateItem", "UpdateItem"]
    assert answer.meta["task_status"] == "completed"
    assert table.item(task)["definition"] == {"S": new.workflows["refund_order"].fingerprint} != before["definition"]


def test_a_changed_workflow_runs_its_open_steps(old: Client, task: str) -> None:
    client = old.deployed(version(FETCH, CORRECTED, BOOK, NOTIFY))

    run = client.resume(task)

    assert (run.completed, called(client)) == (True, {"refund", "book_entry", "send_mail"})
    found = client.task(task)
    assert list(run.steps) == list(found.steps) == ["fetch", "refund", "book", "notify"]
    assert not found.paused
    assert found.variables["_workflow.result.fetch"] == {"id": "A-17", "total": 30.0}
    assert found.variables["_workflow.result.book"] == "booked R-30.0"
    assert found.result == {"completed": True, "steps_completed": 4}


def test_a_resume_that_pauses_again_leaves_the_new_definition_and_can_be_resumed(old: Client, task: str) -> None:
    client = old.deployed(version(FETCH, CORRECTED, BOOK))
    client.tool_raises("book_entry", "closed", times=1)

    run = client.resume(task)

    assert run.steps == {"fetch": "completed", "refund": "completed", "book": "failed"}
    assert client.task(task).pause.step == "book"
    assert client.resume(task).completed
    assert [len(client.calls(tool)) for tool in TOOLS] == [0, 1, 0, 2]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((Step("fetch", tool="fetch_order", arguments={"order_id": constant("B")}), NOTIFY), id="changed"),
        pytest.param((NOTIFY,), id="gone"),
        pytest.param((Step("got", tool="fetch_order", arguments=FETCH.arguments), NOTIFY), id="renamed"),
    ],
)
def test_a_changed_completed_step_is_named_and_the_resume_is_refused(
    old: Client, task: str, steps: tuple[Step, ...]
) -> None:
    before = old.task(task)
    client = old.deployed(version(*steps))

    with pytest.raises(JsonRpcError, match=r": fetch$") as refused:
        client.resume(task)

    assert refused.value.code == -32602
    assert (called(client), client.task(task)) == (set(), before)


def test_a_continuation_between_the_deployment_and_the_resume_is_kept(old: Client, task: str) -> None:
    client = old.deployed(version(FETCH, FIRST, CORRECTED, NOTIFY))

    recorded = client.call_tool("send_mail", {"text": "by hand"}, task=task)
    assert recorded.steps == {"fetch": "completed", "refund": "pending", "notify": "completed"}
    run = client.resume(task)

    assert (run.completed, called(client)) == (True, {"book_entry", "refund", "send_mail"})
    assert client.calls("send_mail") == [{"text": "by hand"}]
    assert client.task(task).variables["_workflow.result.notify"] == "by hand"


@pytest.mark.parametrize(
    ("tool", "arguments", "refund", "notify"),
    [
        ("send_mail", {"text": "by hand"}, "failed", "completed"),
        ("refund", {"amount": 5.0}, "completed", "pending"),
    ],
)
def test_a_continuation_during_the_resume_is_not_lost(
    old: Client, task: str, tool: str, arguments: dict[str, Any], refund: str, notify: str
) -> None:
    """The continuation has read the task before the resume changed it. It is recorded in the new definition."""
    client = old.deployed(version(FIRST, FETCH, CORRECTED, NOTIFY))
    client.tool_raises("refund", "closed")
    client.during("book_entry", lambda: old.call_tool(tool, arguments, task=task))

    run = client.resume(task)

    found = client.task(task)
    assert run.steps == found.steps
    assert found.steps == {"first": "completed", "fetch": "completed", "refund": refund, "notify": notify}
    done = {"send_mail": ("notify", "by hand"), "refund": ("refund", "R-5.0")}
    assert found.variables[f"_workflow.result.{done[tool][0]}"] == done[tool][1]


def test_a_call_that_ends_after_the_resume_is_recorded_at_the_steps_new_index(old: Client, task: str) -> None:
    client = old.deployed(version(FIRST, FETCH, CORRECTED, BOOK, NOTIFY))
    client.tool_raises("refund", "closed")
    old.during("send_mail", lambda: client.resume(task))

    recorded = old.call_tool("send_mail", {"text": "by hand"}, task=task)

    assert recorded.recorded
    assert recorded.steps == {
        "first": "completed",
        "fetch": "completed",
        "refund": "failed",
        "book": "pending",
        "notify": "completed",
    }
    assert client.task(task).variables["_workflow.result.notify"] == "by hand"


def test_removed_arguments_of_a_workflow_are_ignored(baton: Connect) -> None:
    old = baton(version(FETCH, NOTIFY, arguments=(ORDER_ID, Argument("note"))))
    old.tool_raises("send_mail", "no")
    task = old.get_prompt("refund_order", {**ORDER, "note": "sorry"}).task_id

    run = old.deployed(version(FETCH, NOTIFY)).resume(task)

    assert run.completed
    assert run.messages[0].text.endswith("Arguments:\n- order_id: A-17")


def test_results_of_removed_steps_are_deleted(baton: Connect) -> None:
    old = baton(version(FETCH, CORRECTED, NOTIFY))
    old.tool_raises("refund", "no")
    task = old.get_prompt("refund_order", ORDER).task_id
    client = old.deployed(version(FETCH, NOTIFY))
    assert client.task(task).pause.step == "refund"

    assert client.resume(task).steps == {"fetch": "completed", "notify": "completed"}

    kept = {"_workflow.progress", "_workflow.result.fetch", "_workflow.result.notify"}
    assert set(client.task(task).variables) == kept


def test_a_late_run_does_not_restore_the_old_definition(baton: Connect) -> None:
    old = baton(version(FETCH, CORRECTED, NOTIFY))
    old.tool_raises("refund", "closed", times=1)
    task = old.get_prompt("refund_order", ORDER).task_id
    new = old.deployed(version(FIRST, FETCH, CORRECTED, NOTIFY))
    new.tool_raises("refund", "closed")

    def expire_claim_and_resume() -> None:
        old.clock.advance(60)
        new.resume(task)

    old.during("refund", expire_claim_and_resume)

    run = old.resume(task)

    assert run.meta["superseded"] is True
    found = new.task(task)
    assert list(found.steps) == ["first", "fetch", "refund", "notify"]
    assert found.steps["refund"] == "failed"
