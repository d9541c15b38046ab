"""Replies that are not final name one next step, and that step works (docs/workflows.md)."""

import json
import re
from typing import Annotated, Any, Literal, cast

import pytest

from mcp_baton import (
    Approval,
    Argument,
    Server,
    ToolError,
    ToolStep,
    Workflow,
    ask_model,
    not_,
    prompt_arg,
    step,
    step_output,
)
from mcp_baton.testing import Client, Connect, Era, Result, Run


def broken_server(*, retryable: bool = False) -> Server:
    """Return a server whose tool fails with an error that only the log shows."""
    server = Server("s")

    @server.tool
    def charge(order_id: str) -> str:
        raise RuntimeError("the database of the bank")

    step = ToolStep("charge", tool=charge, arguments={"order_id": prompt_arg("order_id")}, retryable=retryable)
    order = Argument("order_id", required=True)
    server.add_workflow(Workflow(name="pay", description="pay", arguments=[order], steps=[step]))
    return server


def test_after_a_masked_error_the_reply_names_its_id_and_does_not_suggest_the_call(baton: Connect, era: Era) -> None:
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
    view = client.call_workflow("pay", {"task_id": run.task_id, "task_action": "show"})
    continuation = client.call_tool("charge", {"order_id": "A-17", "task_id": run.task_id})
    for text in (view.text, continuation.text):
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
    step = ToolStep("transfer", tool=transfer, arguments={"pin": prompt_arg("pin")})
    server.add_workflow(Workflow(name="send", description="send money", arguments=[pin], steps=[step]))
    return server


def test_a_task_whose_steps_are_all_done_is_completed_without_its_secrets(baton: Connect, era: Era) -> None:
    client = baton(secret_server(), era=era)
    last_runs: list[Run] = []
    for finish in (client.call_workflow, lambda name, task: client.get_prompt(name, task=task)):
        run = client.call_workflow("send", {"pin": "4711"})
        reply = client.call_tool("transfer", {"pin": "4711", "approved_by": "Ada", "task_id": run.task_id})
        assert reply.text.endswith(f'All 1 steps are done. Call send with {{"task_id": "{run.task_id}"}} to finish.')
        assert reply.meta["next"] == [{"tool": "send", "arguments": {"task_id": run.task_id}}]
        view = client.call_workflow("send", {"task_id": run.task_id, "task_action": "show"})
        assert view.structured is not None
        board, next_calls = cast("Any", view.structured["board"]), view.structured["next"]
        assert (board["secrets"], next_calls) == ([], [{"tool": "send", "arguments": {"task_id": run.task_id}}])
        assert client.task(run.task_id).status == "working"
        last_runs.append(finish("send", task=run.task_id))
        assert client.task(run.task_id).status == "completed"
    assert all(last_run.completed for last_run in last_runs)
    assert "<secret pin>" in "".join(message.text for message in last_runs[1].messages)


def test_a_task_whose_last_step_will_be_skipped_is_completed_with_its_secrets(baton: Connect) -> None:
    server = secret_server()
    server.workflow(name="send_once")(_send_once)
    client = baton(server)
    client.tool_raises("transfer", "closed", times=1)
    task = client.call_workflow("send_once", {"pin": "4711"}).task_id
    client.call_tool("transfer", {"pin": "4711", "approved_by": "Ada"}, f"{task}/transfer")

    view: Any = client.call_workflow("send_once", {"task_id": task, "task_action": "show"})

    arguments = {"task_id": task, "pin": "<secret pin>"}
    assert view.structured["next"] == [{"tool": "send_once", "arguments": arguments}]
    assert f"Call send_once with {json.dumps(arguments)} to finish." in view.text
    assert client.call_workflow("send_once", {**arguments, "pin": "4711"}).completed


def _send_once(pin: Annotated[str, Argument(secret=True)], kind: str = "once") -> None:
    step("transfer")(pin=pin)
    ask_model("more", "How much more?", when=kind == "twice")


