"""A model that tries to approve its own calls. It has the requester's identity and everything that MCP shows it."""

import json
import unicodedata
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

import pytest

from mcp_baton import Approval, Argument, BatonError, Context, Server, ToolStep, Workflow, constant, step
from mcp_baton.approvals import items as approvals
from mcp_baton.protocol.envelope import Era as ProtocolEra
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.methods import METHODS
from mcp_baton.testing import Client, Connect, JsonRpcError
from mcp_baton.workflow.steps.step import Step
from tests.approvals.bank import (
    CALL,
    ORDER,
    REFUNDS,
    Bank,
    approve_all,
    guarded_server,
    kim,
    waiting_call,
    waiting_ids,
    waiting_run,
)
from tests.support.client import Era

KNOWN_METHODS = {
    *("initialize", "ping", "logging/setLevel", "server/discover", "tools/list", "tools/call", "prompts/list"),
    *("prompts/get", "resources/list", "resources/templates/list", "resources/read", "resources/subscribe"),
    *("resources/unsubscribe", "completion/complete", "tasks/get", "tasks/cancel", "tasks/list", "tasks/result"),
    *("tasks/update", "subscriptions/listen"),
}
"""The methods that these tests try. If you add a method to Baton, check whether it can decide an approval."""

DECISION = {"decision": "approve", "action": "accept", "approved": True, "state": "approved"}


def test_every_method_is_tried() -> None:
    assert {name for methods in METHODS.values() for name in methods} == KNOWN_METHODS


@pytest.mark.parametrize("method", sorted(KNOWN_METHODS - {"subscriptions/listen"}))
def test_no_method_decides_an_approval(baton: Connect, era: Era, method: str) -> None:
    bank, client, run = waiting_run(baton, era=era)
    [approval] = kim(client).approvals()
    approval_id = approval["approvalId"]
    if method not in METHODS[ProtocolEra.HANDSHAKE if era == "2025" else ProtocolEra.STATELESS]:
        pytest.skip("this era has no such method")
    decision = {**DECISION, "approvalId": approval_id, "digest": approval["digest"], "id": approval_id}
    for name in ("approve", "approvals", "refund", "pay", approval_id):
        for task in (run.task_id, approval_id):
            uri = f"approvals://{approval_id}"
            ref = {"type": "ref/prompt", "name": "refund"}
            target: dict[str, Any] = {"name": name, "uri": uri, "taskId": task, "ref": ref, "level": "info"}
            argument = {"name": "order", "value": approval_id}
            body = {"argument": argument, "arguments": {**decision, **CALL}, "inputResponses": {approval_id: decision}}
            attempt(lambda: client.request(method, {**decision, **target, **body}, {"task_id": task}))  # noqa: B023

    record = kim(client).wire.http("GET", f"/approvals/{approval_id}")
    assert (record["state"] in ("waiting", "withdrawn"), bank.payments) == (True, [])


def attempt(action: Callable[[], object]) -> None:
    # A background task that waits for a decision does not end, so the testing client gives up with an error.
    with suppress(JsonRpcError, BatonError, AssertionError):
        action()


@pytest.mark.parametrize(
    "arguments",
    [
        {"task_action": "approve"},
        {"task_action": "complete", "task_result": {"approved": True}},
        {"task_action": "show"},
        {"answers": {"pay": "approved"}},
        {"approval": {"approved": True}},
    ],
)
def test_no_argument_of_the_workflows_tool_approves(baton: Connect, era: Era, arguments: dict[str, Any]) -> None:
    bank, client, run = waiting_run(baton, era=era)
    attempt(
        lambda: client.request("tools/call", {"name": "refund", "arguments": {"task_id": run.task_id, **arguments}})
    )
    attempt(lambda: client.call_workflow("refund", task=run.task_id))

    assert bank.payments == []
    assert kim(client).approvals("approved") == []


