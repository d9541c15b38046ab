"""Approvals: a guarded call pauses, a person decides, and the call runs once (docs/approvals.md)."""

import logging
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest

from mcp_baton import (
    Approval,
    Context,
    ListStep,
    ProtocolError,
    Retry,
    Server,
    ToolError,
    ToolStep,
    Workflow,
    ask_model,
    constant,
    item,
    step,
)
from mcp_baton.exceptions import RegistrationError, WorkflowError
from mcp_baton.testing import Client, Connect, Run, connect
from mcp_baton.workflow.pause import ApprovalRequired
from mcp_baton.workflow.steps.list_step import ListRun
from tests.approvals.bank import (
    CALL,
    ORDER,
    Bank,
    approve_all,
    approved_run,
    guarded_server,
    kim,
    waiting_call,
    waiting_ids,
    waiting_run,
)
from tests.support.approvals import approvals_of, approver, decide
from tests.support.client import Era
from tests.support.handler import MakeClient


def test_a_run_pauses_and_continues_after_the_approval(baton: Connect, era: Era) -> None:
    bank, client, run = waiting_run(baton, era=era)
    [approval] = kim(client).approvals()

    assert run.meta["pause_reason"] == {
        "type": "approvalRequired",
        "blockedStep": "pay",
        "approvalId": approval["approvalId"],
        "audience": "refunds",
        "message": "Pay 250.0 EUR for A-17?",
        "expiresAt": approval["expiresAt"],
    }
    assert (run.steps, bank.payments) == ({"fetch": "completed", "pay": "pending"}, [])
    kim(client).approve(approval["approvalId"])
    assert client.call_workflow("refund", task=run.task_id).completed
    assert bank.amounts == [250.0]


def test_a_denied_call_stays_denied_and_names_the_reason(baton: Connect, era: Era) -> None:
    bank, client, run = waiting_run(baton, era=era)
    kim(client).deny(waiting_ids(client)[0], reason='Paid "before"')
    denied_runs = [client.call_workflow("refund", task=run.task_id) for _ in range(2)]
    direct_call = client.call_tool("pay", CALL, task=run.task_id)

    for denied_run in denied_runs:
        assert (denied_run.pause.type, denied_run.pause.reason) == ("approvalDenied", 'Paid "before"')
        assert r'The reason: "Paid \"before\"".' in denied_run.text
        assert denied_run.next == [{"tool": "refund", "arguments": {"task_id": run.task_id, "task_action": "cancel"}}]
    assert direct_call.is_error
    assert (bank.payments, waiting_ids(client)) == ([], [])


def test_a_continuation_needs_the_approval_of_its_step_and_is_recorded_only_if_it_ran(baton: Connect, era: Era) -> None:
    bank, client, run = waiting_run(baton, era=era)
    reply = client.call_tool("pay", CALL, task=run.task_id)
    content: Any = reply.structured
    assert (reply.is_error, reply.recorded, [content["approval"]["approvalId"]]) == (True, False, waiting_ids(client))
    approve_all(client)
    result = client.call_tool("pay", CALL, task=run.task_id)

    assert (result.is_error, result.steps, bank.amounts) == (False, {"fetch": "completed", "pay": "completed"}, [250.0])


def test_a_denied_call_without_a_task_can_be_requested_again_after_its_expiry(baton: Connect) -> None:
    _, client = waiting_call(baton)
    kim(client).deny(waiting_ids(client)[0])
    assert "denied" in client.call_tool("pay", CALL).text
    assert waiting_ids(client) == []
    client.clock.advance(timedelta(hours=2, seconds=1).total_seconds())
    assert "waits for an approval" in client.call_tool("pay", CALL).text
    assert len(waiting_ids(client)) == 1


def test_the_approval_of_a_failed_attempt_is_not_used_again_after_the_arguments_changed_twice(baton: Connect) -> None:
    bank, client, run = approved_run(baton)
    bank.is_down["pay"] = True
    client.call_workflow("refund", task=run.task_id)
    client.call_workflow("refund", {"order": "B-1"}, task=run.task_id)
    resumed_run = client.call_workflow("refund", {"order": "A-17"}, task=run.task_id)

    assert (resumed_run.pause.type, len(bank.payments)) == ("approvalRequired", 1)


def test_a_continuation_cannot_use_the_approval_of_a_run_that_died(baton: Connect) -> None:
    bank, client, run = approved_run(baton)
    with client.killed_after("pay"):
        client.call_workflow("refund", task=run.task_id)

    assert client.call_tool("pay", CALL, task=run.task_id).is_error
    assert len(bank.payments) == 1


def test_a_run_cannot_use_the_approval_of_a_continuation_that_died(baton: Connect) -> None:
    bank, client, run = approved_run(baton)
    with client.killed_after("pay"):
        client.call_tool("pay", CALL, task=run.task_id)
    resumed_run = client.call_workflow("refund", task=run.task_id)

    assert (resumed_run.pause.type, len(bank.payments)) == ("approvalRequired", 1)


