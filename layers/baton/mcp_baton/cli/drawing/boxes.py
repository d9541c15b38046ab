"""What stands in a box of the picture, row by row, and how large the box is for it. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from mcp_baton.cli.drawing.flow import Node
from mcp_baton.cli.drawing.lettering import cut, escaped, flat, width
from mcp_baton.cli.drawing.placing import Box, Size

PADDING: Final = 14.0
LEAST: Final = 150.0
MOST: Final = 344.0
"""The width of a box with a long text in it; the text is cut."""

type Look = Literal["name", "call", "input", "note", "pause", "argument"]

_SIZES: Final[dict[Look, tuple[float, bool, float]]] = {
    "name": (15.0, False, 25.0),
    "call": (12.0, True, 18.0),
    "input": (12.0, True, 18.0),
    "note": (12.0, False, 17.0),
    "pause": (12.0, False, 24.0),
    "argument": (13.0, True, 19.0),
}
"""The size of the font, whether all its characters have the same width, and the height of the row."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a box.

    Attributes:
        look: How it is written.
        text: What is written.
        y: Where the row begins, from the box's upper edge.
        badge: What stands in the circle before it.
    """

    look: Look
    text: str
    y: float
    badge: str = ""

    @property
    def indent(self) -> float:
        """Where its text begins, from the box's left edge."""
        return PADDING + {"name": 28.0 if self.badge else 0.0, "pause": 20.0}.get(self.look, 0.0)

    @property
    def wanted(self) -> float:
        """The width of the box in which the row fits as it is."""
        size, mono, _ = _SIZES[self.look]
        return self.indent + width(self.text, size, mono=mono) + PADDING

    def drawn(self, box: Box) -> Iterator[str]:
        """The row as SVG, in its box."""
        size, mono, height = _SIZES[self.look]
        top = box.y + self.y
        base = top + height / 2 + size * 0.35
        text = self.text
        if self.wanted > MOST:
            text = cut(text, size, box.width - self.indent - PADDING, mono=mono)
        if self.badge:
            yield f'<circle class="badge" cx="{box.x + PADDING + 9:.1f}" cy="{top + height / 2:.1f}" r="10"/>'
            yield (
                f'<text class="number" x="{box.x + PADDING + 9:.1f}" y="{top + height / 2 + 4:.1f}">{self.badge}</text>'
            )
        if self.look == "pause":
            yield (
                f'<rect class="pause" x="{box.x + 6:.1f}" y="{top + 2:.1f}" width="{box.width - 12:.1f}" '
                f'height="{height - 4:.1f}" rx="4"/>'
            )
            bars = f"M{box.x + PADDING + 2:.1f} {top + 7:.1f}v10m5 -10v10"
            yield f'<path class="bars" d="{bars}"/>'
        yield f'<text class="{self.look}" x="{box.x + self.indent:.1f}" y="{base:.1f}">{escaped(text)}</text>'


def head_rows(node: Node) -> Iterator[Row]:
    """The rows of a prompt argument or a task variable."""
    yield Row("argument", flat(node.name), 7.0)
    yield Row("note", flat(", ".join(node.notes)), 26.0)


def step_rows(node: Node) -> Iterator[Row]:
    """The rows of a step."""
    y = 10.0
    for look, text in _texts(node):
        badge = str(node.number) if look == "name" else ""
        yield Row(look, flat(text), y, badge)
        y += _SIZES[look][2]


def _texts(node: Node) -> Iterator[tuple[Look, str]]:
    yield "name", node.name
    if node.tool:
        yield "call", f"{node.tool}()"
    yield from (("call", f"reads {uri}") for uri in node.resources)
    for item in node.inputs:
        name = item.name if item.of == "tool" else f"{{{item.name}}}"
        yield "input", f"{name} {'=' if item.constant else '←'} {item.text}"
    yield from (("note", note) for note in node.notes)
    yield from (("pause", pause.text) for pause in node.pauses)


def size_of(node: Node, rows: Sequence[Row]) -> Size:
    """The size of a box with these rows."""
    least = LEAST if node.kind == "step" else 0.0
    wide = min(max(least, *(row.wanted for row in rows)), MOST)
    last = rows[-1]
    return Size(wide, last.y + _SIZES[last.look][2] + (10.0 if node.kind == "step" else 7.0))
