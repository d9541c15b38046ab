"""Pictures of workflows: their nodes and edges, and the escaping of any text."""

from typing import Any

import pytest
from msgspec import to_builtins

from mcp_baton import Argument, Retry, Step, Workflow, constant, item, prompt_arg, step_output, task_variable
from mcp_baton.cli.workflow_graph import Graph, StepNode, graph_of, mermaid

SVG = "{http://www.w3.org/2000/svg}"
REQUIRED = {"fetch": ("order_id",), "refund": ("order_id", "amount", "approved_by"), "mail": ("to",)}
SETS = {"refund": ("refunded",)}


def workflow(**changes: Any) -> Workflow:
    steps = [
        Step("fetch", tool="fetch", arguments={"order_id": prompt_arg("order_id")}, binding="order"),
        Step("policy", resources=["docs://{topic}/{lang}"], template_bindings={"topic": step_output("order", "kind")}),
        Step(
            "refund",
            tool="refund",
            arguments={"order_id": prompt_arg("order_id"), "amount": prompt_arg("amount")},
            checkpoint=True,
            retry=Retry(attempts=3),
        ),
        Step(
            "mail",
            tool="mail",
            arguments={
                "to": step_output("order", "email"),
                "text": constant(["Order {order_id}", "{unknown}"]),
                "when": task_variable("refunded", "at"),
                "sender": task_variable("desk"),
            },
        ),
    ]
    arguments = [
        Argument("order_id", required=True),
        Argument("amount", type=float),
        Argument("lang", default="en"),
        Argument("pin", secret=True),
    ]
    defaults = {"name": "refund_order", "description": "refund an order", "arguments": arguments, "steps": steps}
    return Workflow(**{**defaults, **changes})


def graph(**changes: Any) -> Graph:
    return graph_of(workflow(**changes), REQUIRED, SETS)


def test_every_value_of_a_step_is_an_edge_from_its_source() -> None:
    edges = {(edge.source, edge.target, edge.flow, edge.argument, edge.path) for edge in graph().edges}

    assert edges == {
        ("argument:order_id", "step:fetch", "value", "order_id", None),
        ("step:fetch", "step:policy", "path", "topic", "kind"),
        ("argument:lang", "step:policy", "text", "lang", None),
        ("argument:order_id", "step:refund", "value", "order_id", None),
        ("argument:amount", "step:refund", "value", "amount", None),
        ("step:fetch", "step:mail", "path", "to", "email"),
        ("argument:order_id", "step:mail", "text", "text", None),
        ("step:refund", "step:mail", "variable", "when", "refunded.at"),
        ("variable:desk", "step:mail", "variable", "sender", None),
    }


def test_an_output_that_the_same_step_uses_in_a_uri_is_not_an_edge() -> None:
    binding = {"topic": step_output("own", "kind")}
    own_step = Step("own", tool="fetch", resources=["docs://{topic}"], template_bindings=binding)

    assert graph(steps=[own_step], arguments=[]).edges == ()


def test_a_step_lists_the_arguments_that_may_be_missing() -> None:
    pauses = {node.name: [pause.text for pause in node.pauses] for node in graph().nodes if isinstance(node, StepNode)}

    assert pauses == {
        "fetch": [],
        "policy": [],
        "refund": ["pauses for approved_by", "pauses for amount unless it is given"],
        "mail": ["pauses for sender unless desk is set"],
    }


def test_an_optional_argument_in_a_uri_is_a_pause() -> None:
    step = Step("policy", resources=["docs://{topic}/{lang}"], template_bindings={"topic": prompt_arg("about")})
    arguments = [Argument("about"), Argument("lang")]

    [*_, node] = graph(steps=[step], arguments=arguments).nodes

    assert isinstance(node, StepNode)
    assert [pause.text for pause in node.pauses] == [
        "pauses for topic unless about is given",
        "pauses for lang unless it is given",
    ]