@pytest.mark.parametrize(("is_list", "parallel"), [(False, 1), (False, 3), (True, 1), (True, 3)])
def test_an_approval_is_used_twice_at_most_if_each_run_dies(baton: Connect, *, is_list: bool, parallel: int) -> None:
    server, payments = guarded_server()
    of_list = ListStep("pay", {"order": item()}, tool="pay", each=constant(["a"]), parallel=parallel)
    step = of_list if is_list else ToolStep("pay", {"order": constant("a")}, tool="pay")
    server.add_workflow(Workflow(name="refund", description="refund", steps=[step], parallel=parallel))
    client = baton(server)
    run = client.call_workflow("refund")
    approve_all(client)
    for _ in range(2):
        with client.killed_after("pay"):
            client.call_workflow("refund", task=run.task_id)
        client.clock.advance(60)
    [used_approval] = kim(client).approvals("approved")
    paused_run = client.call_workflow("refund", task=run.task_id)

    assert (payments, used_approval["uses"]) == (["a", "a"], 2)
    assert (paused_run.pause.type, len(waiting_ids(client))) == ("approvalRequired", 1)
    approve_all(client)
    assert client.call_workflow("refund", task=run.task_id).completed


class Failing:
    """A workflow with one guarded step. Its tool fails as often as `errors` says."""

    def __init__(
        self, errors: list[Exception], *, is_list: bool = False, background: bool = False, **options: Any
    ) -> None:
        self.errors, self.keys, self.server = errors, list[str](), Server("bank")
        self.server.add_tool(self.pay, approval=Approval("refunds"))
        of_list = ListStep("pay", {"order": item()}, tool="pay", each=constant(["a", "b"]), **options)
        step = of_list if is_list else ToolStep("pay", {"order": constant("a")}, tool="pay", **options)
        self.server.add_workflow(Workflow(name="refund", description="refund", steps=[step], background=background))

    def pay(self, ctx: Context, order: str) -> str:
        if order == "a":
            self.keys.append(ctx.idempotency_key)
            if self.errors:
                raise self.errors.pop(0)
        return order

    def resumes(self, client: Client, count: int) -> list[str]:
        """Approve the first requests and resume. Return the types of the pauses."""
        run = client.call_workflow("refund")
        approve_all(client)
        runs = [client.call_workflow("refund", task=run.task_id) for _ in range(count)]
        return ["completed" if run.completed else run.pause.type for run in runs]


QUICK = Retry(attempts=3, first_s=0, jitter=False, on=(ToolError, ProtocolError))


@pytest.mark.parametrize("error", [ToolError("busy"), ProtocolError(-32_000, "busy")], ids=["tool", "protocol"])
@pytest.mark.parametrize("is_list", [False, True])
@pytest.mark.parametrize(
    ("errors", "options", "pauses", "calls"),
    [
        (1, {"retryable": True}, ["toolError", "completed"], 2),
        (2, {"retryable": True}, ["toolError", "toolError", "approvalRequired"], 2),
        (1, {}, ["toolError", "approvalRequired"], 1),
        (2, {"retry": QUICK}, ["completed"], 3),
        (3, {"retry": QUICK}, ["toolError", "approvalRequired"], 3),
        (9, {"retry": QUICK, "retryable": True}, ["toolError", "approvalRequired"], 3),
    ],
)
def test_an_approval_is_used_again_after_a_clean_failure(
    baton: Connect,
    error: Exception,
    errors: int,
    options: dict[str, Any],
    pauses: list[str],
    calls: int,
    *,
    is_list: bool,
) -> None:
    tool = Failing([error] * errors, is_list=is_list, **options)
    client = baton(tool.server)

    assert tool.resumes(client, len(pauses)) == pauses
    assert (len(tool.keys), len(set(tool.keys))) == (calls, 1)
    assert max(approval["uses"] for approval in kim(client).approvals("approved")) == calls


@pytest.mark.parametrize("error", [ToolError("no", retryable=False), ValueError("unknown")])
def test_an_approval_is_not_used_again_after_a_failure_that_is_not_retried(baton: Connect, error: Exception) -> None:
    tool = Failing([error], retry=QUICK)

    assert tool.resumes(baton(tool.server), 2) == ["toolError", "approvalRequired"]


def test_a_call_of_the_model_uses_the_approval_of_a_run_whose_tool_asked_the_client(baton: Connect) -> None:
    server, answers = Server("bank"), list[bool]()

    @server.tool(approval=Approval("refunds"))
    def pay(ctx: Context, order: str) -> str:
        answers.append(ctx.elicit("Sure?", bool, key="sure").data)
        return order

    step = ToolStep("pay", {"order": constant("a")}, tool="pay")
    server.add_workflow(Workflow(name="refund", description="refund", steps=[step]))
    client = baton(server, era="2026")
    client.answers({"sure": {"value": True}})
    run = client.call_workflow("refund")
    approve_all(client)

    assert client.call_workflow("refund", task=run.task_id).pause.type == "toolError"
    assert client.call_tool("pay", {"order": "a"}, task=run.task_id).value == "a"
    assert client.call_tool("pay", {"order": "a"}, task=run.task_id).is_error
    assert (answers, kim(client).approvals("approved")[0]["uses"]) == ([True], 1)


