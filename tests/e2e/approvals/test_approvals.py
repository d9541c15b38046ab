"""Approvals: a guarded call pauses, a person decides, and the call runs once (docs/approvals.md)."""

import logging
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest

from mcp_baton import Approval, Context, Server, Step, ToolError, Workflow, constant, item
from mcp_baton.exceptions import RegistrationError, WorkflowError
from mcp_baton.testing import Client, Connect, connect
from mcp_baton.workflow.definition import Retry
from tests.e2e.approvals.bank import CALL, ORDER, Bank, approve_all, approved_run, guarded_server, kim, waiting
from tests.e2e.support import Era


def test_a_run_pauses_and_continues_after_the_approval(baton: Connect, era: Era) -> None:
    bank = Bank()
    client = baton(bank.server, era=era)
    run = client.call_workflow("refund", ORDER)
    [approval] = kim(client).approvals()

    assert run.meta["pause_reason"] == {
        "type": "approvalRequired",
        "blockedStep": "pay",
        "approvalId": approval["approvalId"],
        "audience": "refunds",
        "message": "Pay 250.0 EUR for A-17?",
        "expiresAt": approval["expiresAt"],
    }
    assert (run.steps, bank.paid) == ({"fetch": "completed", "pay": "pending"}, [])
    kim(client).approve(approval["approvalId"])
    assert client.call_workflow("refund", task=run.task_id).completed
    assert bank.amounts == [250.0]


def test_a_resume_before_the_decision_pauses_at_the_same_approval(baton: Connect, era: Era) -> None:
    bank = Bank()
    client = baton(bank.server, era=era)
    run = client.call_workflow("refund", ORDER)
    again = client.call_workflow("refund", task=run.task_id)

    assert again.pause is not None
    assert [again.pause.approval_id] == waiting(client)
    assert bank.paid == []


def test_a_denied_call_stays_denied_and_names_the_reason(baton: Connect, era: Era) -> None:
    bank = Bank()
    client = baton(bank.server, era=era)
    run = client.call_workflow("refund", ORDER)
    kim(client).deny(waiting(client)[0], reason='Paid "before"')
    denied = [client.call_workflow("refund", task=run.task_id) for _ in range(2)]
    direct = client.call_tool("pay", CALL, task=run.task_id)

    for it in denied:
        assert it.pause is not None
        assert (it.pause.type, it.pause.reason) == ("approvalDenied", 'Paid "before"')
        assert r'The reason: "Paid \"before\"".' in it.text
        assert it.next == [{"tool": "refund", "arguments": {"task_id": run.task_id, "task_action": "cancel"}}]
    assert direct.is_error
    assert (bank.paid, waiting(client)) == ([], [])


def test_a_continuation_needs_the_approval_of_its_step_and_is_recorded_only_if_it_ran(baton: Connect, era: Era) -> None:
    bank = Bank()
    client = baton(bank.server, era=era)
    run = client.call_workflow("refund", ORDER)
    early = client.call_tool("pay", CALL, task=run.task_id)
    needed: Any = early.structured
    assert (early.is_error, early.recorded, [needed["approval"]["approvalId"]]) == (True, False, waiting(client))
    approve_all(client)
    done = client.call_tool("pay", CALL, task=run.task_id)

    assert (done.is_error, done.steps, bank.amounts) == (False, {"fetch": "completed", "pay": "completed"}, [250.0])


def test_a_repeated_continuation_needs_another_approval(baton: Connect, era: Era) -> None:
    bank = Bank()
    client = baton(bank.server, era=era)
    run = client.call_workflow("refund", ORDER)
    approve_all(client)
    client.call_tool("pay", CALL, task=run.task_id)
    again = client.call_tool("pay", CALL, task=run.task_id)

    assert (again.is_error, len(waiting(client)), bank.amounts) == (True, 1, [250.0])


def test_a_call_without_a_task_needs_an_approval_each_time(baton: Connect, era: Era) -> None:
    bank = Bank()
    client = baton(bank.server, era=era)
    for _ in range(2):
        assert client.call_tool("pay", CALL).is_error
        approve_all(client)
        assert not client.call_tool("pay", CALL).is_error

    assert bank.amounts == [250.0, 250.0]


def test_a_denied_call_without_a_task_can_be_requested_again_after_its_expiry(baton: Connect) -> None:
    bank = Bank()
    client = baton(bank.server)
    client.call_tool("pay", CALL)
    kim(client).deny(waiting(client)[0])
    assert "denied" in client.call_tool("pay", CALL).text
    assert waiting(client) == []
    client.clock.advance(timedelta(hours=2, seconds=1).total_seconds())
    assert "waits for an approval" in client.call_tool("pay", CALL).text
    assert len(waiting(client)) == 1


