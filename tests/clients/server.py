"""The server for whole sessions of real clients."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from mcp_baton import (
    Argument,
    Context,
    Server,
    ToolError,
    ToolStep,
    Workflow,
    elicitation,
    prompt_arg,
    roots,
    sampling,
    step,
    step_output,
    wait_for_callback,
)

server = Server("clients", version="1.2.3", title="For clients", instructions="Refund orders.", poll_interval_s=0.2)


@dataclass(frozen=True)
class Order:
    """An order, and its total in EUR."""

    order_id: str
    total: float


@server.tool
def fetch_order(order_id: str) -> Order:
    """Fetch one order."""
    if not order_id.startswith("A-"):
        raise ToolError(f"there is no order {order_id}")
    return Order(order_id, 240.0)


@server.tool
def refund(order_id: str, amount: float, approved_by: str | None = None) -> str:
    """Refund an order. More than EUR 100 need an approval."""
    if amount > 100 and approved_by is None:
        raise ToolError(f"EUR {amount:.2f} need an approval")
    return f"Refunded EUR {amount:.2f} of {order_id}"


@server.tool
def count(to: int, ctx: Context) -> int:
    """Count, and report each number."""
    for number in range(1, to + 1):
        ctx.report_progress(number, to, f"at {number}")
        ctx.info(f"counted {number}")
    return to


@server.tool
def interview(ctx: Context) -> str:
    """Ask the client all kinds of questions in one round."""
    person, model, folders = ctx.ask(
        elicitation("name", "Who are you?", {"type": "object", "properties": {"name": {"type": "string"}}}),
        sampling("greeting", "Greet me.", max_tokens=20),
        roots("folders"),
    )
    return f"{person.content['name']}: {model.content[0]['text']} in {folders.roots[0].uri}"


def text(field: str) -> dict[str, object]:
    """Return a form with one text."""
    return {"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}


@server.tool(task="optional")
def add_up(numbers: list[int], ctx: Context) -> int:
    """Add numbers up in the background."""
    ctx.report_progress(1, 1, "adding")
    return sum(numbers)


@server.tool(task="required")
def lose(_: Context) -> str:
    """Fail in the background."""
    raise ToolError("the order is lost")


@server.tool(task="optional")
def book(ctx: Context) -> str:
    """Ask twice in the background, first for two things at once."""
    name, city = ctx.ask(
        elicitation("name", "Who travels?", text("name")), elicitation("city", "Where to?", text("name"))
    )
    room = ctx.elicit("Which room?", text("name"), key="room")
    return f"{name.content['name']}, {city.content['name']}, {room.content['name']}"


@server.tool(task="required", task_start="explicit")
def dispatch_goods(ctx: Context) -> str:
    """Ask first, then continue in the background."""
    name = ctx.elicit("Who packs?", text("name"), key="packer").content["name"]
    ctx.start_task()
    return f"Packed by {name}"


@server.tool
def start_build(file: str, ctx: Context) -> str:
    """Start a build, which reads the address of its callback from a file."""
    Path(file).write_text(ctx.callback_url("build"))
    return "started"


@server.workflow(background=True)
def release(file: str) -> None:
    """Release what was built elsewhere."""
    step(start_build)(file=file)  # type: ignore[call-arg]
    build = wait_for_callback("build", dict[str, str], within=timedelta(hours=2))
    step(fetch_order)(order_id=build["order"])


@server.resource("terms://refunds", name="terms", mime_type="text/plain")
def terms() -> str:
    """The terms."""
    return "No more than was paid."


@server.resource("orders://{order_id}", name="order", mime_type="text/plain")
def order(order_id: str) -> str:
    """An order as a text."""
    return f"Order {order_id}"


@server.prompt
def apology(order_id: str) -> str:
    """Draft an apology."""
    return f"Apologise for {order_id}."


@server.completion("apology", "order_id")
def orders(value: str) -> list[str]:
    """Return orders that start with this text."""
    return [name for name in ("A-17", "A-18", "B-1") if name.startswith(value)]


server.add_workflow(
    Workflow(
        name="refund_order",
        description="refund an order",
        arguments=[Argument("order_id", "The order", required=True)],
        steps=[
            ToolStep("fetch", tool="fetch_order", arguments={"order_id": prompt_arg("order_id")}, binding="order"),
            ToolStep(
                "refund",
                tool="refund",
                guidance="Ask for an approval.",
                arguments={"order_id": prompt_arg("order_id"), "amount": step_output("order", "total")},
            ),
        ],
    )
)
