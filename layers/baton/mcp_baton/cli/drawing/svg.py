"""A graph as an SVG picture: one file, for light and dark, with everything in words for who cannot see it. Pure.

What is longer than its box is cut there, and whole in the tooltip and in the description.
"""

import re
from collections.abc import Iterator
from typing import Final

from mcp_baton.cli.drawing.boxes import Row, head_rows, size_of, step_rows
from mcp_baton.cli.drawing.flow import ANY_STEP, Edge, Graph, Node
from mcp_baton.cli.drawing.lettering import cut, escaped, flat, width
from mcp_baton.cli.drawing.placing import Box, Line, Placing, placed
from mcp_baton.cli.drawing.style import STYLE

MARGIN: Final = 28.0
HEADER: Final = 84.0
FOOTER: Final = 46.0
LEAST_WIDTH: Final = 560.0
DOT: Final = " · "
HEAD: Final = 6.0
"""How far before its end a line goes over into its arrow's head."""


def svg(graph: Graph) -> str:
    """The picture as text that ends with a line break."""
    rows = {node.id: list(step_rows(node) if node.kind == "step" else head_rows(node)) for node in graph.nodes}
    sizes = {node.id: size_of(node, rows[node.id]) for node in graph.nodes}
    heads = {node.id: sizes[node.id] for node in graph.nodes if node.kind != "step"}
    steps = {node.id: sizes[node.id] for node in graph.nodes if node.kind == "step"}
    placing = placed(heads, steps, ((edge.source, edge.target) for edge in graph.edges))
    return "\n".join(_document(graph, placing, rows)) + "\n"


def _document(graph: Graph, placing: Placing, rows: dict[str, list[Row]]) -> Iterator[str]:
    notes = DOT.join(graph.notes)
    said = [
        width(flat(graph.title), 20),
        width(f"I want to {flat(graph.description)}", 14),
        width(notes, 12),
        width(ANY_STEP, 12),
        LEAST_WIDTH,
        placing.width,
    ]
    wide = min(max(said), max(placing.width, 1120.0)) + 2 * MARGIN
    high = HEADER + placing.height + FOOTER + 2 * MARGIN
    name = re.sub(r"[^A-Za-z0-9_-]", "-", graph.name)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="baton-graph" role="img" viewBox="0 0 {wide:.0f} {high:.0f}" '
        f'width="{wide:.0f}" height="{high:.0f}" aria-labelledby="{name}-title {name}-desc">'
    )
    yield f'<title id="{name}-title">{escaped(graph.title)}: the flow of its data</title>'
    yield f'<desc id="{name}-desc">{escaped(" ".join(_described(graph)))}</desc>'
    yield f"<style>{STYLE}</style>"
    yield f'<rect class="paper" width="{wide:.0f}" height="{high:.0f}"/>'
    most = wide - 2 * MARGIN
    yield _text(MARGIN, MARGIN + 16, "title", cut(flat(graph.title), 20, most))
    yield _text(MARGIN, MARGIN + 38, "said", cut(f"I want to {flat(graph.description)}", 14, most))
    yield _text(MARGIN, MARGIN + 58, "note", cut(notes, 12, most))
    yield f'<g transform="translate({(wide - placing.width) / 2:.1f} {MARGIN + HEADER:.1f})">'
    yield from _lines(graph, placing)
    for node in graph.nodes:
        yield from _box(node, placing.boxes[node.id], rows[node.id])
    yield "</g>"
    below = high - MARGIN
    yield _text(
        MARGIN, below - 18, "note", "Steps run in the order of their numbers; a dashed line is a part of a text."
    )
    yield _text(MARGIN, below, "note", ANY_STEP)
    yield "</svg>"


def _text(x: float, y: float, style: str, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{style}">{escaped(text)}</text>'


def _lines(graph: Graph, placing: Placing) -> Iterator[str]:
    """The lines. What several from one box have in common is drawn once, unbroken where one of them is."""
    told = {
        line: [edge for edge in graph.edges if (edge.source, edge.target) == (line.source, line.target)]
        for line in placing.lines
    }
    drawn: set[tuple[str, str]] = set()
    for line in sorted(told, key=lambda line: all(edge.flow == "text" for edge in told[line])):
        ways = [(line.source, way) for way in _ways(line)]
        yield _line(line, told[line], "".join(way for _, way in ways if (line.source, way) not in drawn))
        drawn.update(ways)


def _ways(line: Line) -> Iterator[str]:
    """A line's pieces: straight ones within rows, where boxes are, and bent ones between them."""
    (x, y), *points = line.points
    for number, (to_x, to_y) in enumerate(points, 1):
        if number % 2:
            yield f"M{x:.1f} {y:.1f}V{to_y:.1f}"
        else:
            end = to_y - (HEAD if number == len(points) else 0.0)
            half = (y + end) / 2
            yield f"M{x:.1f} {y:.1f}C{x:.1f} {half:.1f} {to_x:.1f} {half:.1f} {to_x:.1f} {end:.1f}"
        x, y = to_x, to_y


def _line(line: Line, edges: list[Edge], way: str) -> str:
    x, y = line.points[-1]
    kind = edges[0].source.partition(":")[0]
    dashed = " dashed" if all(edge.flow == "text" for edge in edges) else ""
    told = "; ".join(_told(edge) for edge in edges)
    return (
        f'<g class="from-{kind}{dashed}"><title>{escaped(told)}</title><path class="line" d="{way}"/>'
        f'<path class="head" d="M{x:.1f} {y:.1f}l-4.5 -8h9z"/></g>'
    )


def _box(node: Node, box: Box, rows: list[Row]) -> Iterator[str]:
    radius = 8 if node.kind == "step" else min(box.height / 2, 18)
    yield f'<g class="{node.kind}"><title>{escaped(". ".join(_node_described(node)))}</title>'
    yield (
        f'<rect class="box" x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
        f'rx="{radius:.0f}"/>'
    )
    for row in rows:
        yield from row.drawn(box)
    yield "</g>"


def _described(graph: Graph) -> Iterator[str]:
    """The whole picture in sentences."""
    yield f"I want to {graph.description}. {', '.join(graph.notes).capitalize()}."
    for node in graph.nodes:
        yield f"{'. '.join(_node_described(node))}."
    for edge in graph.edges:
        yield f"{_told(edge)}."
    yield ANY_STEP


def _node_described(node: Node) -> Iterator[str]:
    if node.kind != "step":
        label = "Prompt argument" if node.kind == "argument" else "Task variable"
        yield f"{label} {node.name}: {', '.join(node.notes)}" if node.kind == "argument" else f"{label} {node.name}"
        return
    yield f"Step {node.number}, {node.name}" + (f", calls {node.tool}" if node.tool else "")
    yield from (f"Reads {uri}" for uri in node.resources)
    yield from (f"{item.name} is {item.text}" for item in node.inputs if item.constant)
    yield from (note.capitalize() for note in node.notes)
    yield from (pause.text.capitalize() for pause in node.pauses)


def _told(edge: Edge) -> str:
    """A line in words: `order.email goes into to of notify`."""
    kind, _, name = edge.source.partition(":")
    taken = ".".join(filter(None, (name, edge.path)))
    part = "a text in " if edge.flow == "text" else ""
    label = {"argument": "argument ", "variable": "task variable ", "step": "output "}[kind]
    return f"{label}{taken} goes into {part}{edge.argument} of {edge.target.partition(':')[2]}"