@pytest.mark.parametrize(
    ("changes", "notes"),
    [
        ({}, ("prompt and tool",)),
        ({"durable": False}, ("not durable: no task", "prompt only")),
        ({"ask": True, "tool": False}, ("asks for what is missing", "prompt only")),
        ({"background": True}, ("runs in the background", "prompt and tool")),
        ({"parallel": 8}, ("up to 8 steps at the same time", "prompt and tool")),
    ],
)
def test_the_notes_describe_how_the_workflow_runs(changes: dict[str, Any], notes: tuple[str, ...]) -> None:
    assert graph(**changes).notes == notes


def test_as_json_a_graph_has_nodes_edges_and_steps_in_order() -> None:
    view: Any = to_builtins(graph())

    arguments = [f"argument:{name}" for name in ("order_id", "amount", "lang", "pin")]
    assert [node["id"] for node in view["nodes"]][:5] == [*arguments, "variable:desk"]
    steps = [node for node in view["nodes"] if node["kind"] == "step"]
    assert [(step["number"], step["name"], step["tool"]) for step in steps] == [
        (1, "fetch", "fetch"),
        (2, "policy", None),
        (3, "refund", "refund"),
        (4, "mail", "mail"),
    ]
    assert steps[2]["notes"] == ("checkpoint: written before the next step", "up to 3 attempts")
    assert {"argument": "approved_by", "because": None} in steps[2]["pauses"]
    assert {"from": "step:fetch", "to": "step:mail", "flow": "path", "argument": "to", "path": "email"} in view["edges"]
    assert view["nodes"][3]["notes"] == ("optional", "secret")


def test_as_mermaid_a_graph_is_a_flowchart() -> None:
    fetch, policy = workflow().steps[:2]

    diagram = mermaid(graph(steps=[fetch, policy]))
    assert diagram.splitlines()[:9] == [
        "flowchart TB",
        '    n0(["order_id<br/>required"]):::argument',
        '    n1(["amount<br/>optional"]):::argument',
        '    n2(["lang<br/>default #34;en#34;"]):::argument',
        '    n3(["pin<br/>optional, secret"]):::argument',
        '    n4["1. fetch<br/>calls fetch<br/>output is called order"]:::step',
        '    n5["2. policy<br/>reads docs://{topic}/{lang}"]:::step',
        '    n0 -->|"order_id"| n4',
        '    n4 -->|"kind → topic"| n5',
    ]
    assert diagram.splitlines()[9] == '    n2 -.->|"lang"| n5'
    unlinked_diagram = mermaid(graph(steps=[Step("one", tool="fetch"), Step("two", tool="fetch")], arguments=[]))
    assert "n0 ~~~ n1" in unlinked_diagram  # invisible links keep steps without data in order


def test_lists_conditions_and_the_order_of_steps_are_drawn() -> None:
    mail_step = Step("mail", {"to": item("email")}, tool="mail", each=step_output("fetch", "people"), parallel=8)
    steps = [Step("fetch", tool="fetch"), mail_step, Step("last", tool="fetch", after=("mail",))]

    diagram = mermaid(graph(steps=steps, arguments=[], parallel=2))

    assert [line.strip() for line in diagram.splitlines()[2:-4]] == [
        'n1["2. mail<br/>calls mail<br/>once for each element of fetch.people, 8 at the same time"]:::step',
        'n2["3. last<br/>calls fetch<br/>pauses for order_id"]:::pauses',
        'n0 -->|"people → each"| n1',
        'n1 -.->|"after"| n2',
    ]


HOSTILE = 'a"b]c#d;e<script>f&g`h\\i\nj'


def test_names_are_escaped_for_mermaid_and_html() -> None:
    diagram = mermaid(graph(steps=[Step(HOSTILE, tool="fetch")], arguments=[]))

    [line] = [line for line in diagram.splitlines() if line.strip().startswith("n0")]
    label = line.strip().removeprefix('n0["').partition('"]')[0]
    assert label == ("1. a#34;b]c#35;d#59;e#60;script#62;f#38;g#96;h#92;i j<br/>calls fetch<br/>pauses for order_id")
