"""Servers whose workflow pauses, for each possible reason (docs/workflows.md, Pausing)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mcp_baton import (
    Argument,
    Context,
    Server,
    ToolError,
    ToolStep,
    Workflow,
    constant,
    prompt_arg,
    step_output,
    task_variable,
)
from mcp_baton.workflow.sources import Source
from mcp_baton.workflow.steps.step import Step

LARGE = "x" * 60_000
"""A text that, if sent twice, exceeds the tokens that a host shows of a result."""


@dataclass
class Shop:
    """A server that refunds orders, and what its tools have done.

    Attributes:
        payments: The refunds by idempotency key, as a payment provider stores them.
    """

    refund_errors: list[Exception] = field(default_factory=list)
    payments: dict[str, float] = field(default_factory=dict)
    mails: list[str] = field(default_factory=list)

    def server(self, *steps: Step, tool: bool = True, task_ids: Literal["meta", "text"] = "meta") -> Server:
        """Return the server, with these steps instead of refund's; see `plan`."""
        server = Server("shop", version="1.0.0", task_ids=task_ids)
        server.tool(self.fetch_order)
        server.tool(self.find_document)
        server.tool(self.scan)
        server.tool(self.refund)
        server.tool(self.archive)
        server.tool(self.mark)
        server.tool(self.send_mail)
        return plan(server, *steps, tool=tool)

    def fetch_order(self, order_id: str) -> dict[str, Any]:
        return {"order_id": order_id, "total": 30.0, "email": "kim@example.com"}

    def find_document(self, order_id: str) -> str:
        """Return the order's whole correspondence."""
        return f"{order_id}: {LARGE}"

    def scan(self, characters: int) -> str:
        return "x" * characters

    def refund(
        self,
        ctx: Context,
        order_id: str,
        amount: float,
        reason: Literal["damaged", "late"] = "late",
        approved_by: str = "",
    ) -> dict[str, Any]:
        """Refund an order. Above EUR 20, `approved_by` must name the approver."""
        if self.refund_errors:
            raise self.refund_errors.pop(0)
        if amount > 20 and not approved_by:
            raise ToolError(f"EUR {amount:.2f} need an approval")
        self.payments[ctx.idempotency_key] = amount
        return {"refund_id": f"R-{order_id}", "amount": amount, "reason": reason}

    def archive(self, document: str, label: str) -> dict[str, Any]:
        return {"label": label, "characters": len(document)}

    def mark(self, ctx: Context, colour: str) -> str:
        if ctx.task is not None:
            ctx.task["colour"] = colour
        return colour

    def send_mail(self, to: str, text: str, about: str = "") -> str:
        self.mails.append(to)
        return f"sent to {to}: {text}{about}"


def plan(server: Server, *steps: Step, tool: bool = True) -> Server:
    """Add the workflow `refund_order`: fetch, these steps, notify."""
    fetch = ToolStep("fetch", tool="fetch_order", arguments={"order_id": prompt_arg("order_id")}, binding="order")
    mail: dict[str, Source] = {"to": step_output("order", "email"), "text": constant("Refunded {order_id}")}
    server.add_workflow(
        Workflow(
            name="refund_order",
            description="refund an order",
            arguments=[Argument("order_id", "The order", required=True), Argument("amount", "EUR", type=float)],
            steps=[fetch, *steps, ToolStep("notify", tool="send_mail", arguments=mail)],
            tool=tool,
        )
    )
    return server


def refund(arguments: Mapping[str, Source] | None = None, **options: Any) -> Step:
    """Return the step `refund`, with some other arguments."""
    defaults: dict[str, Source] = {
        "order_id": prompt_arg("order_id"),
        "amount": step_output("order", "total"),
        "approved_by": constant("Ada"),
    }
    return ToolStep("refund", tool="refund", arguments={**defaults, **(arguments or {})}, **options)


def without(*names: str) -> Step:
    """Return the step `refund` without sources for these arguments."""
    step = refund()
    remaining = {name: source for name, source in step.arguments.items() if name not in names}
    return ToolStep("refund", tool="refund", arguments=remaining)


MAIL = ToolStep("mail", tool="send_mail", arguments={"to": constant("a"), "text": task_variable("colour")})
FILE = ToolStep("file", tool="archive", arguments={"document": step_output("letters")})
FIND = ToolStep("find", tool="find_document", arguments={"order_id": prompt_arg("order_id")}, binding="letters")
HUGE = ToolStep("find", tool="scan", arguments={"characters": constant(6_000_001)}, binding="letters")
"""A step whose result is too large to be stored."""
LONG = ToolStep("find", tool="scan", arguments={"characters": constant(1_100_000)}, binding="letters")
"""A step whose result is stored, but is too large for placeholders to insert it into a call."""
FILE_ALL = ToolStep("file", tool="archive", arguments={"document": step_output("letters"), "label": constant("A")})
