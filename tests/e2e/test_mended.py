"""A workflow that is changed and deployed while tasks of it wait (docs/workflows.md, "When the workflow changes")."""

from collections.abc import Callable
from typing import Any

import pytest

from mcp_baton import Argument, Server, Step, Workflow, constant, prompt_arg, step_output
from tests.e2e.conftest import MakeClient, Requests
from tests.e2e.support import Era, Script, Table

FETCH = Step("fetch", tool="fetch_order", arguments={"order_id": prompt_arg("order_id")})
BROKEN = Step("refund", tool="refund", arguments={"amount": step_output("fetch", "totl")})
MENDED = Step("refund", tool="refund", arguments={"amount": step_output("fetch", "total")})
NOTIFY = Step("notify", tool="send_mail", arguments={"text": constant("Refunded")})
BOOK = Step("book", tool="book_entry", arguments={"entry": step_output("refund")})
FIRST = Step("first", tool="book_entry", arguments={"entry": constant("x")})
ORDER_ID = Argument("order_id", required=True)


def deployed(script: Script, *steps: Step, arguments: tuple[Argument, ...] = (ORDER_ID,)) -> Server:
    """A server with this definition of the workflow."""
    server = Server("orders")

    @server.tool
    def fetch_order(order_id: str = "none") -> dict[str, Any]:
        return script.play("fetch_order", {"id": order_id, "total": 30.0})

    @server.tool
    def refund(amount: float) -> str:
        return script.play("refund", f"R-{amount}")

    @server.tool
    def send_mail(text: str) -> str:
        return script.play("send_mail", text)

    @server.tool
    def book_entry(entry: str) -> str:
        return script.play("book_entry", f"booked {entry}")

    server.add_workflow(
        Workflow(name="refund_order", description="refund an order", arguments=arguments, steps=list(steps))
    )
    return server


def test_the_step_that_paused_is_mended_deployed_and_resumed(
    make_client: MakeClient, era: Era, table: Table, requests: Requests
) -> None:
    script = Script()
    paused = make_client(deployed(script, FETCH, BROKEN, NOTIFY), era=era).get_prompt(
        "refund_order", {"order_id": "A-17"}
    )
    assert paused.meta["pause_reason"]["type"] == "unresolvableParams"
    task, before = paused.task_id, table.item(paused.task_id)
    script.take()
    requests.take()

    new = deployed(script, FETCH, MENDED, BOOK, NOTIFY)
    client = make_client(new, era=era)
    answer = client.get_prompt("refund_order", task=task)

    assert requests.take() == ["GetItem", "UpdateItem"]
    assert script.take() == ["refund", "book_entry", "send_mail"]
    assert answer.meta["task_status"] == "completed"
    assert answer.meta["steps"] == [
        {"name": name, "status": "completed"} for name in ("fetch", "refund", "book", "notify")
    ]
    variables = client.variables(task)
    assert "_workflow.pause_reason" not in variables
    assert variables["_workflow.result.fetch"] == {"id": "A-17", "total": 30.0}
    assert variables["_workflow.result.book"] == "booked R-30.0"
    assert [step["name"] for step in variables["_workflow.progress"]["steps"]] == ["fetch", "refund", "book", "notify"]
    expected = {"completed": True, "steps_completed": 4}
    assert client.in_era("2025").task("result", task).result["result"] == expected
    assert table.item(task)["definition"] == {"S": new.workflows["refund_order"].fingerprint} != before["definition"]


def test_a_resume_that_pauses_again_leaves_the_new_definition_and_can_be_resumed(
    make_client: MakeClient, table: Table
) -> None:
    script = Script(errors={"book_entry": "closed"})
    task = make_client(deployed(script, FETCH, BROKEN, NOTIFY)).get_prompt("refund_order", {"order_id": "A-17"}).task_id
    client = make_client(deployed(script, FETCH, MENDED, BOOK))

    answer = client.get_prompt("refund_order", task=task)

    assert answer.meta["steps"] == [
        {"name": "fetch", "status": "completed"},
        {"name": "refund", "status": "completed"},
        {"name": "book", "status": "failed"},
    ]
    assert client.variables(task)["_workflow.pause_reason"]["failedStep"] == "book"
    script.errors.clear()
    script.take()
    assert client.get_prompt("refund_order", task=task).meta["task_status"] == "completed"
    assert script.take() == ["book_entry"]


