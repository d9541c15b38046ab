"""Approvals of calls that do not start because the function's time is over."""

from mcp_baton import Approval, Retry, Server, ToolError, ToolStep, Workflow
from tests.support.approvals import approvals_of, approver, decide
from tests.support.client import Client, Clock
from tests.support.handler import MakeClient

RESERVE_MS = 5_000


class Shop:
    """A server whose tool `pay` needs an approval. While `slow` is set, `when` uses up the time that is left."""

    def __init__(self, retry: Retry | None = None) -> None:
        self.clock, self.slow, self.fails, self.payments = Clock(), False, False, 0
        self.server = Server("shop")
        self.server.add_tool(self.pay, approval=Approval("refunds", when=self.when))
        steps = [ToolStep("pay", tool="pay", retry=retry)]
        self.server.add_workflow(Workflow(name="refund", description="refund", steps=steps))

    def when(self) -> bool:
        self.clock.ms = RESERVE_MS if self.slow else 600_000
        return True

    def pay(self) -> str:
        self.payments += 1
        if self.fails:
            self.slow = True
            raise ToolError("no answer")
        return "paid"

    def resume(self, client: Client, task_id: str) -> list[str]:
        """Resume the task with plenty of time. Return the steps' statuses."""
        self.clock.ms = 600_000
        return client.get_prompt("refund", task=task_id).statuses


def test_a_call_that_did_not_start_has_not_used_its_approval(make_client: MakeClient) -> None:
    shop = Shop()
    client = make_client(shop.server, remaining_ms=shop.clock)
    task_id = client.get_prompt("refund").task_id
    [approval] = approvals_of(approver(client))
    decide(approver(client), approval)
    shop.slow = True
    late_outcome = shop.resume(client, task_id), shop.payments
    shop.slow = False

    assert late_outcome == (["pending"], 0)
    assert (shop.resume(client, task_id), shop.payments) == (["completed"], 1)


def test_a_second_attempt_that_did_not_start_is_no_use_of_the_approval(make_client: MakeClient) -> None:
    shop = Shop(Retry(2, first_s=0.001))
    client = make_client(shop.server, remaining_ms=shop.clock)
    task_id = client.get_prompt("refund").task_id
    [approval] = approvals_of(approver(client))
    decide(approver(client), approval)
    shop.fails = True
    failed_outcome = shop.resume(client, task_id), shop.payments
    shop.slow = shop.fails = False

    assert failed_outcome == (["failed"], 1)
    assert (shop.resume(client, task_id), shop.payments) == (["completed"], 2)
    assert [approval["uses"] for approval in approvals_of(approver(client), "approved")] == [2]
