"""A server whose payments need an approval, for the tests of the approval commands."""

from mcp_baton import Approval, Server, step
from mcp_baton.aws import handler

server = Server("bank")


@server.tool(approval=Approval("refunds", message="Pay {amount} EUR for {order}?"))
def pay(order: str, amount: float) -> str:
    return f"paid {amount} for {order}"


@server.workflow
def pay_order(order: str, amount: float) -> None:
    step(pay)(order=order, amount=amount)


lambda_handler = handler(server)
