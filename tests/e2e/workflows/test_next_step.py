"""What a reply says that is not final: one next step that works, and nothing that is not so (docs/workflows.md)."""

from typing import Any, cast

import pytest

from mcp_baton import Argument, Server, Step, ToolError, Workflow, prompt_arg, step_output
from mcp_baton.tasks.record import PAUSED
from mcp_baton.testing import Client, Connect, Era, Run


def broken_server(*, retryable: bool = False) -> Server:
    """A tool that fails for a reason that only the log tells."""
    server = Server("s")

    @server.tool
    def charge(order_id: str) -> str:
        raise RuntimeError("the database of the bank")

    step = Step("charge", tool=charge, arguments={"order_id": prompt_arg("order_id")}, retryable=retryable)
    order = Argument("order_id", required=True)
    server.add_workflow(Workflow(name="pay", description="pay", arguments=[order], steps=[step]))
    return server


def test_a_hidden_error_is_for_the_operator_and_the_call_is_not_suggested(baton: Connect, era: Era) -> None:
    client = baton(broken_server(), era=era)
    run = client.call_workflow("pay", {"order_id": "A-17"})
    error_id = run.pause.error_id
    assert run.pause.error == f"internal error in charge (id {error_id})"
    task = f'{{"task_id": "{run.task_id}"}}'
    assert run.text == (
        f"Step 'charge' failed: \"{run.pause.error}\". This step is not retryable, and only the server's log "
        f"says why it failed: tell the user, with the error id {error_id}.\n\n"
        f"When the cause is corrected, call pay with {task} to let the server continue."
    )
    assert run.structured is not None
    assert run.structured["next"] == [{"tool": "pay", "arguments": {"task_id": run.task_id}}]
    shown = client.call_workflow("pay", {"task_id": run.task_id, "task_action": "show"})
    made = client.call_tool("charge", {"order_id": "A-17", "task_id": run.task_id})
    for text in (shown.text, made.text):
        assert "tell the user, with the error id" in text
        assert "call charge" not in text.lower()
        assert f"When the cause is corrected, call pay with {task} to let the server continue." in text
    prompt = client.get_prompt("pay", {"order_id": "A-17"})
    assert "When the cause is corrected, make these tool calls:" in prompt.handoff


def secret_server() -> Server:
    server = Server("bank")

    @server.tool
    def transfer(pin: str, approved_by: str = "") -> str:
        if not approved_by:
            raise ToolError("this needs an approval")
        return "paid"

    pin = Argument("pin", "The PIN", required=True, secret=True)
    step = Step("transfer", tool=transfer, arguments={"pin": prompt_arg("pin")})
    server.add_workflow(Workflow(name="send", description="send money", arguments=[pin], steps=[step]))
    return server


def test_a_task_whose_steps_are_all_done_is_completed_without_its_secrets(baton: Connect, era: Era) -> None:
    client = baton(secret_server(), era=era)
    ends: list[Run] = []
    for finish in (client.call_workflow, lambda name, task: client.get_prompt(name, task=task)):
        paused = client.call_workflow("send", {"pin": "4711"})
        made = client.call_tool("transfer", {"pin": "4711", "approved_by": "Ada", "task_id": paused.task_id})
        assert made.text.endswith(f'All 1 steps are done. Call send with {{"task_id": "{paused.task_id}"}} to finish.')
        assert made.meta["next"] == [{"tool": "send", "arguments": {"task_id": paused.task_id}}]
        shown = client.call_workflow("send", {"task_id": paused.task_id, "task_action": "show"})
        assert shown.structured is not None
        board, following = cast("Any", shown.structured["board"]), shown.structured["next"]
        assert (board["secrets"], following) == ([], [{"tool": "send", "arguments": {"task_id": paused.task_id}}])
        assert client.task(paused.task_id).status == "working"
        ends.append(finish("send", task=paused.task_id))
        assert client.task(paused.task_id).status == "completed"
    assert all(run.completed for run in ends)
    assert "<secret pin>" in "".join(message.text for message in ends[1].messages)


def test_a_secret_is_asked_for_as_long_as_a_step_is_open(baton: Connect) -> None:
    client = baton(secret_server())
    paused = client.call_workflow("send", {"pin": "4711"})
    assert "Secret arguments are not stored" in client.call_tool("send", {"task_id": paused.task_id}).text


def slow_server() -> Server:
    server = Server("slow")

    @server.tool
    def first() -> str:
        return "one"

    @server.tool
    def second(of: str) -> str:
        return of

    @server.resource("docs://rules")
    def rules() -> str:
        return "rules"

    steps = [
        Step("a", tool=first),
        Step("b", tool=second, arguments={"of": step_output("a")}, resources=["docs://rules"]),
    ]
    server.add_workflow(Workflow(name="flow", description="work", steps=steps))
    return server


def out_of_time(client: Client) -> Run:
    client.during("first", lambda: client.remaining_s(5.5))
    return client.call_workflow("flow")


def test_a_paused_task_has_a_status_message(baton: Connect, era: Era) -> None:
    client = baton(slow_server(), era=era)
    run = out_of_time(client)
    client.remaining_s(120)

    def shown() -> list[object]:
        found = client.request("tasks/get", {"taskId": run.task_id})
        return [found["status"], found.get("statusMessage")]

    assert shown() == ["working", PAUSED] == ["working", "paused: waits for the model"]
    meanwhile: list[object] = []
    client.during("second", lambda: meanwhile.extend(shown()))
    client.call_workflow("flow", task=run.task_id)
    assert meanwhile == ["working", None]
    assert shown() == ["completed", None]


@pytest.mark.parametrize("task_ids", ["meta", "text"])
def test_a_prompt_that_is_out_of_time_says_that_nothing_failed(baton: Connect, task_ids: Any) -> None:
    server = Server("named", task_ids=task_ids)
    server.include(slow_server())
    client = baton(server)
    client.during("first", lambda: client.remaining_s(5.5))
    run = client.get_prompt("flow")
    assert run.handoff.startswith("The server ran out of time before step 'b'. Nothing failed.\n\n")
    assert "yours" not in run.handoff
    first = run.handoff.split("\n\n")[1]
    if task_ids == "text":
        assert first == f'Call flow with {{"task_id": "{run.task_id}"}} to let the server continue.'
    else:
        assert first == "To continue the workflow, make these tool calls:"


def test_an_unreadable_resource_is_named_instead_of_its_tool(baton: Connect, era: Era) -> None:
    server = Server("library")

    @server.tool
    def lend(book: str) -> str:
        return book

    @server.resource("shelf://{number}")
    def shelf(number: int) -> str:
        raise ToolError("the shelf is locked")

    step = Step("three", tool=lend, arguments={"book": prompt_arg("book")}, resources=["shelf://3"])
    book = Argument("book", required=True)
    server.add_workflow(Workflow(name="flow", description="lend", arguments=[book], steps=[step]))
    client = baton(server, era=era)
    run = client.get_prompt("flow", {"book": "Emma"})
    said = [message.text for message in run.messages]
    assert "The resource shelf://3 could not be read, so lend was not called: the shelf is locked" in said
    assert not any(text.startswith("Error from") for text in said)
    assert run.handoff.startswith(
        "Step 'three' failed: the resource shelf://3 could not be read: \"the shelf is locked\". "
        "Its tool was not called. This step is not retryable: correct the cause first.\n\n"
    )
    assert "\n\n1. Read the resource shelf://3, then call lend with " in run.handoff
    assert (run.pause.resource, client.calls("lend")) == ("shelf://3", [])