def every_way_to_call(client: Client, tool: str = "pay", workflow: str = "refund") -> Mapping[str, Callable[[], Any]]:
    task = client.call_workflow(workflow, ORDER).task_id
    meta = {"io.modelcontextprotocol/related-task": {"taskId": task}}
    call: JsonObject = {"name": tool, "arguments": CALL}
    return {
        "run by prompt": lambda: client.get_prompt(workflow, ORDER),
        "run by tool": lambda: client.call_workflow(workflow, ORDER),
        "resume by prompt": lambda: client.get_prompt(workflow, {}, task),
        "resume by tool": lambda: client.call_workflow(workflow, task=task),
        "continuation in _meta": lambda: client.call_tool(tool, CALL, task=task),
        "continuation by the prefixed key": lambda: client.request("tools/call", call, {"mcp-baton/task_id": task}),
        "continuation by the related task": lambda: client.request("tools/call", call, meta),
        "continuation by argument": lambda: client.call_tool(tool, {**CALL, "task_id": task}),
        "continuation of a foreign task": lambda: client.as_owner("eve").call_tool(tool, CALL, task=task),
        "continuation of an unknown task": lambda: client.call_tool(tool, CALL, task="0" * 37),
        "call without a task": lambda: client.request("tools/call", call),
        "background call": lambda: client.request("tools/call", {**call, "task": {}}),
    }


@pytest.mark.parametrize("prefix", ["", "bank_"], ids=["its own server", "an included one"])
def test_no_way_to_call_the_tool_avoids_the_approval(baton: Connect, era: Era, prefix: str) -> None:
    bank, server = Bank(task="optional"), Server("all")
    if prefix:
        server.include(bank.server, prefix=prefix)
    client = baton(server if prefix else bank.server, era=era, workers="by hand")
    for call in every_way_to_call(client, f"{prefix}pay", f"{prefix}refund").values():
        attempt(call)
    while client.waiting_events:
        client.run_worker()

    assert bank.payments == []
    assert waiting_ids(client)


def test_the_approvals_api_refuses_the_requester_and_other_groups(baton: Connect) -> None:
    _, client = waiting_call(baton)
    [approval] = waiting_ids(client)
    guessed_id = approval[:-1] + ("0" if approval[-1] != "0" else "1")
    requester = client.as_owner("tester", scopes=["refunds"])

    for caller, approval_id, status in (
        (client, approval, 403),
        (requester, approval, 403),
        (client.as_owner("eve", scopes=["refund", "refundss", "admin"]), approval, 404),
        (client.as_owner("anonymous"), approval, 404),
        (kim(client), guessed_id, 404),
        (kim(client), "approvals", 404),
    ):
        with pytest.raises(BatonError, match=f"HTTP {status}"):
            caller.wire.http("POST", f"/approvals/{approval_id}", {"decision": "approve", "digest": "0" * 64})
    assert requester.approvals() == kim(client).approvals()  # the requester may be in the group and see the approvals
    assert client.call_tool("pay", CALL).is_error


@pytest.mark.parametrize(
    "body", [{}, {"decision": "approve"}, {"decision": "yes", "digest": "0"}, {"digest": "0" * 64}]
)
def test_an_incomplete_or_invalid_decision_is_refused(baton: Connect, body: dict[str, Any]) -> None:
    _, client = waiting_call(baton)
    with pytest.raises(BatonError, match="HTTP 400: d"):
        kim(client).wire.http("POST", f"/approvals/{waiting_ids(client)[0]}", body)


def test_a_decision_with_another_digest_is_refused(baton: Connect) -> None:
    _, client = waiting_call(baton)
    target, decision = f"/approvals/{waiting_ids(client)[0]}", {"decision": "approve", "digest": "0" * 64}
    with pytest.raises(BatonError, match="HTTP 409: digest"):
        kim(client).wire.http("POST", target, decision)


def test_by_requester_lets_the_requester_decide_through_the_api_only(baton: Connect, era: Era) -> None:
    bank = Bank(replace_approval(by_requester=True))
    client = baton(bank.server, era=era)
    client.answers({"approve": True, "ok": "yes"})
    client.call_tool("pay", CALL)
    [approval] = waiting_ids(client)
    assert bank.payments == []
    client.approve(approval)

    assert not client.call_tool("pay", CALL).is_error


def replace_approval(**members: Any) -> Approval:
    return Approval(**{"audience": "refunds", "message": REFUNDS.message, **members})


SCHEMA: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}