def test_a_call_of_the_model_uses_the_approval_that_a_failed_run_has_used(baton: Connect) -> None:
    tool = Failing([ToolError("busy")], retryable=True)
    client = baton(tool.server)
    run = client.call_workflow("refund")
    approve_all(client)
    client.call_workflow("refund", task=run.task_id)

    assert not client.call_tool("pay", {"order": "a"}, task=run.task_id).is_error
    assert client.call_tool("pay", {"order": "a"}, task=run.task_id).is_error
    assert len(tool.keys) == 2


def test_the_retries_in_later_invocations_use_one_approval(baton: Connect) -> None:
    retry = Retry(attempts=3, first_s=900, max_s=900, jitter=False)
    tool = Failing([ToolError("busy")] * 2, retry=retry, background=True)
    client = baton(tool.server)
    job = client.start_task("refund")
    approve_all(client)
    while not job.poll().over:
        assert waiting_ids(client) == []
        client.clock.advance(600)

    assert (job.status, len(tool.keys), len(set(tool.keys))) == ("completed", 3, 1)


def test_a_background_call_uses_its_approval_twice_at_most_if_its_workers_die(baton: Connect) -> None:
    server, payments = Server("bank"), list[int]()

    @server.tool(approval=Approval("refunds"), task="required")
    def pay() -> str:
        payments.append(1)
        return "paid"

    client = baton(server)
    job = client.start_task("pay")
    with client.killed_after("pay"):
        approve_all(client)
        job.wait()
    with client.killed_after("pay"):
        client.clock.advance(1_000)
        job.wait()
    while not waiting_ids(client):
        client.clock.advance(600)
        job.poll()

    assert (len(payments), len(waiting_ids(client))) == (2, 1)
    approve_all(client)
    assert job.wait().status == "completed"
    assert len(payments) == 3


def test_a_retry_after_the_expiry_needs_another_approval(baton: Connect) -> None:
    attempts: list[int] = []
    server = Server("bank")

    @server.tool(approval=Approval("refunds", expires=timedelta(seconds=30)))
    def pay() -> str:
        attempts.append(1)
        raise ToolError("busy")

    step = ToolStep("pay", tool="pay", retry=Retry(attempts=2, first_s=35, max_s=35, jitter=False))
    server.add_workflow(Workflow(name="refund", description="refund", steps=[step]))
    client = baton(server)
    run = client.call_workflow("refund")
    approve_all(client)
    client.call_workflow("refund", task=run.task_id)

    assert (len(attempts), len(waiting_ids(client))) == (1, 1)


def test_a_denied_call_of_a_task_stays_denied_after_the_expiry(baton: Connect) -> None:
    _, client, run = waiting_run(baton)
    kim(client).deny(waiting_ids(client)[0])
    client.clock.advance(timedelta(hours=2, seconds=1).total_seconds())

    pause = client.call_workflow("refund", task=run.task_id).pause
    assert (pause.type, waiting_ids(client)) == ("approvalDenied", [])


def test_an_approval_does_not_outlive_its_task(baton: Connect) -> None:
    _, client, run = waiting_run(baton)
    client.clock.advance(timedelta(hours=2, minutes=30).total_seconds())
    client.call_workflow("refund", task=run.task_id)
    [approval] = kim(client).approvals()
    task = client.task(run.task_id)
    start, end = (datetime.fromisoformat(str(text)) for text in (task.shown["createdAt"], approval["expiresAt"]))

    assert abs(end - start - timedelta(hours=3)) < timedelta(seconds=1)


def test_a_call_that_needed_no_approval_is_not_recorded_as_a_step_that_needs_one(baton: Connect) -> None:
    server = Server("bank")

    @server.tool
    def pay() -> str:
        return "paid"

    steps = [ToolStep("a", tool="pay"), ToolStep("b", tool="pay", approval=Approval("refunds"))]
    server.add_workflow(Workflow(name="refund", description="refund", steps=steps))
    client = baton(server)
    client.tool_raises("pay", "down", times=1)
    run = client.call_workflow("refund")
    # Another call completes step `a` while this one runs.
    client.during("pay", lambda: client.call_tool("pay", task=run.task_id))
    client.call_tool("pay", task=run.task_id)

    assert client.call_workflow("refund", task=run.task_id).steps == {"a": "completed", "b": "pending"}


def test_a_call_needs_no_approval_if_when_returns_false(baton: Connect, era: Era) -> None:
    bank = Bank(Approval("refunds", when=lambda amount, **_: amount > 300))
    client = baton(bank.server, era=era)

    assert client.call_workflow("refund", ORDER).completed
    assert client.call_tool("pay", {**CALL, "amount": 301}).is_error
    assert bank.amounts == [250.0]