def test_an_expired_approval_cannot_be_decided_or_used_and_is_requested_again(baton: Connect) -> None:
    bank = Bank()
    client = baton(bank.server)
    run = client.call_workflow("refund", ORDER)
    [first] = waiting(client)
    client.clock.advance(timedelta(hours=2, seconds=1).total_seconds())
    with pytest.raises(Exception, match="HTTP 410"):
        kim(client).approve(first)
    paused = client.call_workflow("refund", task=run.task_id)
    [second] = waiting(client)

    assert (paused.pause and paused.pause.type, first != second) == ("approvalRequired", True)


def test_an_approved_call_cannot_run_after_the_expiry(baton: Connect) -> None:
    bank = Bank()
    client = baton(bank.server)
    client.call_tool("pay", CALL)
    approve_all(client)
    client.clock.advance(timedelta(hours=2, seconds=1).total_seconds())

    assert "waits for an approval" in client.call_tool("pay", CALL).text
    assert (bank.paid, len(waiting(client))) == ([], 1)


def test_the_resume_of_a_run_that_died_before_it_stored_the_outcome_uses_the_same_approval(baton: Connect) -> None:
    bank, client, run = approved_run(baton)
    with client.killed_after("pay"):
        client.call_workflow("refund", task=run.task_id)
    client.clock.advance(60)

    assert client.call_workflow("refund", task=run.task_id).completed
    assert len({key for _, _, key in bank.paid}) == 1
    assert bank.amounts == [250.0, 250.0]


def test_a_failed_attempt_whose_outcome_is_stored_has_used_its_approval(baton: Connect) -> None:
    bank, client, run = approved_run(baton)
    bank.down["pay"] = True
    failed = client.call_workflow("refund", task=run.task_id)
    bank.down["pay"] = False
    again = client.call_workflow("refund", task=run.task_id)

    assert [it.pause and it.pause.type for it in (failed, again)] == ["toolError", "approvalRequired"]
    approve_all(client)
    assert client.call_workflow("refund", task=run.task_id).completed
    assert len(bank.paid) == 2


def test_the_approval_of_a_failed_attempt_is_not_used_again_after_the_arguments_changed_twice(baton: Connect) -> None:
    bank, client, run = approved_run(baton)
    bank.down["pay"] = True
    client.call_workflow("refund", task=run.task_id)
    client.call_workflow("refund", {"order": "B-1"}, task=run.task_id)
    back = client.call_workflow("refund", {"order": "A-17"}, task=run.task_id)

    assert (back.pause and back.pause.type, len(bank.paid)) == ("approvalRequired", 1)


def test_a_continuation_cannot_use_the_approval_of_a_run_that_died(baton: Connect) -> None:
    bank, client, run = approved_run(baton)
    with client.killed_after("pay"):
        client.call_workflow("refund", task=run.task_id)

    assert client.call_tool("pay", CALL, task=run.task_id).is_error
    assert len(bank.paid) == 1


def test_a_run_cannot_use_the_approval_of_a_continuation_that_died(baton: Connect) -> None:
    bank, client, run = approved_run(baton)
    with client.killed_after("pay"):
        client.call_tool("pay", CALL, task=run.task_id)
    resumed = client.call_workflow("refund", task=run.task_id)

    assert (resumed.pause and resumed.pause.type, len(bank.paid)) == ("approvalRequired", 1)


def test_an_element_needs_another_approval_after_the_run_died(baton: Connect) -> None:
    server, paid = guarded_server()
    step = Step("pay", {"order": item()}, tool="pay", each=constant(["a"]))
    server.add_workflow(Workflow(name="refund", description="refund", steps=[step]))
    client = baton(server)
    run = client.call_workflow("refund")
    approve_all(client)
    with client.killed_after("pay"):
        client.call_workflow("refund", task=run.task_id)
    client.clock.advance(60)
    resumed = client.call_workflow("refund", task=run.task_id)

    assert (resumed.pause and resumed.pause.type, paid) == ("approvalRequired", ["a"])


