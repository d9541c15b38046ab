"""Resumes: with a task, `prompts/get` continues the workflow where it stopped (docs/workflows.md)."""

import os
from typing import Annotated, Any

import pytest
from pydantic import AliasChoices, Field

from mcp_baton import (
    Argument,
    Context,
    Server,
    ToolError,
    ToolStep,
    Workflow,
    ask_model,
    constant,
    prompt_arg,
    step,
    step_output,
)
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.ids import new_task_id
from mcp_baton.testing import Client, Connect, Era, JsonRpcError, Killed
from mcp_baton.testing.store import TABLE
from tests.support.client import Clock, Table
from tests.support.handler import MakeClient

UNKNOWN_TASK = new_task_id(0)
ORDER = {"order_id": "A-17"}
ALL_STEPS = {"fetch": "completed", "refund": "completed", "notify": "completed"}


def orders_server(**refund: Any) -> Server:
    """Return a server with the steps fetch, refund and notify. `refund` replaces members of the second step."""
    server = Server("orders")

    @server.tool
    def fetch_order(order_id: str) -> dict[str, Any]:
        return {"id": order_id, "total": 30.0}

    @server.tool(name="refund")
    def refund_tool(order_id: str, amount: float) -> str:
        return f"{order_id}: {amount}"

    @server.tool
    def send_mail(text: str) -> str:
        return text

    @server.resource("docs://policy")
    def policy() -> str:
        return "Be kind."

    refund_options = {
        "arguments": {"order_id": prompt_arg("order_id"), "amount": step_output("fetch", "total")},
        "guidance": "Mind the policy.",
        "resources": ["docs://policy"],
        **refund,
    }
    steps = [
        ToolStep("fetch", tool="fetch_order", arguments={"order_id": prompt_arg("order_id")}, guidance="Once."),
        ToolStep("refund", tool="refund", **refund_options),
        ToolStep("notify", tool="send_mail", arguments={"text": constant("{order_id} {note}")}),
    ]
    arguments = [Argument("order_id", required=True), Argument("note"), Argument("amount", type=float)]
    for name in ("refund_order", "second_flow"):
        server.add_workflow(Workflow(name=name, description="refund an order", arguments=arguments, steps=steps))
    return server


def paused_at(client: Client, tool: str, **arguments: str) -> str:
    """Return a task whose run stopped at this tool. The tool fails only once."""
    client.tool_raises(tool, "no", times=1)
    run = client.get_prompt("refund_order", {**ORDER, **arguments})
    assert run.pause.suggested_tool == tool
    return run.task_id


def calls(client: Client) -> list[int]:
    """Return the number of calls of each tool."""
    return [len(client.calls(tool)) for tool in ("fetch_order", "refund", "send_mail")]


def test_a_resume_runs_failed_steps_again_but_not_completed_ones(baton: Connect) -> None:
    client = baton(orders_server())
    task_id = paused_at(client, "refund")
    run = client.resume(task_id)
    assert (run.task_id, run.completed, run.paused, run.steps) == (task_id, True, False, ALL_STEPS)
    assert calls(client) == [1, 2, 1]
    task = client.task(task_id)
    assert "_workflow.pause_reason" not in task.variables
    assert task.variables["_workflow.result.refund"] == "A-17: 30.0"
    assert task.variables["_workflow.result.fetch"] == {"id": "A-17", "total": 30.0}
    assert task.result == {"completed": True, "steps_completed": 3}


@pytest.mark.parametrize("arguments", [{"value": 5}, {"value": "5"}, {"value": True}, {"value": [1, {"a": None}]}, {}])
@pytest.mark.parametrize("background", [True, False])
def test_an_argument_keeps_its_type_in_a_resume_and_in_a_worker(
    baton: Connect, background: bool, arguments: JsonObject
) -> None:
    received: list[object] = []
    server = Server("shop")

    @server.tool
    def note(value: object) -> None:
        received.append(value)

    @server.workflow(background=background)
    def note_twice(value: bool | int | list[Any] | str = 7) -> None:
        step("note")(value=value)
        step("note", name="again", when=ask_model("go", "Again?", bool))(value=value)

    run = baton(server).call_workflow("note_twice", arguments)
    assert run.answer(go=True).completed
    assert received == [arguments.get("value", 7)] * 2
    assert type(received[1]) is type(received[0])


