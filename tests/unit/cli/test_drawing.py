"""Pictures of workflows: what is in them, that nothing in them covers another thing, and that any text may be there."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton import Argument, Retry, Step, Workflow, constant, prompt_arg, step_output, task_variable
from mcp_baton.cli.drawing.flow import Graph, graph_of, to_json
from mcp_baton.cli.drawing.mermaid import mermaid
from mcp_baton.cli.drawing.placing import ROW_WIDTH, Line, Placing, Size, placed
from mcp_baton.cli.drawing.svg import svg

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
    given = {"name": "refund_order", "description": "refund an order", "arguments": arguments, "steps": steps}
    return Workflow(**{**given, **changes})


def graph(**changes: Any) -> Graph:
    return graph_of(workflow(**changes), REQUIRED, SETS)


def parsed(drawn: str) -> ET.Element:
    return ET.fromstring(drawn)  # noqa: S314 - what this package has drawn itself


def test_every_value_of_a_step_is_an_edge_from_where_it_comes_from() -> None:
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


def test_a_resource_that_is_read_after_its_own_tool_is_no_edge() -> None:
    binding = {"topic": step_output("own", "kind")}
    own = Step("own", tool="fetch", resources=["docs://{topic}"], template_bindings=binding)

    assert graph(steps=[own], arguments=[]).edges == ()


def test_a_step_tells_what_a_run_may_lack_there_and_when() -> None:
    lacking = {node.name: [pause.text for pause in node.pauses] for node in graph().nodes if node.kind == "step"}

    assert lacking == {
        "fetch": [],
        "policy": [],
        "refund": ["pauses for approved_by", "pauses for amount unless it is given"],
        "mail": ["pauses for sender unless desk is set"],
    }


def test_an_argument_that_a_uri_needs_and_nobody_must_give_is_a_pause() -> None:
    step = Step("policy", resources=["docs://{topic}/{lang}"], template_bindings={"topic": prompt_arg("about")})
    arguments = [Argument("about"), Argument("lang")]

    [*_, node] = graph(steps=[step], arguments=arguments).nodes

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
    ],
)
def test_the_graph_says_how_its_workflow_runs(changes: dict[str, Any], notes: tuple[str, ...]) -> None:
    assert graph(**changes).notes == notes


def test_as_json_a_graph_has_nodes_edges_and_steps_in_order() -> None:
    made: Any = to_json(graph())

    arguments = [f"argument:{name}" for name in ("order_id", "amount", "lang", "pin")]
    assert [node["id"] for node in made["nodes"]][:5] == [*arguments, "variable:desk"]
    steps = [node for node in made["nodes"] if node["kind"] == "step"]
    assert [(step["number"], step["name"], step["tool"]) for step in steps] == [
        (1, "fetch", "fetch"),
        (2, "policy", None),
        (3, "refund", "refund"),
        (4, "mail", "mail"),
    ]
    assert steps[2]["notes"] == ["checkpoint: written before the next step", "up to 3 attempts"]
    assert {"argument": "approved_by", "because": None} in steps[2]["pauses"]
    assert {"from": "step:fetch", "to": "step:mail", "flow": "path", "argument": "to", "path": "email"} in made["edges"]
    assert made["nodes"][3]["notes"] == ["optional", "secret"]


def test_as_mermaid_a_graph_is_a_flowchart() -> None:
    fetch, policy = workflow().steps[:2]

    drawn = mermaid(graph(steps=[fetch, policy]))
    assert drawn.splitlines()[:9] == [
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
    assert drawn.splitlines()[9] == '    n2 -.->|"lang"| n5'
    apart = mermaid(graph(steps=[Step("one", tool="fetch"), Step("two", tool="fetch")], arguments=[]))
    assert "n0 ~~~ n1" in apart  # they keep their order without data between them


HOSTILE = 'a"b]c#d;e<script>f&g`h\\i\nj'


def test_no_name_ends_a_label_of_mermaids_or_begins_html() -> None:
    drawn = mermaid(graph(steps=[Step(HOSTILE, tool="fetch")], arguments=[]))

    [line] = [line for line in drawn.splitlines() if line.strip().startswith("n0")]
    label = line.strip().removeprefix('n0["').partition('"]')[0]
    assert label == ("1. a#34;b]c#35;d#59;e#60;script#62;f#38;g#96;h#92;i j<br/>calls fetch<br/>pauses for order_id")


@given(name=st.text(min_size=1), title=st.text(), description=st.text())
def test_a_picture_is_xml_whatever_its_texts_are(name: str, title: str, description: str) -> None:
    steps = [Step(name, tool="fetch", arguments={"order_id": constant(title)})]
    drawn = svg(graph(name=name, title=title, description=description, steps=steps, arguments=[]))

    root = parsed(drawn)
    assert {element.tag for element in root.iter()} <= {
        SVG + tag for tag in ("svg", "title", "desc", "style", "rect", "text", "g", "path", "circle")
    }
    assert not any(key.startswith("on") or "href" in key for element in root.iter() for key in element.attrib)


def test_a_picture_says_everything_in_words_and_shows_it() -> None:
    root = parsed(svg(graph(title="Refund & more")))
    shown = [text.text for text in root.iter(f"{SVG}text")]

    title, description = root[0], root[1]
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    assert (root.get("role"), title.text) == ("img", "Refund & more: the flow of its data")
    assert description.text is not None
    for sentence in (
        "Step 3, refund, calls refund.",
        "Pauses for approved_by.",
        "output fetch.email goes into to of mail.",
        "argument order_id goes into a text in text of mail.",
        "task variable desk goes into sender of mail.",
    ):
        assert sentence in description.text
    for text in ("fetch()", "to ← order.email", "{topic} ← order.kind", "pauses for approved_by", 'default "en"'):
        assert text in shown


def test_a_picture_has_colours_for_the_dark_and_asks_nobody_for_anything() -> None:
    drawn = svg(graph())

    assert "@media(prefers-color-scheme:dark)" in drawn
    assert re.findall(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", drawn) == []


def test_what_is_too_long_for_its_box_is_cut_there_and_whole_in_the_tooltip() -> None:
    long = "x" * 200
    root = parsed(svg(graph(steps=[Step("one", tool="fetch", arguments={"order_id": constant(long)})])))

    [cut] = [text.text for text in root.iter(f"{SVG}text") if "xxx" in (text.text or "")]
    assert re.fullmatch('order_id = "x+…', cut or "")
    assert any(long in (title.text or "") for title in root.iter(f"{SVG}title"))


type Made = tuple[dict[str, Size], dict[str, Size], list[tuple[str, str]]]
"""What comes before the steps, the steps, and what leads to what."""


@st.composite
def graphs(draw: st.DrawFn) -> Made:
    sizes = st.builds(Size, st.floats(60, 344), st.floats(40, 200))
    heads = {f"head {number}": draw(sizes) for number in range(draw(st.integers(0, 6)))}
    steps = {f"step {number}": draw(sizes) for number in range(draw(st.integers(1, 14)))}
    names = [*heads, *steps]
    edges = [
        (names[source], names[target])
        for target in range(len(heads), len(names))
        for source in draw(st.sets(st.integers(0, max(target - 1, 0)), max_size=4))
        if source < target
    ]
    return heads, steps, edges


def covers(one: Any, other: Any) -> bool:
    return bool(
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
    )


def crossed(line: Line, boxes: Mapping[str, Any]) -> list[str]:
    """The boxes that a line goes through: between two points it keeps within the rectangle whose corners they are."""
    points = line.points
    found = []
    for number, ((x, y), (to_x, to_y)) in enumerate(pairwise(points)):
        for name, box in boxes.items():
            beside = max(x, to_x) < box.x or min(x, to_x) > box.x + box.width
            apart = to_y <= box.y + 0.01 or y >= box.y + box.height - 0.01
            if not beside and not apart and not (number == 0 and name == line.source):
                found.append(name)
    return found


@given(graphs())
def test_boxes_stand_in_the_order_of_the_steps_none_covers_another_and_no_line_crosses_one(made: Made) -> None:
    heads, steps, edges = made

    placing: Placing = placed(heads, steps, edges)

    boxes = placing.boxes
    assert sorted(steps, key=lambda name: (boxes[name].y, boxes[name].x)) == list(steps)
    assert all(boxes[source].y < boxes[target].y for source, target in edges)
    assert set(boxes) == {*heads, *steps}
    assert [pair for pair in combinations(boxes, 2) if covers(*(boxes[name] for name in pair))] == []
    assert {(line.source, line.target): crossed(line, boxes) for line in placing.lines} == {
        edge: [] for edge in dict.fromkeys(edges)
    }
    for box in boxes.values():
        assert -0.01 <= box.x <= placing.width - box.width + 0.01
        assert -0.01 <= box.y <= placing.height - box.height + 0.01


def test_steps_without_data_between_them_share_a_row_while_there_is_room() -> None:
    steps = {str(number): Size(200, 50) for number in range(7)}

    boxes = placed({}, steps, []).boxes

    rows = [sum(box.y == y for box in boxes.values()) for y in sorted({box.y for box in boxes.values()})]
    assert rows == [4, 3]
    assert max(box.x + box.width for box in boxes.values()) <= ROW_WIDTH


def test_a_line_that_passes_a_row_goes_by_on_its_own_side() -> None:
    steps = {name: Size(200 if name != "between" else 1000, 50) for name in ("left", "right", "between", "end")}
    edges = [("left", "between"), ("left", "end"), ("right", "between"), ("right", "end")]

    placing = placed({}, steps, edges)

    passing = {line.source: line.points[2][0] for line in placing.lines if line.target == "end"}
    between = placing.boxes["between"]
    assert passing["left"] < between.x < between.x + between.width < passing["right"]
