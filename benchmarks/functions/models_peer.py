"""Baton with tools whose parameters and results are pydantic models, and a durable workflow of two of them."""

from typing import Annotated

from pydantic import BaseModel, Field

from mcp_baton import Argument, Server, ToolStep, Workflow, prompt_arg, step_output
from mcp_baton.aws import handler as make_handler

server = Server("peer", version="1.0.0")


class Line(BaseModel):
    """One line of an order."""

    sku: str
    count: int = Field(default=1, ge=1, description="How many")


class Order(BaseModel):
    """The order of a customer."""

    order_id: str
    lines: list[Line]
    total: float = Field(ge=0, description="In EUR")


class Invoice(BaseModel):
    """The invoice of an order."""

    order: Order
    number: str
    due_days: int | None = None


@server.tool
def fetch_order(order_id: Annotated[str, Field(min_length=1, description="Such as A-17")]) -> Order:
    """Fetch one order."""
    return Order(order_id=order_id, lines=[Line(sku="desk")], total=189.0)


@server.tool
def make_invoice(order: Order, due_days: int | None = None) -> Invoice:
    """Make the invoice of an order."""
    return Invoice(order=order, number=f"I-{order.order_id}", due_days=due_days)


server.add_workflow(
    Workflow(
        name="bill",
        description="bill an order",
        arguments=[Argument("order_id", "Which order", required=True)],
        steps=[
            ToolStep("fetch", tool="fetch_order", arguments={"order_id": prompt_arg("order_id")}, binding="order"),
            ToolStep("invoice", tool="make_invoice", arguments={"order": step_output("order")}),
        ],
    )
)
handler = make_handler(server)