def test_an_argument_that_looks_like_a_stored_secret_is_none(baton: Connect) -> None:
    server, marker = orders_server(), {"_workflow.secret": True}

    @server.workflow
    def send(text: dict[str, Any]) -> None:
        step("send_mail", when=text == marker)(text=ask_model("line", "Which line?"))

    run = baton(server).call_workflow("send", {"text": marker})
    assert run.answer(line="hi").steps == {"line": "completed", "send_mail": "completed"}


@pytest.mark.parametrize("status", ["cancelled", "completed"])
def test_an_ended_task_is_not_resumed(baton: Connect, status: str) -> None:
    client = baton(orders_server())
    task_id = paused_at(client, "refund")
    task_before = client.cancel(task_id) if status == "cancelled" else client.complete(task_id, {})
    with pytest.raises(JsonRpcError, match=status) as error_info:
        client.resume(task_id)
    assert error_info.value.code == -32602
    assert calls(client) == [1, 1, 0]
    assert client.task(task_id) == task_before


def test_missing_foreign_and_expired_tasks_give_the_same_error(baton: Connect, era: Era) -> None:
    client = baton(orders_server(), era=era)
    expired_task = paused_at(client, "refund")
    client.clock.advance(3_700)
    foreign_task = paused_at(client.as_owner("bob"), "refund")
    errors = set()
    for task in (UNKNOWN_TASK, foreign_task, expired_task, "no id at all"):
        with pytest.raises(JsonRpcError) as error_info:
            client.get_prompt("refund_order", task=task)
        errors.add((error_info.value.status, error_info.value.code, error_info.value.message, error_info.value.data))
    assert {error[:2] for error in errors} == {(200 if era == "2025" else 400, -32602)}
    assert len(errors) == 1
    assert calls(client) == [2, 2, 0]


def test_a_task_with_damaged_arguments_is_not_resumed(make_client: MakeClient, table: Table) -> None:
    client = make_client(orders_server(), remaining_ms=(clock := Clock(2_000)))
    task_id = client.get_prompt("refund_order", ORDER).task_id
    clock.ms = 30_000
    table.replace({**table.item(task_id), "arguments": {"S": '["A-17"]'}})

    assert "nothing was run" in client.get_prompt("refund_order", task=task_id).error["message"]
    assert "_workflow.result.fetch" not in client.variables(task_id)


def test_a_task_of_another_workflow_is_refused(baton: Connect) -> None:
    client = baton(orders_server())
    task_id = paused_at(client, "refund")
    # It is refused even if the workflows have the same steps.
    with pytest.raises(JsonRpcError, match="-32602"):
        client.get_prompt("second_flow", task=task_id)
    assert calls(client) == [1, 1, 0]


ORDERS = {"short": "B-2", "long": "B" * 600, "outside the item": os.urandom(6_000).hex()}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("how", ["resume", "suggestion", "show", "kill"])
def test_a_later_call_has_the_arguments_that_a_resume_has_changed(baton: Connect, how: str, order: str) -> None:
    client = baton(orders_server())
    task_id = paused_at(client, "fetch_order", note="x")
    if how == "kill":
        with client.killed_after("fetch_order"):
            client.call_workflow("refund_order", {"order_id": order}, task_id)
        client.clock.advance(60)
    else:
        client.tool_raises("fetch_order", "off", times=1)
        run = client.call_workflow("refund_order", {"order_id": order}, task_id)
        assert run.next[-1] == {"tool": "refund_order", "arguments": {"task_id": task_id}}
        assert (order in run.text) is (order == "B-2")
    match how:
        case "suggestion":
            state: Any = client.request("tasks/get", {"taskId": task_id}, {"mcp-baton/next": True})
            call = state["_meta"]["mcp-baton/next"][0]
            client.call_tool(call["tool"], call["arguments"], task=call["task_id"])
        case "show":
            shown: Any = client.call_tool("refund_order", {"task_id": task_id, "task_action": "show"}).structured
            call = shown["board"]["calls"][0]
            client.call_tool(call["tool"], call["arguments"], task=call.get("task_id"))
    client.resume(task_id)

    assert client.task(task_id).status == "completed"
    assert [call["order_id"] for call in client.calls("fetch_order")[1:]] == [order] * 2
    assert client.calls("send_mail") == [{"text": f"{order} x"}]


