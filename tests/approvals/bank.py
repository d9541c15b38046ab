"""A server whose tool `pay` needs an approval, and helpers for tests of approvals."""

from datetime import timedelta
from typing import Any

from mcp_baton import Approval, Argument, Context, Server, ToolError, ToolStep, Workflow, prompt_arg, step_output
from mcp_baton.testing import Client, Connect, Run

REFUNDS = Approval("refunds", message="Pay {amount} EUR for {order}?", expires=timedelta(hours=2))


class Bank:
    """A server whose tool `pay` needs an approval. The workflow `refund` has the steps `fetch` and `pay`.

    Attributes:
        payments: The order, amount and idempotency key of each call of `pay`.
    """

    def __init__(self, approval: Approval | None = REFUNDS, step: Approval | None = None, **options: Any) -> None:
        self.payments: list[tuple[str, float, str]] = []
        self.is_down = {"fetch": False, "pay": False}
        self.server = Server("bank", task_ids="text")
        self.server.add_tool(self.fetch)
        self.server.add_tool(self.pay, approval=approval, **options)
        fetch = ToolStep("fetch", tool="fetch")
        arguments = {"order": prompt_arg("order"), "amount": step_output("fetch", "amount")}
        pay = ToolStep("pay", arguments, tool="pay", approval=step)
        argument = Argument("order", required=True)
        for name in ("refund", "return"):
            self.server.add_workflow(Workflow(name=name, description=name, arguments=[argument], steps=[fetch, pay]))

    def fetch(self) -> dict[str, float]:
        if self.is_down["fetch"]:
            raise ToolError("fetch is down")
        return {"amount": 250.0}

    def pay(self, ctx: Context, order: str, amount: float, note: str = "") -> str:
        self.payments.append((order, amount, ctx.idempotency_key))
        if self.is_down["pay"]:
            raise ToolError("pay is down")
        return f"paid {amount} for {order}{note}"

    @property
    def amounts(self) -> list[float]:
        return [amount for _, amount, _ in self.payments]


ORDER = {"order": "A-17"}
CALL: dict[str, Any] = {"order": "A-17", "amount": 250.0}


def kim(client: Client) -> Client:
    """Return a client for a person of the group that decides."""
    return client.as_owner("kim", scopes=["refunds"])


def waiting_ids(client: Client) -> list[str]:
    return [approval["approvalId"] for approval in kim(client).approvals()]


def approve_all(client: Client) -> None:
    for approval_id in waiting_ids(client):
        kim(client).approve(approval_id)


def waiting_run(baton: Connect, **options: Any) -> tuple[Bank, Client, Run]:
    bank = Bank()
    client = baton(bank.server, **options)
    return bank, client, client.call_workflow("refund", ORDER)


def waiting_call(baton: Connect, **options: Any) -> tuple[Bank, Client]:
    """Return a client that waits for the approval of a payment outside a workflow."""
    bank = Bank()
    client = baton(bank.server, **options)
    client.call_tool("pay", CALL)
    return bank, client


def approved_run(baton: Connect) -> tuple[Bank, Client, Run]:
    """Return a refund that has paused and was then approved."""
    bank, client, run = waiting_run(baton)
    approve_all(client)
    return bank, client, run


def guarded_server() -> tuple[Server, list[str]]:
    """Return a server whose tool `pay` needs an approval and that has no workflows, and the list of paid orders."""
    server, payments = Server("bank"), list[str]()

    @server.tool(approval=Approval("refunds"))
    def pay(order: str) -> str:
        payments.append(order)
        return order

    return server, payments