class AskingBank:
    """A server whose tool needs an approval and asks the client before it pays."""

    def __init__(self) -> None:
        self.payments = list[str]()
        self.server = Server("asking")
        self.server.add_tool(self.pay, approval=Approval("refunds"))

    def pay(self, ctx: Context) -> str:
        ctx.elicit("n", "How many?", SCHEMA)
        self.payments.append(ctx.idempotency_key)
        return "paid"


def approved_question(baton: Connect) -> tuple[AskingBank, Client]:
    """Return a server and a client whose call of `pay` was approved after its question was answered."""
    bank = AskingBank()
    client = baton(bank.server)
    client.answers({"n": {"n": 1}})
    client.call_tool("pay")
    approve_all(client)
    return bank, client


def rounds_of(client: Client) -> tuple[JsonObject, JsonObject]:
    """Return the reply to the first round of an approved call and the params of its second round."""
    client.answers({"n": {"n": 1}})
    meta: dict[str, Any] = {}
    reply = client.wire.send("tools/call", {"name": "pay", "arguments": {}}, meta)
    responses: JsonObject = {"n": {"action": "accept", "content": {"n": 1}}}
    state = reply["requestState"]
    return reply, {"name": "pay", "arguments": {}, "requestState": state, "inputResponses": responses}


def test_a_call_that_asks_its_client_keeps_its_approval_over_the_rounds(baton: Connect, era: Era) -> None:
    bank = AskingBank()
    client = baton(bank.server, era=era)
    client.answers({"n": {"n": 1}})
    client.call_tool("pay")
    approve_all(client)

    assert not client.call_tool("pay").is_error
    assert (len(bank.payments), waiting_ids(client)) == (1, [])


def test_a_round_that_is_replayed_64_times_continues_once(baton: Connect) -> None:
    bank, client = approved_question(baton)
    _, second_round = rounds_of(client)
    with ThreadPoolExecutor(16) as threads:
        results = list(threads.map(lambda _: client.wire.send("tools/call", second_round, {}), range(64)))

    refusals = [text for result in results if result.get("isError") for text in [str(result["content"])]]
    assert (len(refusals), len(bank.payments), waiting_ids(client)) == (63, 1, [])
    assert all("another request has continued this call" in text for text in refusals)


def test_a_forged_state_continues_nothing(baton: Connect) -> None:
    bank, client = approved_question(baton)
    _, second_round = rounds_of(client)
    state = str(second_round["requestState"])
    for forged_state in (state[:-2] + "AA", state + "A", "", json.dumps({"by": "call:1"})):
        with pytest.raises(JsonRpcError):
            client.request("tools/call", {**second_round, "requestState": forged_state})
    assert bank.payments == []


@pytest.mark.parametrize(
    ("approved_arguments", "call_arguments", "is_covered"),
    [
        ({"amount": 250}, {"amount": 250.0}, True),
        ({"amount": 250}, {"amount": "250"}, True),  # converted: the tool gets 250.0
        ({"amount": 250, "note": ""}, {"amount": 250}, True),  # the default value, given explicitly
        ({"amount": 250}, {"amount": 250.01}, False),
        ({"amount": 250}, {"amount": -250}, False),
        ({"amount": 250}, {"amount": 250, "note": " "}, False),
        ({"order": unicodedata.normalize("NFC", "é")}, {"order": unicodedata.normalize("NFD", "é")}, False),
        ({"order": "A-17"}, {"order": "A‑17"}, False),  # noqa: RUF001 - another hyphen
        ({"order": "1"}, {"order": "١"}, False),  # noqa: RUF001 - another digit
        ({"order": "A\u200b"}, {"order": "A"}, False),
    ],
)
def test_an_approval_covers_equal_arguments_only(
    baton: Connect, approved_arguments: dict[str, Any], call_arguments: dict[str, Any], is_covered: bool
) -> None:
    bank = Bank()
    client = baton(bank.server)
    client.call_tool("pay", {**CALL, **approved_arguments})
    approve_all(client)
    result = client.call_tool("pay", dict(reversed({**CALL, **call_arguments}.items())))

    assert result.is_error is not is_covered
    assert len(bank.payments) == is_covered