def test_arguments_that_are_too_large_to_be_stored_are_refused_with_that_reason(baton: Connect) -> None:
    client = baton(orders_server())
    task_id = paused_at(client, "fetch_order")
    run = client.call_workflow("refund_order", {"order_id": os.urandom(2_500_000).hex()}, task_id)
    assert run.text.startswith("The arguments are too large to be stored with the task; shorten them, or pass links. ")
    assert client.resume(task_id).completed
    assert calls(client) == [2, 1, 1]


def test_a_refused_resume_changes_no_argument(baton: Connect) -> None:
    client = baton(orders_server())
    task_id = paused_at(client, "refund")
    with pytest.raises(JsonRpcError):
        client.get_prompt("refund_order", {"note": "x", "amount": "much"}, task=task_id)
    assert client.resume(task_id).completed
    assert client.calls("send_mail") == [{"text": "A-17 {note}"}]


def test_a_secret_that_a_resume_has_added_must_be_given_again(baton: Connect) -> None:
    server = Server("pins")

    @server.tool
    def pay(pin: str | None = None) -> None:
        raise ToolError("no")

    @server.workflow
    def buy(pin: Annotated[str | None, Argument(secret=True)] = None) -> None:
        step(pay)(pin=pin)

    client = baton(server)
    task_id = client.call_workflow("buy").task_id
    run = client.call_workflow("buy", {"pin": "s3cret-4711"}, task_id)
    shown: Any = client.call_tool("buy", {"task_id": task_id, "task_action": "show"}).structured
    assert shown["next"][-1] == run.next[-1]
    assert run.next[-1]["arguments"]["pin"] == "<secret pin>"
    assert "s3cret" not in repr(client.store.client.scan(TableName=TABLE))


def test_a_resume_may_give_an_argument_by_another_of_its_names_and_stores_no_secret(baton: Connect, era: Era) -> None:
    server = Server("pins")

    @server.tool
    def pay(pin: str | None = None, amount: int = 0) -> None:
        raise ToolError("no")

    @server.workflow
    def buy(
        pin: Annotated[str | None, Argument(secret=True), Field(validation_alias=AliasChoices("pin", "code"))] = None,
        amount: Annotated[int, Field(validation_alias=AliasChoices("amount", "sum"))] = 3,
    ) -> None:
        step(pay)(pin=pin, amount=amount)

    client = baton(server, era=era)
    task_id = client.call_workflow("buy").task_id
    client.get_prompt("buy", {"code": "s3cret-4711", "sum": "5"}, task=task_id)

    assert client.calls("pay")[1:] == [{"pin": "s3cret-4711", "amount": 5}]
    assert "s3cret" not in repr(client.store.client.scan(TableName=TABLE))


def test_an_empty_value_of_a_form_changes_no_stored_argument(baton: Connect) -> None:
    server = Server("bank")

    @server.tool
    def pay(amount: int | None = None) -> None:
        raise ToolError("no")

    @server.workflow
    def buy(amount: int | None = None) -> None:
        step(pay)(amount=amount)

    client = baton(server)
    task_id = client.call_workflow("buy").task_id
    client.get_prompt("buy", {"amount": ""}, task=task_id)

    items: Any = client.store.client.scan(TableName=TABLE)["Items"]
    assert [item["arguments"] for item in items if "arguments" in item] == [{"M": {}}]


def test_after_a_killed_resume_with_another_argument_the_suggested_call_repeats_it(baton: Connect) -> None:
    server = Server("orders")
    server.tool(name="book")(lambda amount: amount)
    keys = []

    @server.tool
    def pay(ctx: Context, amount: int) -> None:
        keys.append((amount, ctx.idempotency_key))

    @server.workflow
    def refund(amount: int) -> None:
        ask_model("sure", "Refund {amount}?", returns=bool)
        step("book", checkpoint=True)(amount=amount)
        step(pay)(amount=amount)

    client = baton(server)
    task_id = client.call_workflow("refund", {"amount": 30}).task_id
    with client.killed_after("pay"), pytest.raises(Killed):
        client.call_workflow("refund", {"amount": 50, "answers": {"sure": True}}, task_id)
    client.clock.advance(60)

    shown: Any = client.call_workflow("refund", {"task_action": "show"}, task_id).structured
    run = client.call_workflow("refund", shown["next"][-1]["arguments"])

    assert (run.completed, keys) == (True, [keys[0]] * 2)
    assert keys[0][0] == 50
    assert keys[0][1] in run.text