def test_when_receives_the_converted_arguments_with_their_defaults(baton: Connect) -> None:
    received_arguments: list[dict[str, Any]] = []
    bank = Bank(Approval("refunds", when=lambda **arguments: received_arguments.append(arguments)))
    baton(bank.server).call_tool("pay", {"order": "A-17", "amount": "5"})

    assert received_arguments == [{"order": "A-17", "amount": 5.0, "note": ""}]


@pytest.mark.parametrize("when", [lambda amount, **_: amount.total > 300, lambda **_: sys.exit(1)])
def test_a_call_needs_an_approval_if_when_raises(
    baton: Connect, caplog: pytest.LogCaptureFixture, when: Callable[..., bool]
) -> None:
    bank = Bank(Approval("refunds", when=when))
    client = baton(bank.server)

    assert client.call_tool("pay", CALL).is_error
    assert bank.payments == []
    assert [record.exc_info for record in caplog.records if "when of the approval of pay failed" in record.getMessage()]


def test_an_approval_of_a_step_guards_only_the_step(baton: Connect, era: Era) -> None:
    bank = Bank(approval=None, step=Approval("refunds"))
    client = baton(bank.server, era=era)
    run = client.call_workflow("refund", ORDER)
    continuation = client.call_tool("pay", CALL, task=run.task_id)

    assert (run.pause.type, continuation.is_error, bank.payments) == ("approvalRequired", True, [])
    assert not client.call_tool("pay", CALL).is_error  # a call outside the step needs no approval (docs/approvals.md)
    approve_all(client)
    assert client.call_workflow("refund", task=run.task_id).completed


def test_each_element_of_a_list_has_an_approval_and_all_are_requested_at_once(baton: Connect, era: Era) -> None:
    payments: list[str] = []
    server = Server("bank")

    @server.tool
    def fetch() -> list[str]:
        return ["a", "b", "c"]

    @server.tool(approval=Approval("refunds", when=lambda order: order != "b"))
    def pay(order: str) -> str:
        payments.append(order)
        return order

    first = ToolStep("fetch", tool="fetch")
    steps = [first, ListStep("pay", {"order": item()}, tool="pay", each=first)]
    server.add_workflow(Workflow(name="refund", description="refund", steps=steps))
    client = baton(server, era=era)
    run = client.call_workflow("refund")

    assert (run.pause.type, len(waiting_ids(client)), payments) == ("approvalRequired", 2, ["b"])
    approve_all(client)
    assert client.call_workflow("refund", task=run.task_id).completed
    assert payments == ["b", "a", "c"]


def test_parallel_steps_wait_for_their_approvals_at_the_same_time(baton: Connect) -> None:
    server, payments = guarded_server()
    steps = [ToolStep(name, {"order": constant(name)}, tool="pay") for name in ("a", "b")]
    server.add_workflow(Workflow(name="refund", description="refund", steps=steps, parallel=2))
    client = baton(server)
    run = client.call_workflow("refund")

    assert (run.pause.step, len(waiting_ids(client))) == ("a", 2)
    approve_all(client)
    assert client.call_workflow("refund", task=run.task_id).completed
    assert sorted(payments) == ["a", "b"]


def test_simultaneous_requests_create_one_approval(baton: Connect) -> None:
    client = baton(Bank().server)
    with ThreadPoolExecutor(16) as threads:
        results = list(threads.map(lambda _: client.call_tool("pay", CALL), range(16)))

    contents: list[Any] = [result.structured for result in results]
    assert {content["approval"]["approvalId"] for content in contents} == set(waiting_ids(client))
    assert len(waiting_ids(client)) == 1


def list_server(elements: int, parallel: int, **options: Any) -> tuple[Server, list[str]]:
    server, payments = guarded_server()
    orders = constant([f"{number}" for number in range(elements)])
    step = ListStep("pay", {"order": item()}, tool="pay", each=orders, parallel=parallel)
    server.add_workflow(Workflow(name="refund", description="refund", steps=[step], **options))
    return server, payments


def test_a_parallel_list_shows_the_approval_of_its_first_element_whichever_call_ended_first() -> None:
    stops = {
        number: ApprovalRequired(step="pay", approval_id=f"a{number}", audience="a", message="Pay?", expires_at="")
        for number in (2, 0, 1)
    }
    nothing: Any = None
    stop: Any = ListRun(nothing, nothing, nothing, [], stops=dict(stops)).stop
    assert (stop.approval_id, [call.index for call in stop.unapproved]) == ("a0", [0, 1, 2])


