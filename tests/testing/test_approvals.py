"""Approvals in the testing kit: clients of other people list and decide them."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_baton import Approval, BatonError, Server
from mcp_baton.settings import Settings
from mcp_baton.testing import Client, aconnect, connect


def shop() -> Server:
    server = Server("shop")

    @server.tool(approval=Approval("refunds"))
    def refund(amount: float) -> str:
        return f"refunded {amount}"

    server.add_tool(refund, name="refund_later", approval=Approval("refunds"), task="required")
    return server


@pytest.fixture
def client() -> Iterator[Client]:
    with connect(shop()) as new_client:
        yield new_client


def test_a_person_of_the_group_approves_a_call(client: Client) -> None:
    refusal = client.call_tool("refund", {"amount": 5})
    kim = client.as_owner("kim", scopes=["refunds"])
    [approval] = kim.approvals()
    decision = kim.approve(approval["approvalId"], reason="ok")

    assert refusal.is_error
    structure: Any = refusal.structured
    assert structure["approval"]["approvalId"] == approval["approvalId"]
    assert (decision["state"], decision["decidedBy"], decision["reason"]) == ("approved", "kim", "ok")
    assert client.call_tool("refund", {"amount": 5}).value == "refunded 5.0"
    assert (kim.approvals(), [approved["usedBy"][:5] for approved in kim.approvals("approved")]) == ([], ["call:"])


def test_a_wait_for_an_approval_that_nobody_gives_says_so() -> None:
    # The default, two days, is hundreds of polls. The end is between two polls, which are five minutes apart.
    settings = Settings(max_ttl_ms=7_350_000)
    with (
        connect(shop(), settings=settings) as client,
        pytest.raises(AssertionError, match=r"it has expired; before, it was .*waits for an approval of refunds"),
    ):
        client.start_task("refund_later", {"amount": 5}).wait()


def test_the_reason_of_a_denial_is_in_the_reply(client: Client) -> None:
    client.call_tool("refund", {"amount": 5})
    kim = client.as_owner("kim", scopes=["refunds"])
    kim.deny(kim.approvals()[0]["approvalId"], reason="never paid")

    assert "never paid" in client.call_tool("refund", {"amount": 5}).text


def test_a_refused_decision_raises_the_servers_error(client: Client) -> None:
    client.call_tool("refund", {"amount": 5})
    approval_id = client.as_owner("kim", scopes=["refunds"]).approvals()[0]["approvalId"]

    with pytest.raises(BatonError, match="HTTP 403: The requester cannot decide"):
        client.approve(approval_id)
    with pytest.raises(BatonError, match="HTTP 404"):
        client.as_owner("lee").approve(approval_id)


def test_all_pages_are_listed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_baton.approvals.items.APPROVALS_PER_PAGE", 3)
    for amount in range(8):
        client.call_tool("refund", {"amount": amount})

    amounts = [entry["arguments"]["amount"] for entry in client.as_owner("kim", scopes=["refunds"]).approvals()]
    assert amounts == [float(amount) for amount in reversed(range(8))]


def test_the_asynchronous_client_can_decide_too() -> None:
    asyncio.run(decide_asynchronously())


async def decide_asynchronously() -> None:
    async with aconnect(shop()) as client:
        await client.call_tool("refund", {"amount": 5})
        kim = client.as_owner("kim", scopes=["refunds"])
        [approval] = await kim.approvals()
        await kim.approve(approval["approvalId"])
        assert not (await client.call_tool("refund", {"amount": 5})).is_error
