"""The client of a person who decides approvals (docs/testing.md, Approvals)."""

import asyncio
from datetime import timedelta

import pytest

from mcp_baton import Approval, Server, step
from mcp_baton.tasks.dynamodb.approvals import PAGE_SIZE
from mcp_baton.testing import Client, DecisionRefused, aconnect, connect

REFUNDS = Approval("refunds", message="Refund {amount} EUR?", expires=timedelta(hours=1))


@pytest.fixture
def shop() -> Server:
    server = Server("shop")

    @server.tool(task="optional", approval=REFUNDS)
    def refund(amount: float) -> str:
        return f"refunded {amount}"

    @server.workflow
    def refund_order(amount: float) -> None:
        """refund an order"""
        step(refund)(amount=amount)

    return server


def as_kim(client: Client) -> Client:
    return client.as_owner("kim", scopes=["orders", "refunds"])


def test_a_run_continues_after_another_owner_has_approved_its_call(shop: Server) -> None:
    with connect(shop) as client:
        run = client.call_workflow("refund_order", {"amount": 250})
        kim = as_kim(client)
        [approval] = kim.approvals()
        assert (approval["approvalId"], approval["message"]) == (run.pause.approval_id, "Refund 250.0 EUR?")

        decided = kim.approve(run.pause.approval_id)
        assert (decided["state"], decided["decidedBy"], decided["decidedFrom"]) == ("approved", "kim", "api")
        assert (kim.approvals(), client.resume(run.task_id).completed) == ([], True)


def test_a_call_is_denied_with_a_reason_or_without_one(shop: Server) -> None:
    with connect(shop) as client:
        for reason in ("It was never paid", None):
            run = client.call_workflow("refund_order", {"amount": 250})
            assert as_kim(client).deny(run.pause.approval_id, reason=reason).get("reason") == reason
            assert client.resume(run.task_id).pause.reason == (reason or "")


def test_a_refused_decision_raises_an_error_with_the_servers_words(shop: Server) -> None:
    with connect(shop) as client:
        approval_id = client.call_workflow("refund_order", {"amount": 250}).pause.approval_id
        refusals: list[tuple[int, str]] = []
        for person in (client, client.as_owner("kim"), client.as_owner(None)):
            with pytest.raises(DecisionRefused) as refused:
                person.approve(approval_id)
            refusals.append((refused.value.status, str(refused.value)[:30]))
        assert refusals == [
            (403, "HTTP 403: The requester cannot"),
            (404, "HTTP 404: There is no such app"),
            (403, "HTTP 403: Forbidden: this call"),
        ]
        as_kim(client).deny(approval_id)
        with pytest.raises(DecisionRefused, match="It is denied already") as late:
            as_kim(client).approve(approval_id)
        assert (late.value.status, late.value.reply["state"]) == (409, "denied")


def test_a_decision_wakes_a_background_task(shop: Server) -> None:
    with connect(shop) as client:
        task = client.start_task("refund", {"amount": 250})
        [approval] = as_kim(client).approvals()
        assert (task.status, task.status_message[:30]) == ("working", "waits for an approval of refun")
        as_kim(client).approve(approval["approvalId"])
        assert task.result.value == "refunded 250.0"


def test_all_pages_of_the_approvals_are_listed_newest_first(shop: Server) -> None:
    with connect(shop) as client:
        for amount in range(PAGE_SIZE + 1):
            client.call_workflow("refund_order", {"amount": amount})
        amounts = [approval["arguments"]["amount"] for approval in as_kim(client).approvals()]
        assert amounts == [*range(PAGE_SIZE, -1, -1)]


def test_asynchronous_tests_decide_approvals(shop: Server) -> None:
    async def talk() -> None:
        async with aconnect(shop) as client:
            kim = client.as_owner("kim", scopes=["refunds"])
            for _ in range(2):
                await client.call_workflow("refund_order", {"amount": 250})
            newest, oldest = await kim.approvals()
            assert (await kim.approve(newest["approvalId"]))["state"] == "approved"
            assert (await kim.deny(oldest["approvalId"], reason="No"))["reason"] == "No"

    asyncio.run(talk())
