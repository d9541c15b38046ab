"""Orders and refunds: three tools, the policy as a resource, a prompt and a workflow."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from mcp_baton import Approval, Context, ToolError, fetch, first_of, step
from shop import send_message, server


@dataclass(frozen=True)
class Order:
    """An order. `total` is in EUR."""

    order_id: str
    email: str
    item: str
    category: str
    total: float


@dataclass(frozen=True)
class Refund:
    """A refund. `amount` is in EUR."""

    refund_id: str
    amount: float


ORDERS = {
    order.order_id: order
    for order in (
        Order("A-17", "kim@example.com", "Noise-cancelling headphones", "electronics", 240.0),
        Order("A-18", "ada@example.com", "A field guide to mosses", "books", 24.5),
        Order("A-19", "sam@example.com", "Folding desk", "furniture", 189.0),
    )
}

LIMITS = {"books": 50.0, "electronics": 100.0, "furniture": 250.0}
"""The maximum refund without an approval, by category, EUR."""


PAYMENTS: dict[str, Refund] = {}
"""The payment provider of this sample: refunds by idempotency key. A real provider stores keys for about a day."""


def pay(refund: Refund, key: str) -> Refund:
    """Pay a refund once for each key: a repeated call returns the first refund."""
    return PAYMENTS.setdefault(key, refund)


@server.resource("policy://refunds", mime_type="text/markdown")
def refund_policies() -> str:
    """The refund policy for every category."""
    return "\n".join(refund_policy(category) for category in LIMITS)


@server.resource("policy://refunds/{category}", mime_type="text/markdown")
def refund_policy(category: str) -> str:
    """The refund policy for one category."""
    if category not in LIMITS:
        raise ToolError(f"there is no policy for {category!r}; there is one for {', '.join(LIMITS)}")
    return (
        f"# Refunds: {category}\n\n"
        f"- Up to EUR {LIMITS[category]:.2f} without an approval.\n"
        "- Above that a supervisor approves; the server asks for it.\n"
        "- Never more than the order's total.\n"
    )


@server.tool
def fetch_order(order_id: Annotated[str, "The order's id, such as A-17"]) -> Order:
    """Fetch one order."""
    if order_id not in ORDERS:
        raise ToolError(f"there is no order {order_id!r}")
    return ORDERS[order_id]


def is_above_limit(order_id: str, amount: float) -> bool:
    """Return whether a supervisor must approve a refund. A refund that the tool refuses needs no approval."""
    order = ORDERS.get(order_id)
    return order is not None and LIMITS[order.category] < amount <= order.total


APPROVAL = Approval(
    "refunds", message="Refund EUR {amount} for order {order_id}?", when=is_above_limit, expires=timedelta(hours=8)
)


@server.tool(approval=APPROVAL)
def issue_refund(
    ctx: Context,
    order_id: Annotated[str, "The order's id, such as A-17"],
    amount: Annotated[float, "Amount in EUR"],
) -> Refund:
    """Refund an order."""
    order = fetch_order(order_id)
    if not 0 < amount <= order.total:
        raise ToolError(f"EUR {amount:.2f} cannot be refunded: order {order_id} came to EUR {order.total:.2f}")
    return pay(Refund(f"R-{order_id}", amount), ctx.idempotency_key)


@server.prompt
def apology(order_id: str, tone: str = "warm") -> str:
    """Draft an apology to the customer of an order."""
    order = fetch_order(order_id)
    return f"Write a short, {tone} apology to {order.email} for the trouble with: {order.item} (order {order_id})."


@server.workflow(title="Refund an order")
def refund_order(
    order_id: Annotated[str, "The order to refund, such as A-17"],
    amount: Annotated[float | None, "Amount in EUR; the whole order when left out"] = None,
) -> None:
    """Refund an order according to our policy."""
    order = step(fetch_order, name="fetch")(order_id=order_id)
    fetch("policy", "policy://refunds/{category}", category=order.category)
    refund = step(issue_refund, name="refund", guidance="Keep to the policy.")(
        order_id=order_id, amount=first_of(amount, order.total)
    )
    step(send_message, name="notify")(
        to=order.email, text="Your refund for order {order_id} is on its way.", reference=refund.refund_id
    )
