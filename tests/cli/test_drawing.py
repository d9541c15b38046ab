"""Drawings of workflows: the nodes, the arrows, the pauses, and the escaping of any text."""

from typing import Any

from mcp_baton import (
    Argument,
    Fetch,
    ListStep,
    Server,
    ToolStep,
    Workflow,
    constant,
    item,
    prompt_arg,
    step_output,
    task_variable,
)
from mcp_baton.cli.graph import mermaid
from mcp_baton.workflow.steps.step import Step

server = Server("shop")


@server.tool
def fetch(order_id: str) -> dict[str, Any]:
    return {"id": order_id}


@server.tool(sets=["refunded"])
def refund(order_id: str, amount: float, approved_by: str) -> str:
    return f"{order_id} {amount} {approved_by}"


@server.tool
def mail(to: str, text: str = "", when: str = "", sender: str = "") -> str:
    return f"{to} {text} {when} {sender}"


def drawing(steps: list[Step], arguments: list[Argument] | None = None, **options: Any) -> list[str]:
    """Return the lines of a drawing, without its first line and its styles."""
    workflow = Workflow(
        name="refund_order", description="refund an order", arguments=arguments or [], steps=steps, **options
    )
    first, *lines = mermaid(workflow, server.tools).splitlines()
    assert first == "flowchart TB"
    assert all(line.startswith("    classDef ") for line in lines[-4:])
    return [line.strip() for line in lines[:-4]]


ORDER = Argument("order_id", required=True)
FETCH = ToolStep("fetch", tool="fetch", arguments={"order_id": prompt_arg("order_id")}, binding="order")
REFUND = ToolStep(
    "refund", tool="refund", arguments={"order_id": prompt_arg("order_id"), "amount": prompt_arg("amount")}
)


def test_each_value_of_a_step_is_an_arrow_from_its_source() -> None:
    policy = Fetch(
        "policy", resources=["docs://{topic}/{lang}"], template_bindings={"topic": step_output("order", "kind")}
    )
    letter = {
        "to": step_output("order", "email"),
        "text": constant(["Order {order_id}", "{unknown}"]),
        "when": task_variable("refunded", "at"),
        "sender": task_variable("desk"),
    }
    arguments = [ORDER, Argument("amount", type=float), Argument("lang", default="en"), Argument("pin", secret=True)]

    assert drawing([FETCH, policy, REFUND, ToolStep("mail", tool="mail", arguments=letter)], arguments) == [
        'n0(["order_id<br/>required"]):::argument',
        'n1(["amount<br/>optional"]):::argument',
        'n2(["lang<br/>default #34;en#34;"]):::argument',
        'n3(["pin<br/>optional, secret"]):::argument',
        'n4[("desk<br/>task variable")]:::variable',
        'n5["1. fetch<br/>calls fetch"]:::step',
        'n6["2. policy<br/>reads docs://{topic}/{lang}"]:::step',
        'n7["3. refund<br/>calls refund<br/>pauses for approved_by"]:::pauses',
        'n8["4. mail<br/>calls mail"]:::step',
        "n6 ~~~ n7",  # an invisible link keeps steps without data between them in order
        'n0 -->|"order_id"| n5',
        'n5 -->|"kind → topic"| n6',
        'n2 -->|"lang"| n6',
        'n0 -->|"order_id"| n7',
        'n1 -->|"amount"| n7',
        'n5 -->|"email → to"| n8',
        'n0 -->|"order_id → text"| n8',
        'n7 -->|"refunded.at → when"| n8',
        'n4 -->|"desk → sender"| n8',
    ]


def test_an_output_that_the_same_step_uses_in_a_uri_has_no_arrow() -> None:
    binding = {"topic": step_output("own", "kind")}

    assert drawing([ToolStep("own", tool="fetch", resources=["docs://{topic}"], template_bindings=binding)]) == [
        'n0["1. own<br/>calls fetch<br/>reads docs://{topic}<br/>pauses for order_id"]:::pauses'
    ]


def test_lists_conditions_and_the_order_of_steps_are_drawn() -> None:
    mail_step = ListStep("mail", {"to": item("email")}, tool="mail", each=step_output("fetch", "people"))
    last = ToolStep("last", {"to": "kim"}, tool="mail", after=("mail",), when=step_output("fetch", "total") > 100)

    assert drawing([ToolStep("fetch", {"order_id": "A"}, tool="fetch"), mail_step, last], parallel=2)[1:] == [
        'n1["2. mail<br/>calls mail"]:::step',
        'n2["3. last<br/>calls mail<br/>only if fetch.total #62; 100"]:::step',
        'n0 -->|"people → each"| n1',
        'n0 -->|"total → when"| n2',
        'n1 -->|"after"| n2',
    ]


def test_names_are_escaped_for_mermaid_and_html() -> None:
    [line] = drawing([ToolStep('a"b]c#d;e<script>f&g`h\\i\nj', {"order_id": "A"}, tool="fetch")])

    assert line == 'n0["1. a#34;b]c#35;d#59;e#60;script#62;f#38;g#96;h#92;i j<br/>calls fetch"]:::step'