@pytest.mark.parametrize("parallel", [1, 5, 30])
def test_a_long_list_requests_the_next_approvals_when_earlier_ones_are_decided(baton: Connect, parallel: int) -> None:
    server, payments = list_server(45, parallel)
    client, counts = baton(server), list[int]()
    run = client.call_workflow("refund")
    while not run.completed:
        assert run.pause.type == "approvalRequired"
        counts.append(len(waiting_ids(client)))
        # Each of these calls waits for an approval of its own.
        assert sorted(call["approvalId"] for call in run.pause.unapproved) == sorted(waiting_ids(client))
        approve_all(client)
        run = client.call_workflow("refund", task=run.task_id)

    assert counts == [20, 20, 5]
    assert len(payments) == len(set(payments)) == 45


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_a_call_that_can_request_no_approval_shows_none_of_another_call_as_its_own(
    baton: Connect, decision: str
) -> None:
    server = Server("bank")

    @server.tool(approval=Approval("refunds", message="Pay {order}?"))
    def pay(order: str) -> str:
        return order

    @server.workflow(parallel=2)
    def refund() -> None:
        step(pay, name="first", each=[f"a{number}" for number in range(20)], parallel=20)(order=item())
        step(pay, name="second", each=ask_model("orders", "Which?", returns=list[str]), parallel=2)(order=item())

    client = baton(server)
    run = client.call_workflow("refund").answer(orders=["b0", "b1"])
    other = run.pauses[1].to_dict()
    assert (other["blockedStep"], other["ofOther"], other["unapprovedCount"]) == ("second", True, 2)
    assert "unapproved" not in other
    assert "Step 'second' did not run: it can request no approval before one of those that wait is decided." in run.text

    for approval in waiting_ids(client):
        (kim(client).approve if decision == "approve" else kim(client).deny)(approval)
    shown = client.call_tool("refund", {"task_id": run.task_id, "task_action": "show"})
    assert "another approval no longer waits, so it can request its own" in shown.text
    run = client.call_workflow("refund", task=run.task_id)
    (second,) = (pause.to_dict() for pause in run.pauses if pause.step == "second")
    calls: Any = second["unapproved"]
    assert [call["message"] for call in calls] == ["Pay b0?", "Pay b1?"]
    assert "ofOther" not in second


def test_decided_calls_of_a_list_count_although_earlier_ones_can_request_no_approval(baton: Connect) -> None:
    server, payments = list_server(23, 1)
    client = baton(server)
    client.tool_raises("pay", "closed", times=3)
    task = client.call_workflow("refund").task_id

    def decide_calls(*orders: str, decide: Callable[[str], object]) -> Run:
        for approval in kim(client).approvals():
            if approval["arguments"]["order"] in orders:
                decide(approval["approvalId"])
        return client.call_workflow("refund", task=task)

    run = decide_calls("0", "1", "2", decide=kim(client).approve)
    assert (run.pause.type, len(waiting_ids(client))) == ("toolError", 20)
    decide_calls("22", decide=kim(client).approve)
    run = decide_calls("5", decide=kim(client).deny)

    assert (payments, len(waiting_ids(client))) == (["22"], 20)
    assert [call["index"] for call in run.pause.unapproved if "reason" in call] == [5]
    # The elements 0 and 1 have the new approvals, 2 can request none, and those after it still have theirs.
    assert [call["index"] for call in run.pause.unapproved] == [0, 1, *range(3, 21)]


def test_a_denied_call_of_the_model_is_not_suggested_again(baton: Connect) -> None:
    server = Server("bank", task_ids="text")

    @server.tool(approval=Approval("refunds"))
    def pay(amount: int) -> str:
        return "paid"

    server.add_workflow(Workflow(name="refund", description="refund", steps=[ToolStep("pay", tool="pay")]))
    client = baton(server)
    run = client.call_workflow("refund")
    waiting = client.call_tool("pay", {"amount": 5}, task=run.task_id)
    waiting_next: Any = waiting.meta["next"]
    kim(client).deny(waiting_ids(client)[0], reason="too much")
    denied = client.call_tool("pay", {"amount": 5}, task=run.task_id)
    shown = client.call_tool("refund", {"task_id": run.task_id, "task_action": "show"})
    shown_content: Any = shown.structured
    resumed_run = client.call_workflow("refund", task=run.task_id)

    cancel = [{"tool": "refund", "arguments": {"task_id": run.task_id, "task_action": "cancel"}}]
    assert "pay" not in [entry["tool"] for entry in waiting_next]
    assert (denied.recorded, denied.steps, denied.meta["next"]) == (False, {"pay": "pending"}, cancel)
    assert (shown_content["next"], "Call pay" in shown.text) == (cancel, False)
    assert (resumed_run.pause.type, resumed_run.next, resumed_run.steps) == (
        "approvalDenied",
        cancel,
        {"pay": "pending"},
    )
    assert client.task(run.task_id).pause.type == "approvalDenied"
    assert "waits for an approval" in client.call_tool("pay", {"amount": 3}, task=run.task_id).text


