"""Background tasks that wait for an approval: no worker runs meanwhile, and the decision wakes one
(docs/background.md)."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from mcp_baton import Approval, Context, Server, step
from mcp_baton.approvals.items import DynamoDBApprovalStore
from mcp_baton.protocol.http import HttpRequest
from mcp_baton.tasks.record import MAX_DISPATCH_MS
from mcp_baton.telemetry import APPROVAL_AGE, Collector
from mcp_baton.testing import connect
from tests.fakes import Line
from tests.support.approvals import approvals_of, approver, decide
from tests.support.background import Background, MakeBackground, measured_endpoint
from tests.support.client import Era, JsonDict, Script

REFUNDS = Approval("refunds", message="Refund {amount} EUR?", expires=timedelta(hours=3))


def shop(script: Script) -> Server:
    server = Server("shop")

    @server.tool
    def find(order: str) -> dict[str, float]:
        return script.play("find", {"amount": 250.0})

    @server.tool(task="optional", approval=REFUNDS)
    def refund(amount: float) -> str:
        return script.play("refund", f"refunded {amount}")

    @server.workflow(background=True)
    def refund_order(order: str) -> None:
        order_data = step(find)(order=order)
        step(refund)(amount=order_data["amount"])

    return server


CALLS: dict[str, JsonDict] = {"refund": {"amount": 250.0}, "refund_order": {"order": "A-1"}}


@pytest.fixture
def jobs(background: MakeBackground, script: Script) -> Background:
    return background(shop(script))


@pytest.fixture(params=[*CALLS])
def tool(request: pytest.FixtureRequest) -> str:
    tool_name: str = request.param
    return tool_name


def test_a_call_stays_working_until_the_decision(jobs: Background, script: Script, tool: str, era: Era) -> None:
    task = jobs.begin(tool, CALLS[tool], era)
    outcome = jobs.work()
    state = jobs.client(era).task("get", task).result
    [approval] = approvals_of(approver(jobs.client(era)))
    script.take()

    assert (outcome, state["status"], jobs.queue.events) == ("waits", "working", [])
    assert state["statusMessage"] == f"waits for an approval of refunds until {approval['expiresAt']}"
    assert decide(approver(jobs.client(era)), approval).status == 200
    assert (len(jobs.queue.events), jobs.work(), script.take()) == (1, "completed", ["refund"])
    assert jobs.status(task, era) == "completed"


def test_a_call_that_asks_its_client_after_the_decision_no_longer_says_that_it_waits_for_it() -> None:
    server = Server("shop")

    @server.tool(task="optional", approval=REFUNDS)
    def refund(ctx: Context, amount: float) -> str:
        return f"refunded {amount}: {ctx.elicit('Why?', str).data}"

    with connect(server, owner="kim") as client:
        task = client.start_task("refund", {"amount": 250})
        supervisor = client.as_owner("ada", scopes=["refunds"])
        supervisor.approve(supervisor.approvals()[0]["approvalId"])
        assert (task.status, task.status_message) == ("input_required", "")


def test_a_denied_call_ends_with_the_reason(jobs: Background, script: Script, tool: str) -> None:
    task = jobs.begin(tool, CALLS[tool])
    jobs.work()
    [approval] = approvals_of(approver(jobs.client()))
    script.take()
    decide(approver(jobs.client()), approval, "deny", reason="The order was never paid")
    outcome = jobs.work()
    result = jobs.client().task("get", task).result["result"]

    assert (outcome, script.take(), result["isError"]) == ("completed", [], True)
    assert "The order was never paid" in result["content"][0]["text"]


def test_a_decision_that_comes_while_the_worker_still_holds_the_task_wakes_it(
    jobs: Background, script: Script, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.begin(tool, CALLS[tool])
    original_ask = DynamoDBApprovalStore.ask

    def ask(*arguments: object, **options: object) -> object:
        result = original_ask(*arguments, **options)  # type: ignore[arg-type]
        person = approver(jobs.client())
        for approval in approvals_of(person):
            decide(person, approval)
        return result

    monkeypatch.setattr(DynamoDBApprovalStore, "ask", ask)
    outcome = jobs.work()
    script.take()

    assert (outcome, len(jobs.queue.events)) == ("waits", 1)
    assert (jobs.work(), script.take()) == ("completed", ["refund"])


def test_a_poll_wakes_a_task_whose_wake_up_was_lost(jobs: Background, script: Script, tool: str) -> None:
    task = jobs.begin(tool, CALLS[tool])
    jobs.work()
    [approval] = approvals_of(approver(jobs.client()))
    decide(approver(jobs.client()), approval)
    jobs.queue.lose()
    script.take()
    jobs.time.pass_s(MAX_DISPATCH_MS / 1000 + 1)

    assert (jobs.status(task), jobs.work(), script.take()) == ("working", "completed", ["refund"])


def test_an_expired_approval_is_requested_again(jobs: Background, script: Script, tool: str) -> None:
    task = jobs.begin(tool, CALLS[tool])
    jobs.work()
    person = approver(jobs.client())
    [first_approval] = approvals_of(person)
    jobs.time.pass_s(timedelta(hours=3, minutes=1).total_seconds())
    assert jobs.status(task) == "working"
    assert (decide(person, first_approval).status, jobs.work()) == (410, "waits")
    [second_approval] = approvals_of(person)
    assert second_approval["approvalId"] != first_approval["approvalId"]
    decide(person, second_approval)
    script.take()

    assert (jobs.work(), script.take()) == ("completed", ["refund"])


def ages(telemetry: Collector) -> list[float]:
    """The new values of `ApprovalAge`, in order, milliseconds."""
    return [measurement.value for measurement in telemetry.take().measurements if measurement.metric is APPROVAL_AGE]


def test_the_task_of_a_workflow_lives_until_its_last_approval_can_no_longer_be_decided(script: Script) -> None:
    with connect(shop(script), owner="kim") as client:
        started = client.start_task("refund_order", CALLS["refund_order"])
        for _ in range(4):
            client.clock.advance(timedelta(hours=3, minutes=2))  # the approval expires, and another one is requested
        tasks = [task for task in client.tasks() if task.task_id != started.task_id]
        [approval] = client.as_owner("ada", scopes=["refunds"]).approvals()

        assert len(tasks) == 1
        shown: Any = tasks[0].shown
        ends_at = datetime.fromisoformat(shown["createdAt"]) + timedelta(milliseconds=shown["ttl"])
        assert ends_at > datetime.fromisoformat(approval["expiresAt"])


def test_an_approval_is_measured_when_a_worker_meets_it_again_and_when_it_is_decided(
    jobs: Background, script: Script, tool: str
) -> None:
    telemetry = Collector()
    endpoint, line = measured_endpoint(jobs, telemetry), Line(can_stream=False)

    def work() -> None:
        event: Any = jobs.queue.events.pop()
        endpoint.work(event["batonTask"], line)

    task = jobs.begin(tool, CALLS[tool])
    work()
    assert ages(telemetry) == []
    jobs.time.pass_s(MAX_DISPATCH_MS / 1000 + 1)
    jobs.status(task)
    work()
    assert ages(telemetry) == [MAX_DISPATCH_MS + 1_000]

    [approval] = approvals_of(approver(jobs.client()))
    jobs.time.pass_s(60)
    body = json.dumps({"decision": "approve", "digest": approval["digest"]}).encode()
    path, claims = f"/approvals/{approval['approvalId']}", {"scope": "refunds"}
    response = endpoint(HttpRequest("POST", path, {"content-type": "application/json"}, body, "kim", claims), line)
    assert response is not None
    assert (response.status, ages(telemetry)) == (200, [MAX_DISPATCH_MS + 61_000])
    script.take()