def test_a_condition_that_needs_a_secret_is_not_decided_without_it(baton: Connect) -> None:
    server = secret_server()

    @server.workflow
    def send_with_pin(pin: Annotated[str, Argument(secret=True)]) -> None:
        step("transfer", when=pin == "4711")(pin=pin)
        ask_model("more", "How much more?", when=not_(pin == "4712"))

    client = baton(server)
    client.tool_raises("transfer", "closed", times=1)
    task = client.call_workflow("send_with_pin", {"pin": "4711"}).task_id

    # It would be an extra call, and the resume would pay again.
    reply = client.call_tool("transfer", {"pin": "4711", "approved_by": "Ada"}, f"{task}/transfer")
    assert reply.meta["steps"] == [{"name": "transfer", "status": "completed"}, {"name": "more", "status": "pending"}]

    run = client.call_workflow("send_with_pin", {"pin": "4711"}, task)
    view: Any = client.call_workflow("send_with_pin", {"task_action": "show"}, task).structured
    assert view["next"] == run.next
    assert run.next[-1]["arguments"]["answers"] == {"more": "<How much more?>"}


@pytest.mark.parametrize("pin", [None, "", "4711"])
def test_a_run_decides_a_condition_on_a_secret_that_it_has_also_if_it_is_empty(baton: Connect, pin: str | None) -> None:
    server = Server("bank")
    server.tool(name="transfer")(lambda: "paid")

    @server.workflow
    def send(pin: Annotated[str | None, Argument(secret=True)] = None) -> None:
        step("transfer", when=not_(pin == "4712"))()

    assert baton(server).call_workflow("send", {"pin": pin}).completed


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
        ToolStep("a", tool=first),
        ToolStep("b", tool=second, arguments={"of": step_output("a")}, resources=["docs://rules"]),
    ]
    server.add_workflow(Workflow(name="flow", description="work", steps=steps))
    return server


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


AMOUNT: dict[str, Any] = {"order_id": "A-17", "amount": 240.0}


def guarded_server(*, task_ids: Literal["meta", "text"] = "text") -> Server:
    """Return a server with a refund that needs an approval."""
    server = Server("shop", task_ids=task_ids)

    @server.tool
    def fetch_order(order_id: str) -> dict[str, float]:
        return {"total": 240.0}

    @server.tool(approval=Approval("refunds", message="Refund {amount} EUR?", when=lambda amount, **_: amount > 100))
    def refund(order_id: str, amount: float) -> str:
        return f"refunded {amount}"

    @server.tool
    def send_mail(text: str) -> str:
        return text

    @server.workflow
    def refund_order(order_id: str) -> None:
        order = step(fetch_order)(order_id=order_id)
        step(send_mail)(text=step(refund)(order_id=order_id, amount=order["total"]))

    return server


def suggested_call(text: str) -> tuple[str, dict[str, Any]]:
    """Return the tool and the arguments of the only call in a text."""
    [(tool, arguments)] = re.findall(r"[Cc]all (\w+) with (\{.*\})", text)
    return tool, json.loads(arguments)


def follow(client: Client, text: str) -> Run:
    return client.call_workflow(*suggested_call(text))


def paused_by(client: Client, entry_point: str) -> tuple[str, str]:
    """Return a task that waits for an approval, and the text of a reply that reports it."""
    if entry_point == "prompt":
        run = client.get_prompt("refund_order", {"order_id": "A-17"})
        return run.task_id, run.handoff
    run = client.call_workflow("refund_order", {"order_id": "A-17"})
    if entry_point == "show":
        run = client.call_workflow("refund_order", {"task_id": run.task_id, "task_action": "show"})
    return run.task_id, run.text