@pytest.mark.parametrize("parallel", [1, 3])
def test_a_denied_element_is_not_suggested_and_the_list_waits_for_the_others(baton: Connect, parallel: int) -> None:
    server, payments = guarded_server()
    step = ListStep("pay", {"order": item()}, tool="pay", each=constant(["a", "b", "c"]), parallel=parallel)
    server.add_workflow(Workflow(name="refund", description="refund", steps=[step]))
    client = baton(server)
    run = client.call_workflow("refund")
    approvals = {approval["arguments"]["order"]: approval["approvalId"] for approval in kim(client).approvals()}
    kim(client).deny(approvals["a"])
    first_run = client.call_workflow("refund", task=run.task_id)
    kim(client).approve(approvals["b"])
    kim(client).approve(approvals["c"])
    client.tool_raises("pay", "down", times=1)
    failed_run = client.call_workflow("refund", task=run.task_id)

    assert (first_run.pause.type, failed_run.pause.type) == ("approvalRequired", "toolError")
    suggested = [entry["arguments"].get("order") for entry in failed_run.next]
    assert "a" not in suggested
    assert "order" not in failed_run.text or '"a"' not in failed_run.text
    assert len(payments) == 1


@pytest.mark.parametrize(
    ("end", "pause", "sentence", "message"),
    [
        ("approve", "approvalGranted", "has approved the call of step 'pay'", "paused: approved by refunds"),
        ("deny", "approvalDenied", "denied it", "paused: denied by refunds"),
        ("expire", "approvalExpired", "expired at", "paused: the approval of refunds has expired"),
    ],
)
def test_a_task_says_what_became_of_its_approval(
    baton: Connect, era: Era, end: str, pause: str, sentence: str, message: str
) -> None:
    _, client, run = waiting_run(baton, era=era)
    if end == "expire":
        client.clock.advance(timedelta(hours=2, seconds=1).total_seconds())
    else:
        getattr(kim(client), end)(waiting_ids(client)[0])
    task = client.task(run.task_id)
    shown = client.call_tool("refund", {"task_id": run.task_id, "task_action": "show"})
    shown_content: Any = shown.structured
    listed = client.call_tool("refund", {"task_action": "list"})

    assert (task.pause.type, task.shown["statusMessage"]) == (pause, message)
    assert shown_content["pause_reason"]["type"] == pause
    assert sentence in shown.text
    assert pause in listed.text
    assert not any("waits for an approval" in text or "cannot decide" in text for text in (shown.text, listed.text))


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("first", ["needs a value", "needs an answer", "needs an approval"])
def test_the_denied_call_of_a_parallel_step_is_not_suggested_while_another_step_waits(
    baton: Connect, first: str, *, background: bool
) -> None:
    server = Server("bank", task_ids="text")

    @server.tool(approval=Approval("refunds"))
    def pay(to: str) -> str:
        return f"paid {to}"

    @server.tool
    def note(text: str) -> str:
        return text

    @server.workflow(parallel=4, background=background)
    def refund() -> None:
        """refund"""
        if first == "needs an approval":
            step(pay, name="first")(to="kim")
        else:
            answer = {"text": ask_model("text", "Which?")} if first == "needs an answer" else {}
            step(note, name="first")(**answer)
        step(pay)(to="lee")

    client = baton(server)
    if background:
        client.start_task("refund")
    else:
        client.call_workflow("refund")
    [denied] = [approval for approval in kim(client).approvals() if approval["arguments"] == {"to": "lee"}]
    kim(client).deny(denied["approvalId"])
    task = denied["task"]
    shown = client.call_workflow("refund", {"task_action": "show"}, task)
    called = client.call_tool("pay", {"to": "lee"}, task=task)
    continued = client.call_tool("note", {"text": "x"}, task=task)
    replies: list[tuple[str, Any]] = [(shown.text, shown.next)]
    replies += [(result.text, result.meta["next"]) for result in (called, continued)]
    if not background:
        resumed = client.call_workflow("refund", task=task)
        replies.append((resumed.text, resumed.next))
    for text, suggested in replies:
        assert [call for call in suggested if call["arguments"].get("to") == "lee"] == []
        assert 'Call pay with {"to": "lee"' not in text
    assert called.is_error


def test_parallel_steps_over_the_limit_wait_for_their_approvals(baton: Connect) -> None:
    server, payments = guarded_server()
    steps = [ToolStep(f"s{n}", {"order": constant(f"{n}")}, tool="pay") for n in range(25)]
    server.add_workflow(Workflow(name="refund", description="refund", steps=steps, parallel=25))
    client = baton(server)
    run = client.call_workflow("refund")
    assert (run.pause.type, len(waiting_ids(client)), set(run.steps.values())) == (
        "approvalRequired",
        20,
        {"pending"},
    )
    approve_all(client)
    client.call_workflow("refund", task=run.task_id)
    approve_all(client)

    assert client.call_workflow("refund", task=run.task_id).completed
    assert len(payments) == 25


def test_an_owner_has_at_most_a_hundred_waiting_approvals_of_calls_without_a_task(baton: Connect) -> None:
    client = baton(Bank().server)
    results = [client.call_tool("pay", {**CALL, "amount": amount}) for amount in range(101)]
    other_owner = client.as_owner("zoe")

    assert len(waiting_ids(client)) == 100
    assert "100 approvals of your calls wait already" in results[-1].text
    assert "waits for an approval" in other_owner.call_tool("pay", CALL).text
    kim(client).deny(waiting_ids(client)[50])
    assert "waits for an approval" in client.call_tool("pay", {**CALL, "amount": 100}).text