def test_a_retry_after_the_expiry_needs_another_approval(baton: Connect) -> None:
    tried: list[int] = []
    server = Server("bank")

    @server.tool(approval=Approval("refunds", expires=timedelta(seconds=30)))
    def pay() -> str:
        tried.append(1)
        raise ToolError("busy")

    step = Step("pay", tool="pay", retry=Retry(attempts=2, first_s=35, max_s=35, jitter=False))
    server.add_workflow(Workflow(name="refund", description="refund", steps=[step]))
    client = baton(server)
    run = client.call_workflow("refund")
    approve_all(client)
    client.call_workflow("refund", task=run.task_id)

    assert (len(tried), len(waiting(client))) == (1, 1)


def test_a_denied_call_of_a_task_stays_denied_after_the_expiry(baton: Connect) -> None:
    bank = Bank()
    client = baton(bank.server)
    run = client.call_workflow("refund", ORDER)
    kim(client).deny(waiting(client)[0])
    client.clock.advance(timedelta(hours=2, seconds=1).total_seconds())

    paused = client.call_workflow("refund", task=run.task_id).pause
    assert (paused and paused.type, waiting(client)) == ("approvalDenied", [])


def test_an_approval_does_not_outlive_its_task(baton: Connect) -> None:
    bank = Bank()
    client = baton(bank.server)
    run = client.call_workflow("refund", ORDER)
    client.clock.advance(timedelta(hours=2, minutes=30).total_seconds())
    client.call_workflow("refund", task=run.task_id)
    [approval] = kim(client).approvals()
    task = client.task(run.task_id)
    created, expires = (datetime.fromisoformat(str(it)) for it in (task.shown["createdAt"], approval["expiresAt"]))

    assert abs(expires - created - timedelta(hours=3)) < timedelta(seconds=1)


def test_a_continuation_that_asks_its_client_keeps_its_approval(baton: Connect, era: Era) -> None:
    server, paid = Server("bank", task_ids="text"), list[int]()

    @server.tool(approval=Approval("refunds"))
    def pay(ctx: Context) -> str:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        answer: Any = ctx.elicit("n", "How many?", schema).content["n"]
        paid.append(answer)
        return "paid"

    server.add_workflow(Workflow(name="refund", description="refund", steps=[Step("pay", tool="pay")]))
    client = baton(server, era=era)
    client.answers({"n": {"n": 3}})
    run = client.call_workflow("refund")
    approve_all(client)
    done = client.call_tool("pay", task=run.task_id)

    assert (done.is_error, done.steps, paid, waiting(client)) == (False, {"pay": "completed"}, [3], [])


def test_a_call_that_needed_no_approval_is_not_recorded_as_a_step_that_needs_one(baton: Connect) -> None:
    server = Server("bank")

    @server.tool
    def pay() -> str:
        return "paid"

    steps = [Step("a", tool="pay"), Step("b", tool="pay", approval=Approval("refunds"))]
    server.add_workflow(Workflow(name="refund", description="refund", steps=steps))
    client = baton(server)
    client.tool_raises("pay", "down", times=1)
    run = client.call_workflow("refund")
    # Another call completes step `a` while this one runs.
    client.during("pay", lambda: client.call_tool("pay", task=run.task_id))
    client.call_tool("pay", task=run.task_id)

    assert client.call_workflow("refund", task=run.task_id).steps == {"a": "completed", "b": "pending"}


def test_the_retries_of_one_attempt_share_an_approval(baton: Connect) -> None:
    tried: list[int] = []
    server = Server("bank")

    @server.tool(approval=Approval("refunds"))
    def pay() -> str:
        tried.append(1)
        if len(tried) < 3:
            raise ToolError("busy")
        return "paid"

    step = Step("pay", tool="pay", retry=Retry(attempts=3, first_s=0))
    server.add_workflow(Workflow(name="refund", description="refund", steps=[step]))
    client = baton(server)
    run = client.call_workflow("refund")
    approve_all(client)

    assert client.call_workflow("refund", task=run.task_id).completed
    assert len(tried) == 3


def test_a_call_needs_no_approval_if_when_returns_false(baton: Connect, era: Era) -> None:
    bank = Bank(Approval("refunds", when=lambda amount, **_: amount > 300))
    client = baton(bank.server, era=era)

    assert client.call_workflow("refund", ORDER).completed
    assert client.call_tool("pay", {**CALL, "amount": 301}).is_error
    assert bank.amounts == [250.0]


def test_when_receives_the_converted_arguments_with_their_defaults(baton: Connect) -> None:
    seen: list[dict[str, Any]] = []
    bank = Bank(Approval("refunds", when=lambda **given: seen.append(given)))
    baton(bank.server).call_tool("pay", {"order": "A-17", "amount": "5"})

    assert seen == [{"order": "A-17", "amount": 5.0, "note": ""}]