@pytest.mark.parametrize("entry_point", ["prompt", "run", "show", "continuation"])
def test_the_call_after_a_denial_ends_the_task(baton: Connect, era: Era, entry_point: str) -> None:
    client = baton(guarded_server(), era=era)
    kim = client.as_owner("kim", scopes=["refunds"])
    task, _ = paused_by(client, "run")
    kim.deny(kim.approvals()[0]["approvalId"], reason="It was never paid")
    client.resume(task)
    if entry_point == "continuation":
        result = client.call_tool("refund", {**AMOUNT, "task_id": task})
        assert "It was never paid" in result.text
        text = block_of(result)
    else:
        resumes = {"prompt": client.resume, "run": lambda task_id: client.call_workflow("refund_order", task=task_id)}
        action = {"task_id": task, "task_action": "show"}
        run = resumes[entry_point](task) if entry_point in resumes else client.call_workflow("refund_order", action)
        text = run.handoff
        assert 'The reason: "It was never paid". Do not make the same call again. Tell the user.' in text

    tool, arguments = suggested_call(text)
    assert client.call_workflow("refund_order", task=task).next == [{"tool": tool, "arguments": arguments}]
    follow(client, text)
    assert client.task(task).status == "cancelled"


def block_of(result: Result) -> str:
    """Return the last text block, which says whether the call was run and recorded."""
    return str(result.content[-1]["text"])


def test_a_refused_continuation_is_made_again_after_the_approval(baton: Connect, era: Era) -> None:
    client = baton(guarded_server(), era=era)
    kim = client.as_owner("kim", scopes=["refunds"])
    task, _ = paused_by(client, "run")
    arguments = {**AMOUNT, "amount": 200.0, "task_id": task}
    refusal = client.call_tool("refund", arguments)

    hint = "After the approval, make the same call again."
    structure: Any = refusal.structured
    note, error = str(refusal.content[0]["text"]).split("\n\n")
    assert error.endswith(hint)
    assert note == structure["baton_next"] == f"Nothing was run or recorded. {hint}"
    assert structure["approval"]["message"] == "Refund 200.0 EUR?"
    kim.approve(structure["approval"]["approvalId"])
    continuation = client.call_tool("refund", arguments)
    assert (continuation.recorded, continuation.text.splitlines()[0]) == (True, "refunded 200.0")
    assert follow(client, block_of(continuation).replace("}: the server", "} the server")).completed


def test_a_prompt_that_does_not_name_its_task_lists_the_calls_after_the_approval(baton: Connect, era: Era) -> None:
    client = baton(guarded_server(task_ids="meta"), era=era)
    kim = client.as_owner("kim", scopes=["refunds"])
    run = client.get_prompt("refund_order", {"order_id": "A-17"})

    assert '\n\nAfter the approval, make these tool calls:\n\n1. Call refund with {"order_id": "A-17", ' in run.handoff
    kim.approve(run.pause.approval_id)
    assert client.call_tool("refund", AMOUNT, task=run.task_id).recorded
    assert "2. Call send_mail with" in run.handoff


def test_an_interrupted_task_suggests_that_the_server_continues_and_not_what_an_older_pause_needed(
    baton: Connect, era: Era
) -> None:
    server = Server("shop")

    @server.tool
    def pay(amount: int) -> str:
        return f"paid {amount}"

    @server.workflow
    def refund() -> None:
        amount = ask_model("amount", "How much?", returns=int)
        step(pay)(amount=amount)

    client = baton(server, era=era)
    run = client.call_workflow("refund")
    with client.killed_after("pay"):
        client.call_workflow("refund", {"task_id": run.task_id, "answers": {"amount": 30}})
    client.clock.advance(46)
    read: Any = client.request("tasks/get", {"taskId": run.task_id}, {"mcp-baton/next": True})
    shown: Any = client.call_tool("refund", {"task_id": run.task_id, "task_action": "show"}).structured
    resume = [{"tool": "refund", "arguments": {"task_id": run.task_id}}]
    assert (read["_meta"]["mcp-baton/next"], shown["next"]) == (resume, resume)


def test_the_call_after_an_approval_repeats_no_default_of_an_argument_that_was_left_empty(baton: Connect) -> None:
    server = Server("shop")

    @server.tool(approval=Approval("refunds"))
    def pay(amount: int) -> str:
        return f"paid {amount}"

    @server.workflow
    def refund(amount: int = 30) -> None:
        step(pay)(amount=amount)

    run = baton(server).call_workflow("refund", {"amount": ""})
    assert run.structured is not None
    assert run.structured["next"] == [{"tool": "refund", "arguments": {"task_id": run.task_id}}]