def test_what_a_step_left_that_is_gone_is_gone_with_it(make_client: MakeClient) -> None:
    script = Script(errors={"refund": "no"})
    task = make_client(deployed(script, FETCH, MENDED, NOTIFY)).get_prompt("refund_order", {"order_id": "A-17"}).task_id
    client = make_client(deployed(script, FETCH, NOTIFY))
    assert client.variables(task)["_workflow.pause_reason"]["failedStep"] == "refund"

    assert client.get_prompt("refund_order", task=task).statuses == ["completed", "completed"]

    assert set(client.variables(task)) == {
        "_workflow.progress",
        "_workflow.result.fetch",
        "_workflow.result.notify",
    }


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((Step("fetch", tool="fetch_order", arguments={"order_id": constant("B")}), NOTIFY), id="changed"),
        pytest.param((NOTIFY,), id="gone"),
        pytest.param((Step("got", tool="fetch_order", arguments=FETCH.arguments), NOTIFY), id="renamed"),
    ],
)
def test_a_completed_step_that_is_not_as_it_was_refuses_the_resume_and_is_named(
    make_client: MakeClient, era: Era, table: Table, steps: tuple[Step, ...]
) -> None:
    script = Script()
    task = make_client(deployed(script, FETCH, BROKEN, NOTIFY)).get_prompt("refund_order", {"order_id": "A-17"}).task_id
    before = table.item(task)
    script.take()

    answer = make_client(deployed(script, *steps), era=era).get_prompt("refund_order", task=task)

    assert answer.error["code"] == -32602
    assert answer.error["message"].endswith(": fetch")
    assert (script.take(), table.item(task)) == ([], before)


def test_a_completed_step_may_get_another_place(make_client: MakeClient) -> None:
    script = Script()
    task = make_client(deployed(script, FETCH, BROKEN)).get_prompt("refund_order", {"order_id": "A-17"}).task_id
    script.take()

    answer = make_client(deployed(script, NOTIFY, FETCH, MENDED)).get_prompt("refund_order", task=task)

    assert [step["name"] for step in answer.meta["steps"]] == ["notify", "fetch", "refund"]
    assert (answer.meta["task_status"], script.take()) == ("completed", ["send_mail", "refund"])


def test_a_continuation_between_the_deployment_and_the_resume_is_kept(make_client: MakeClient, era: Era) -> None:
    script = Script()
    task = make_client(deployed(script, FETCH, BROKEN, NOTIFY)).get_prompt("refund_order", {"order_id": "A-17"}).task_id
    client = make_client(deployed(script, FETCH, FIRST, MENDED, NOTIFY), era=era)

    recorded = client.call_tool("send_mail", {"text": "by hand"}, task=task)
    assert (recorded.meta["recorded"], recorded.statuses) == (True, ["completed", "pending", "completed"])
    script.take()
    answer = client.get_prompt("refund_order", task=task)

    assert (answer.statuses, script.take()) == (["completed"] * 4, ["book_entry", "refund"])
    assert client.variables(task)["_workflow.result.notify"] == "by hand"