def test_a_call_needs_an_approval_if_when_raises(baton: Connect, caplog: pytest.LogCaptureFixture) -> None:
    bank = Bank(Approval("refunds", when=lambda total: total > 300))
    client = baton(bank.server)

    assert client.call_tool("pay", CALL).is_error
    assert bank.paid == []
    assert [it.exc_info for it in caplog.records if "Approval(when=" in it.getMessage()]


def test_an_approval_of_a_step_guards_only_the_step(baton: Connect, era: Era) -> None:
    bank = Bank(approval=None, step=Approval("refunds"))
    client = baton(bank.server, era=era)
    run = client.call_workflow("refund", ORDER)
    recorded = client.call_tool("pay", CALL, task=run.task_id)

    assert (run.pause and run.pause.type, recorded.is_error, bank.paid) == ("approvalRequired", True, [])
    assert not client.call_tool("pay", CALL).is_error  # a call outside the step needs no approval (docs/approvals.md)
    approve_all(client)
    assert client.call_workflow("refund", task=run.task_id).completed


def test_each_element_of_a_list_has_an_approval_and_all_are_requested_at_once(baton: Connect, era: Era) -> None:
    paid: list[str] = []
    server = Server("bank")

    @server.tool
    def fetch() -> list[str]:
        return ["a", "b", "c"]

    @server.tool(approval=Approval("refunds", when=lambda order: order != "b"))
    def pay(order: str) -> str:
        paid.append(order)
        return order

    first = Step("fetch", tool="fetch")
    steps = [first, Step("pay", {"order": item()}, tool="pay", each=first)]
    server.add_workflow(Workflow(name="refund", description="refund", steps=steps))
    client = baton(server, era=era)
    run = client.call_workflow("refund")

    assert (run.pause and run.pause.type, len(waiting(client)), paid) == ("approvalRequired", 2, ["b"])
    approve_all(client)
    assert client.call_workflow("refund", task=run.task_id).completed
    assert paid == ["b", "a", "c"]


def test_parallel_steps_wait_for_their_approvals_at_the_same_time(baton: Connect) -> None:
    server, paid = guarded_server()
    steps = [Step(name, {"order": constant(name)}, tool="pay") for name in ("a", "b")]
    server.add_workflow(Workflow(name="refund", description="refund", steps=steps, parallel=2))
    client = baton(server)
    run = client.call_workflow("refund")

    assert run.pause is not None
    assert (run.pause.step, len(waiting(client))) == ("a", 2)
    approve_all(client)
    assert client.call_workflow("refund", task=run.task_id).completed
    assert sorted(paid) == ["a", "b"]


def test_simultaneous_requests_create_one_approval(baton: Connect) -> None:
    bank = Bank()
    client = baton(bank.server)
    with ThreadPoolExecutor(16) as threads:
        results = list(threads.map(lambda _: client.call_tool("pay", CALL), range(16)))

    found: list[Any] = [it.structured for it in results]
    assert {it["approval"]["approvalId"] for it in found} == set(waiting(client))
    assert len(waiting(client)) == 1


def test_one_approval_lets_one_of_many_simultaneous_calls_run(baton: Connect) -> None:
    bank = Bank()
    client = baton(bank.server)
    client.call_tool("pay", CALL)
    approve_all(client)
    with ThreadPoolExecutor(16) as threads:
        results = list(threads.map(lambda _: client.call_tool("pay", CALL), range(64)))

    assert (sum(not it.is_error for it in results), len(bank.paid)) == (1, 1)


def test_a_task_has_at_most_twenty_waiting_approvals(baton: Connect) -> None:
    bank = Bank()
    client = baton(bank.server)
    run = client.call_workflow("refund", ORDER)
    results = [client.call_tool("pay", {**CALL, "amount": it}, task=run.task_id) for it in range(20)]

    assert len(waiting(client)) == 20
    assert "20 approvals of this task wait already" in results[-1].text


@pytest.mark.parametrize("end", ["cancel", "complete"])
def test_the_end_of_the_task_withdraws_its_approval(baton: Connect, end: str) -> None:
    bank = Bank()
    client = baton(bank.server)
    run = client.call_workflow("refund", ORDER)
    [approval] = waiting(client)
    client.cancel(run.task_id) if end == "cancel" else client.complete(run.task_id, {})

    with pytest.raises(Exception, match="HTTP 409: It is withdrawn already"):
        kim(client).approve(approval)
    assert (waiting(client), [it["state"] for it in kim(client).approvals("withdrawn")]) == ([], ["withdrawn"])


