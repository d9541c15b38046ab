"""The servers for tests of the testing kit."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

import pytest

from mcp_baton import Argument, Context, Server, ToolError, ToolStep, Workflow, constant, prompt_arg, step_output
from mcp_baton.testing import Client, Era, connect


@dataclass(frozen=True, slots=True)
class Refund:
    """A refund."""

    refund_id: str
    amount: float


BOTH_ERAS = pytest.mark.parametrize("era", get_args(Era.__value__))
"""For tests whose messages differ between the eras."""


@pytest.fixture
def era() -> Era:
    return "2026"


@pytest.fixture
def orders() -> Server:
    """A server with a workflow of three steps. Its second step fails on the first call."""
    server = Server("orders")
    attempts: list[float] = []

    @server.tool
    def fetch_order(order_id: str) -> dict[str, Any]:
        """Fetch one order."""
        return {"total": 30.0, "email": "kim@example.com"}

    @server.tool
    def refund(order_id: str, amount: float) -> Refund:
        attempts.append(amount)
        if len(attempts) == 1:
            raise ToolError("connection timeout")
        return Refund(f"R-{order_id}", amount)

    @server.tool
    def send_mail(to: str, text: str) -> dict[str, str]:
        return {"to": to, "text": text}

    @server.resource("docs://{topic}", mime_type="text/markdown")
    def docs(topic: str) -> str | bytes:
        return b"\x89PNG" if topic == "logo" else f"# {topic}"

    @server.prompt
    def greeting(name: str) -> str:
        return f"Greet {name}."

    order: dict[str, Any] = {"order_id": prompt_arg("order_id")}
    mail: dict[str, Any] = {"to": step_output("fetch", "email"), "text": constant("Refunded {order_id}")}
    steps = [
        ToolStep("fetch", tool="fetch_order", arguments=order),
        ToolStep("refund", tool="refund", retryable=True, arguments={**order, "amount": step_output("fetch", "total")}),
        ToolStep("notify", tool="send_mail", arguments=mail),
    ]
    arguments = [Argument("order_id", "Order", required=True)]
    server.add_workflow(Workflow(name="refund_order", description="refund an order", arguments=arguments, steps=steps))
    return server


@pytest.fixture
def client(orders: Server, era: Era) -> Iterator[Client]:
    with connect(orders, era=era) as connected_client:
        yield connected_client


FORM: Any = {"type": "object", "properties": {"colour": {"type": "string"}}}


@pytest.fixture
def asking() -> Server:
    """Functions that ask each kind of question."""
    server = Server("asking")

    @server.tool
    def choose(ctx: Context) -> str:
        answer = ctx.elicit("colour", "Which colour?", FORM)
        return str(answer.content["colour"]) if answer.accepted else answer.action

    @server.tool
    async def sign_in(ctx: Context) -> str:
        return ctx.elicit_url("page", "Please sign in.", "https://example.com").action

    @server.tool
    def think(ctx: Context) -> str:
        return ctx.sample("thought", "What do you think?").text

    @server.tool
    def look(ctx: Context) -> list[str]:
        return [root.uri for root in ctx.list_roots("where").roots]

    @server.tool
    def forever(ctx: Context) -> str:
        for number in range(1000):
            ctx.elicit(f"question-{number}", "Again?", FORM)
        return "done"

    @server.prompt
    def paint(ctx: Context) -> str:
        return f"Paint it {ctx.elicit('colour', 'Which colour?', FORM).content['colour']}."

    @server.resource("docs://colour")
    def colour(ctx: Context) -> str:
        return str(ctx.elicit("colour", "Which colour?", FORM).content["colour"])

    return server