@pytest.mark.parametrize("tool", ["send_mail", "refund"])
def test_a_continuation_that_comes_while_the_resume_runs_is_not_lost(make_client: MakeClient, tool: str) -> None:
    """It has read the task as it was before, and both write all the same: into the new definition."""
    script = Script()
    old = make_client(deployed(script, FETCH, BROKEN, NOTIFY))
    task = old.get_prompt("refund_order", {"order_id": "A-17"}).task_id
    script.errors["refund"] = "closed"
    client = make_client(deployed(script, FIRST, FETCH, MENDED, NOTIFY))
    calls: dict[str, Callable[[], object]] = {
        "send_mail": lambda: old.call_tool("send_mail", {"text": "by hand"}, task=task),
        "refund": lambda: old.call_tool("refund", {"amount": 5.0}, task=task),
    }

    def beside() -> None:
        script.errors.clear()
        calls[tool]()
        script.errors["refund"] = "closed"

    script.meanwhile["book_entry"] = beside
    answer = client.get_prompt("refund_order", task=task)

    by_name = {step["name"]: step["status"] for step in client.variables(task)["_workflow.progress"]["steps"]}
    if tool == "refund":
        assert by_name == {"first": "completed", "fetch": "completed", "refund": "completed", "notify": "pending"}
        assert client.variables(task)["_workflow.result.refund"] == "R-5.0"
    else:
        assert by_name == {"first": "completed", "fetch": "completed", "refund": "failed", "notify": "completed"}
        assert client.variables(task)["_workflow.result.notify"] == "by hand"
    assert answer.meta["steps"] == [{"name": name, "status": status} for name, status in by_name.items()]


def test_a_call_that_was_made_before_the_resume_and_ends_after_it_finds_its_step_at_its_new_place(
    make_client: MakeClient,
) -> None:
    script = Script()
    old = make_client(deployed(script, FETCH, BROKEN, NOTIFY))
    task = old.get_prompt("refund_order", {"order_id": "A-17"}).task_id
    script.errors["refund"] = "closed"
    client = make_client(deployed(script, FIRST, FETCH, MENDED, BOOK, NOTIFY))
    script.meanwhile["send_mail"] = lambda: client.get_prompt("refund_order", task=task)

    recorded = old.call_tool("send_mail", {"text": "by hand"}, task=task)

    assert recorded.meta["recorded"] is True
    assert {step["name"]: step["status"] for step in recorded.meta["steps"]} == {
        "first": "completed",
        "fetch": "completed",
        "refund": "failed",
        "book": "pending",
        "notify": "completed",
    }
    assert client.variables(task)["_workflow.result.notify"] == "by hand"


def test_arguments_that_the_workflow_does_not_take_any_more_are_left_behind(make_client: MakeClient) -> None:
    script = Script(errors={"send_mail": "no"})
    both = (ORDER_ID, Argument("note"))
    task = (
        make_client(deployed(script, FETCH, NOTIFY, arguments=both))
        .get_prompt("refund_order", {"order_id": "A-17", "note": "sorry"})
        .task_id
    )
    script.errors.clear()

    answer = make_client(deployed(script, FETCH, NOTIFY)).get_prompt("refund_order", task=task)

    assert answer.meta["task_status"] == "completed"
    assert answer.conversation[0][1].endswith("Arguments:\n- order_id: A-17")


def test_a_run_of_the_old_definition_that_ends_late_does_not_move_the_task_back(
    make_client: MakeClient, table: Table
) -> None:
    script = Script(errors={"refund": "closed"})
    old = make_client(deployed(script, FETCH, MENDED, NOTIFY))
    task = old.get_prompt("refund_order", {"order_id": "A-17"}).task_id
    new = deployed(script, FIRST, FETCH, MENDED, NOTIFY)

    def resume_with_the_new_one() -> None:
        assert make_client(new).get_prompt("refund_order", task=task).meta["task_status"] == "working"
        script.errors.clear()

    script.meanwhile["refund"] = resume_with_the_new_one
    answer = old.get_prompt("refund_order", task=task)

    assert answer.meta["task_status"] == "completed"
    assert [step["name"] for step in answer.meta["steps"]] == ["first", "fetch", "refund", "notify"]
    assert table.item(task)["definition"] == {"S": new.workflows["refund_order"].fingerprint}