def test_an_approval_of_a_call_with_an_equal_key_is_not_used(baton: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    # A key has 64 bits of the digest, so a requester could search for two calls with the same key.
    monkeypatch.setattr(approvals, "_key_text", lambda _call, repeat: f"{'0' * 32}{repeat:02x}")
    bank, client = waiting_call(baton)
    approve_all(client)

    assert client.call_tool("pay", {**CALL, "amount": 9_000}).is_error
    assert client.call_tool("pay", CALL).is_error
    assert bank.payments == []
    approve_all(client)
    assert not client.call_tool("pay", CALL).is_error


def test_an_approval_covers_one_step_of_one_task(baton: Connect, era: Era) -> None:
    bank, client, run = waiting_run(baton, era=era)
    approve_all(client)

    for result in (
        client.call_tool("pay", CALL),
        client.call_tool("pay", CALL, task=client.call_workflow("refund", ORDER).task_id),
        client.call_tool("pay", CALL, task=client.call_workflow("return", ORDER).task_id),
    ):
        assert result.is_error
    assert bank.payments == []
    assert client.call_workflow("refund", task=run.task_id).completed


def renamed_step(bank: Bank) -> None:
    change_steps(bank, lambda pay: pay.replace(name="payment"))


def other_arguments(bank: Bank) -> None:
    change_steps(bank, lambda pay: pay.replace(arguments={**pay.arguments, "note": constant("")}))


def change_steps(bank: Bank, change: Callable[[Step], Step]) -> None:
    workflow = bank.server.workflows["refund"]
    fetch, pay = workflow.steps
    bank.server.workflows["refund"] = replace(workflow, steps=[fetch, change(pay)])


def other_audience(bank: Bank) -> None:
    bank.server.tools["pay"].approval = Approval("others", message=REFUNDS.message)


def other_message(bank: Bank) -> None:
    bank.server.tools["pay"].approval = Approval("refunds", message="Pay {amount}?")


def other_schema(bank: Bank) -> None:
    bank.server.tools["pay"]._input_schema = {"type": "object", "properties": {"order": {}, "amount": {}}}  # noqa: SLF001


@pytest.mark.parametrize("change", [renamed_step, other_arguments, other_audience, other_message, other_schema])
@pytest.mark.parametrize("decision_time", ["before", "after"])
def test_a_changed_definition_needs_another_approval(
    baton: Connect, change: Callable[[Bank], None], decision_time: str
) -> None:
    bank, changed_bank = Bank(), Bank()
    change(changed_bank)
    client = baton(bank.server)
    run = client.call_workflow("refund", ORDER)
    if decision_time == "before":
        approve_all(client)
    new_client = client.deployed(changed_bank.server)
    resumed_run = new_client.call_workflow("refund", task=run.task_id)
    if decision_time == "after":
        kim(client).approve(run.pause.approval_id)
        resumed_run = new_client.call_workflow("refund", task=run.task_id)

    assert resumed_run.pause.type == "approvalRequired"
    assert resumed_run.pause.approval_id != run.pause.approval_id
    assert (bank.payments, changed_bank.payments) == ([], [])


def test_the_approved_arguments_are_those_that_run_even_if_when_changes_them(baton: Connect) -> None:
    payments = list[list[str]]()
    server = Server("bank")

    def sneaky(orders: list[str]) -> bool:
        orders.append("B-1")
        return True

    @server.tool(approval=Approval("refunds", message="Pay {orders}?", when=sneaky))
    def pay(orders: list[str]) -> str:
        payments.append(list(orders))
        return "paid"

    client = baton(server)
    client.call_tool("pay", {"orders": ["A-17"]})
    [approval] = kim(client).approvals()
    approve_all(client)
    client.call_tool("pay", {"orders": ["A-17"]})

    assert payments == [approval["arguments"]["orders"]]


def test_a_secret_is_in_no_record_and_another_secret_needs_another_approval(
    baton: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    server, payments = Server("bank"), list[str]()

    @server.tool(approval=Approval("refunds", message="Pay with {pin} to {order}?"))
    def pay(pin: str, order: str) -> str:
        payments.append(pin)
        return "paid"

    @server.workflow
    def refund(pin: Annotated[str, Argument(secret=True)], order: str) -> None:
        step(pay)(pin=pin, order=order)

    client = baton(server)
    run = client.call_workflow("refund", {"pin": "hunter2-hunter2", "order": "A-17"})
    [approval] = kim(client).approvals()
    approve_all(client)
    rerun = client.call_workflow("refund", {"pin": "password1"}, task=run.task_id)
    assert (rerun.pause.type, payments) == ("approvalRequired", [])
    assert client.call_workflow("refund", {"pin": "hunter2-hunter2"}, task=run.task_id).completed

    assert approval["arguments"] == {"pin": "<secret>", "order": "A-17"}
    assert approval["message"] == "Pay with <secret> to A-17?"
    for text in (json.dumps(kim(client).approvals("approved")), caplog.text, rerun.text, str(client.task(run.task_id))):
        assert "hunter2" not in text
        assert "password1" not in text


def test_the_same_secret_has_another_digest_in_another_task(baton: Connect) -> None:
    server = Server("bank")

    @server.tool(approval=Approval("refunds"))
    def pay(pin: str) -> None:
        """Pay."""

    @server.workflow
    def refund(pin: Annotated[str, Argument(secret=True)]) -> None:
        step(pay)(pin=pin)

    client = baton(server)
    for _ in range(2):
        client.call_workflow("refund", {"pin": "1234"})
    assert len({approval["digest"] for approval in kim(client).approvals()}) == 2


@pytest.mark.parametrize("ended_by", ["used", "withdrawn", "expired", "denied"])
def test_an_approval_that_has_ended_is_not_decided_again(baton: Connect, ended_by: str) -> None:
    bank, client, run = waiting_run(baton)
    [approval] = waiting_ids(client)
    if ended_by == "used":
        approve_all(client)
        client.call_workflow("refund", task=run.task_id)
    elif ended_by == "withdrawn":
        client.cancel(run.task_id)
    elif ended_by == "denied":
        kim(client).deny(approval)
    else:
        client.clock.advance(timedelta(hours=2, seconds=1).total_seconds())
    payments = len(bank.payments)
    for decide in (kim(client).approve, kim(client).deny):
        with pytest.raises(BatonError, match=r"HTTP 4(09|10)"):
            decide(approval)
    attempt(lambda: client.call_workflow("refund", task=run.task_id))
    attempt(lambda: client.call_tool("pay", CALL, task=run.task_id))

    assert len(bank.payments) == payments


def test_no_result_shows_how_to_decide(baton: Connect, era: Era) -> None:
    _, client, run = waiting_run(baton, era=era)
    direct_call = client.call_tool("pay", CALL)
    texts = json.dumps([run.text, run.meta, direct_call.text, direct_call.structured, client.list_tools()])

    assert "digest" not in texts
    assert "/approve" not in texts


def test_each_step_of_a_workflow_of_guarded_steps_needs_its_own_approval(baton: Connect) -> None:
    server, payments = guarded_server()
    steps = [ToolStep(name, {"order": constant(name)}, tool="pay") for name in ("a", "b")]
    server.add_workflow(Workflow(name="refund", description="refund", steps=steps))
    client = baton(server)
    run = client.call_workflow("refund")
    approve_all(client)
    resumed_run = client.call_workflow("refund", task=run.task_id)

    assert (resumed_run.pause.step, payments) == ("b", ["a"])


@pytest.mark.parametrize("answer", [{"ok": True}, "accept", {"decision": "approve"}])
def test_a_client_that_answers_every_elicitation_approves_nothing(baton: Connect, era: Era, answer: Any) -> None:
    calls = list[str]()
    server = Server("bank")

    @server.tool(approval=Approval("refunds"))
    def pay(ctx: Context) -> str:
        ctx.elicit("ok", "Pay?", {"type": "object", "properties": {"ok": {"type": "boolean"}}})
        calls.append("pay")
        return "paid"

    client = baton(server, era=era)
    client.answers({"ok": answer})
    for _ in range(3):
        assert client.call_tool("pay").is_error
    assert calls == []


def test_an_approval_covers_one_owner(baton: Connect) -> None:
    bank = Bank()
    client = baton(bank.server)
    client.call_tool("pay", CALL)
    approve_all(client)

    assert client.as_owner("eve").call_tool("pay", CALL).is_error
    assert bank.payments == []