def test_each_change_of_an_approval_is_one_line_of_the_audit_log(
    baton: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    _, client, run = approved_run(baton)
    client.call_workflow("refund", task=run.task_id)
    lines: list[Any] = [it for it in caplog.records if getattr(it, "audit", False)]

    assert [it.getMessage().partition(": ")[2] for it in lines] == ["requested", "approved", "used"]
    assert [it.approval["state"] for it in lines] == ["waiting", "approved", "approved"]
    assert lines[2].approval["usedBy"] == "run:2"
    assert not any("A-17" in str(it.approval) for it in lines)


def test_people_are_notified_once_after_the_pause_is_stored(baton: Connect) -> None:
    bank, told = Bank(), list[Any]()

    @bank.server.on_approval
    def tell(request: Any) -> None:
        told.append(request)

    client = baton(bank.server)
    run = client.call_workflow("refund", ORDER)
    client.call_workflow("refund", task=run.task_id)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: client.call_tool("pay", CALL, task=run.task_id), range(8)))

    assert [it.record["approvalId"] for it in told] == waiting(client)
    assert told[0].link is None


def test_a_notification_that_failed_is_sent_again_by_a_later_request(baton: Connect) -> None:
    bank, told = Bank(), list[Any]()

    @bank.server.on_approval
    def tell(request: Any) -> None:
        told.append(request)
        if len(told) == 1:
            raise OSError("no mail server")

    client = baton(bank.server)
    run = client.call_workflow("refund", ORDER)
    client.call_workflow("refund", task=run.task_id)
    assert len(told) == 1
    client.clock.advance(61)
    client.call_workflow("refund", task=run.task_id)
    client.clock.advance(61)
    client.call_workflow("refund", task=run.task_id)

    assert len(told) == 2


def test_lists_say_that_calls_need_an_approval_and_their_schema_has_it(baton: Connect) -> None:
    server = Server("bank")

    @server.tool(approval=Approval("refunds"))
    def pay(amount: float) -> dict[str, float]:
        """Pay."""
        return {"paid": amount}

    client = baton(server)
    [tool] = client.list_tools()

    assert tool["description"] == "Pay.\n\nEach call needs the approval of a person of the group refunds."
    assert tool["outputSchema"]["properties"]["approval"]["type"] == "object"
    assert client.call_tool("pay", {"amount": 1}).structured is not None


def unknown_name(server: Server) -> None:
    server.add_tool(pay_tool, name="pay", approval=Approval("refunds", message="Pay {amuont}?"))


def twice(server: Server) -> None:
    server.add_tool(pay_tool, name="pay", approval=Approval("refunds"))
    guarded(server, approval=Approval("others"))


def without_tool(server: Server) -> None:
    step = Step("docs", resources=["docs://a"], approval=Approval("refunds"))
    server.add_workflow(Workflow(name="refund", description="refund", steps=[step]))


def without_tasks(server: Server) -> None:
    server.add_tool(pay_tool, name="pay", approval=Approval("refunds"))
    guarded(server, durable=False)


def explicit_start(server: Server) -> None:
    server.add_tool(pay_tool, name="pay", approval=Approval("refunds"), task="optional", task_start="explicit")


def no_approval(server: Server) -> None:
    wrong: Any = "refunds"
    server.add_tool(pay_tool, name="pay", approval=wrong)


def pay_tool(amount: float) -> None:
    """Pay."""


def guarded(server: Server, *, approval: Approval | None = None, durable: bool = True) -> None:
    step = Step("pay", {"amount": constant(1)}, tool="pay", approval=approval)
    server.add_workflow(Workflow(name="refund", description="refund", steps=[step], durable=durable))


@pytest.mark.parametrize(
    ("define", "cause"),
    [
        (unknown_name, "tool 'pay': the message of its approval has {amuont}, which is no parameter; did you mean"),
        (twice, "workflow 'refund', step 'pay': 'pay' has an approval itself; leave out the step's approval"),
        (
            without_tool,
            "workflow 'refund', step 'docs': approval is for a step with a tool; leave out the step's approval",
        ),
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
        unauthenticated = client.as_owner(None)
        assert isinstance(unauthenticated, Client)
        with pytest.raises(Exception, match="no identity"):
            unauthenticated.call_tool("pay", CALL)
    assert bank.paid == []