@pytest.mark.parametrize("end", ["cancel", "complete"])
def test_the_end_of_the_task_withdraws_its_approval(baton: Connect, end: str) -> None:
    _, client, run = waiting_run(baton)
    [approval] = waiting_ids(client)
    client.cancel(run.task_id) if end == "cancel" else client.complete(run.task_id, {})

    with pytest.raises(Exception, match="HTTP 409: It is withdrawn already"):
        kim(client).approve(approval)
    assert waiting_ids(client) == []
    assert [record["state"] for record in kim(client).approvals("withdrawn")] == ["withdrawn"]


def test_each_change_of_an_approval_is_one_line_of_the_audit_log(
    baton: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    _, client, run = approved_run(baton)
    client.call_workflow("refund", task=run.task_id)
    lines: list[Any] = [line for line in caplog.records if getattr(line, "audit", False)]

    assert [line.getMessage().partition(": ")[2] for line in lines] == ["requested", "approved", "used"]
    assert [line.approval["state"] for line in lines] == ["waiting", "approved", "approved"]
    assert lines[2].approval["usedBy"] == "run:2"
    assert not any("A-17" in str(line.approval) for line in lines)


@pytest.mark.parametrize(("claim", "claimed"), [("cli", "cli"), ("page", "page"), ("api", None), (None, None)])
def test_a_record_names_what_the_deciding_client_says_of_itself_as_a_claim(
    make_client: MakeClient, claim: str | None, claimed: str | None
) -> None:
    client = make_client(Bank().server)
    client.call_tool("pay", CALL)
    [approval] = approvals_of(approver(client))
    decide(approver(client), approval, **({} if claim is None else {"from": claim}))
    [record] = approvals_of(approver(client), "approved")

    assert (record["decidedFrom"], record.get("claimedClient")) == ("api", claimed)


def test_the_requester_does_not_see_the_address_of_the_person_who_decides(baton: Connect) -> None:
    _, client = waiting_call(baton)
    requester = client.as_owner(client.owner, scopes=["refunds"])
    decided = kim(client).approve(waiting_ids(client)[0])
    path = f"/approvals/{decided['approvalId']}"
    records = [*requester.approvals("approved"), requester.wire.http("GET", path)]

    assert decided["sourceAddress"]
    assert [record["decidedBy"] for record in records] == ["kim", "kim"]
    assert not any("sourceAddress" in record for record in records)


def test_a_notification_that_failed_is_sent_again_by_a_later_request(baton: Connect) -> None:
    bank, notifications = Bank(), list[Any]()

    @bank.server.on_approval
    def notify(request: Any) -> None:
        notifications.append(request)
        if len(notifications) == 1:
            raise OSError("no mail server")

    client = baton(bank.server)
    run = client.call_workflow("refund", ORDER)
    client.call_workflow("refund", task=run.task_id)
    assert len(notifications) == 1
    client.clock.advance(61)
    client.call_workflow("refund", task=run.task_id)
    client.clock.advance(61)
    client.call_workflow("refund", task=run.task_id)

    assert len(notifications) == 2


def test_lists_say_that_calls_need_an_approval_and_their_schema_has_it(baton: Connect) -> None:
    server = Server("bank")

    @server.tool(approval=Approval("refunds"))
    def pay(amount: float) -> dict[str, float]:
        """Pay."""
        return {"paid": amount}

    client = baton(server)
    [tool] = client.list_tools()

    assert tool["description"] == "Pay.\n\nEach call needs the approval of a person of the group refunds."
    assert "object" in [values["type"] for values in tool["outputSchema"]["additionalProperties"]["anyOf"]]
    assert client.call_tool("pay", {"amount": 1}).structured is not None


def unknown_name(server: Server) -> None:
    server.add_tool(pay_tool, name="pay", approval=Approval("refunds", message="Pay {amuont}?"))


def two_approvals(server: Server) -> None:
    server.add_tool(pay_tool, name="pay", approval=Approval("refunds"))
    add_refund(server, approval=Approval("others"))


def without_tasks(server: Server) -> None:
    server.add_tool(pay_tool, name="pay", approval=Approval("refunds"))
    add_refund(server, durable=False)


def explicit_start(server: Server) -> None:
    server.add_tool(pay_tool, name="pay", approval=Approval("refunds"), task="optional", task_start="explicit")


def no_approval(server: Server) -> None:
    wrong_approval: Any = "refunds"
    server.add_tool(pay_tool, name="pay", approval=wrong_approval)


def pay_tool(amount: float) -> None:
    """Pay."""


def add_refund(server: Server, *, approval: Approval | None = None, durable: bool = True) -> None:
    step = ToolStep("pay", {"amount": constant(1)}, tool="pay", approval=approval)
    server.add_workflow(Workflow(name="refund", description="refund", steps=[step], durable=durable))


@pytest.mark.parametrize(
    ("define", "cause"),
    [
        (unknown_name, "tool 'pay': the message of its approval has {amuont}, which is not a parameter; did you mean"),
        (two_approvals, "workflow 'refund', step 'pay': 'pay' has an approval itself; leave out the step's approval"),
        (without_tasks, "'pay' needs an approval, and the workflow has no tasks; leave out durable=False"),
        (explicit_start, "a tool with an approval cannot have task_start='explicit'; leave it out"),
        (no_approval, "tool 'pay': approval='refunds' is not an Approval; write Approval('refunds')"),
    ],
)
def test_mistakes_are_found_when_the_handler_is_built(define: Callable[[Server], None], cause: str) -> None:
    def check() -> None:
        server = Server("bank")
        define(server)
        server.check(in_full=False)

    with pytest.raises((RegistrationError, WorkflowError), match=re.escape(cause)):
        check()


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"audience": ""}, "audience"),
        ({"audience": "two words"}, "audience"),
        ({"message": ""}, "message"),
        ({"when": 100}, "when"),
        ({"expires": 24}, "expires"),
        ({"expires": timedelta(0)}, "expires"),
        ({"by_requester": "yes"}, "by_requester"),
    ],
)
def test_an_approval_refuses_wrong_values_and_names_the_field(members: dict[str, Any], field: str) -> None:
    with pytest.raises(RegistrationError, match=re.escape(f"Approval({field}=")):
        Approval(**{"audience": "refunds", **members})


def test_a_server_without_a_table_runs_no_call_that_needs_an_approval() -> None:
    bank = Bank()
    with connect(bank.server, owner=None) as client:
        anonymous_client = client.as_owner(None)
        assert isinstance(anonymous_client, Client)
        with pytest.raises(Exception, match="no identity"):
            anonymous_client.call_tool("pay", CALL)
    assert bank.payments == []


def test_no_approval_is_requested_in_the_last_moment_of_a_task(baton: Connect) -> None:
    client = baton(Bank().server)
    task_id = client.call_workflow("refund", ORDER).task_id
    for _ in range(3):
        client.clock.advance(3_600)
        assert client.call_tool("pay", CALL, task=task_id).is_error


def test_a_repeated_continuation_needs_another_approval(baton: Connect, era: Era) -> None:
    bank = Bank()
    client = baton(bank.server, era=era)
    run = client.call_workflow("refund", ORDER)
    approve_all(client)
    client.call_tool("pay", CALL, task=run.task_id)
    second_call = client.call_tool("pay", CALL, task=run.task_id)

    assert (second_call.is_error, len(waiting_ids(client)), bank.amounts) == (True, 1, [250.0])


def test_an_expired_approval_cannot_be_decided_or_used_and_is_requested_again(baton: Connect) -> None:
    client = baton(Bank().server)
    run = client.call_workflow("refund", ORDER)
    [first] = waiting_ids(client)
    client.clock.advance(timedelta(hours=2, seconds=1).total_seconds())
    with pytest.raises(Exception, match="HTTP 410"):
        kim(client).approve(first)
    paused_run = client.call_workflow("refund", task=run.task_id)
    [second] = waiting_ids(client)

    assert (paused_run.pause.type, first != second) == ("approvalRequired", True)


def test_an_approved_call_cannot_run_after_the_expiry(baton: Connect) -> None:
    bank = Bank()
    client = baton(bank.server)
    client.call_tool("pay", CALL)
    approve_all(client)
    client.clock.advance(timedelta(hours=2, seconds=1).total_seconds())

    assert "waits for an approval" in client.call_tool("pay", CALL).text
    assert (bank.payments, len(waiting_ids(client))) == ([], 1)


def test_the_resume_of_a_run_that_died_before_it_stored_the_outcome_uses_the_same_approval(baton: Connect) -> None:
    bank, client, run = approved_run(baton)
    with client.killed_after("pay"):
        client.call_workflow("refund", task=run.task_id)
    client.clock.advance(60)

    assert client.call_workflow("refund", task=run.task_id).completed
    assert len({key for _, _, key in bank.payments}) == 1
    assert bank.amounts == [250.0, 250.0]


def test_one_approval_lets_one_of_many_simultaneous_calls_run(baton: Connect) -> None:
    bank = Bank()
    client = baton(bank.server)
    client.call_tool("pay", CALL)
    approve_all(client)
    with ThreadPoolExecutor(16) as threads:
        results = list(threads.map(lambda _: client.call_tool("pay", CALL), range(64)))

    assert (sum(not result.is_error for result in results), len(bank.payments)) == (1, 1)


def test_a_task_has_at_most_twenty_waiting_approvals(baton: Connect) -> None:
    client = baton(Bank().server)
    run = client.call_workflow("refund", ORDER)
    results = [client.call_tool("pay", {**CALL, "amount": amount}, task=run.task_id) for amount in range(20)]

    assert len(waiting_ids(client)) == 20
    assert "20 approvals of this task wait already" in results[-1].text
