"""Where the boxes and lines of a graph stand: rows from top to bottom, each read from left to right. Pure.

Steps keep their order: none stands above one that runs before it, nor to its left in the same row. Steps without data
between them share a row while there is room. A line that passes a row has a place in it, as boxes have, so that it
crosses none.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

ROW_WIDTH: Final = 1120.0
"""Units that the boxes of one row may take together, if there are several."""
GAP: Final = 36.0
"""Units between two boxes of a row."""
LANE: Final = 14.0
"""Units that a passing line takes in a row."""
BETWEEN_ROWS: Final = 64.0
SWEEPS: Final = 7


@dataclass(frozen=True, slots=True)
class Size:
    """What a box takes, in units of the picture."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Box:
    """A placed box: its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """Its horizontal middle."""
        return self.x + self.width / 2


@dataclass(frozen=True, slots=True)
class Line:
    """A line from box to box, by the points at which it enters and leaves each row."""

    source: str
    target: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Placing:
    """The whole picture, which begins at 0, 0."""

    boxes: Mapping[str, Box]
    lines: tuple[Line, ...]
    width: float
    height: float


type Lane = tuple[str, int]
"""The box that a line comes from, and the row that it passes."""
type Item = str | Lane


def placed(heads: Mapping[str, Size], steps: Mapping[str, Size], edges: Iterable[tuple[str, str]]) -> Placing:
    """Place a graph.

    Args:
        heads: The boxes that stand on top, by id, in their order.
        steps: The others, in the order of execution.
        edges: From which box to which step. Each leads to a later one.
    """
    pairs = list(dict.fromkeys(edges))
    sizes = {**heads, **steps}
    row_of = _rows(heads, steps, pairs)
    rows: list[list[Item]] = [[] for _ in range(max(row_of.values(), default=-1) + 1)]
    for box, row in row_of.items():
        rows[row].append(box)
    lanes = [
        (source, row)
        for source in sizes
        for row in range(row_of[source] + 1, max((row_of[to] for of, to in pairs if of == source), default=0))
    ]
    middles = _middles(rows, lanes, sizes, row_of, pairs)
    return _drawn(rows, sizes, row_of, middles, pairs)


def _rows(heads: Mapping[str, Size], steps: Mapping[str, Size], pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The row of each box, from 0."""
    row_of: dict[str, int] = {}
    row, used = 0, 0.0
    for box, size in heads.items():
        if used and used + size.width > ROW_WIDTH:
            row, used = row + 1, 0.0
        row_of[box] = row
        used += size.width + GAP
    row, used = (row + 1, 0.0) if heads else (0, 0.0)
    for box, size in steps.items():
        after = max((row_of[source] + 1 for source, target in pairs if target == box), default=0)
        full = bool(used) and used + size.width > ROW_WIDTH
        wanted = max(row + full, after)
        if wanted > row:
            row, used = wanted, 0.0
        row_of[box] = row
        used += size.width + GAP
    return row_of


def _neighbours(
    row_of: Mapping[str, int], pairs: Sequence[tuple[str, str]]
) -> tuple[dict[Item, list[Item]], dict[Item, list[Item]]]:
    """What each item is joined to in the row above, and in the row below."""
    above: dict[Item, list[Item]] = {}
    below: dict[Item, list[Item]] = {}
    for source, target in pairs:
        way: list[Item] = [source, *((source, row) for row in range(row_of[source] + 1, row_of[target])), target]
        for one, other in pairwise(way):
            if one not in above.setdefault(other, []):
                above[other].append(one)
                below.setdefault(one, []).append(other)
    return above, below


def _middles(
    rows: list[list[Item]],
    lanes: Sequence[Lane],
    sizes: Mapping[str, Size],
    row_of: Mapping[str, int],
    pairs: Sequence[tuple[str, str]],
) -> dict[Item, float]:
    """The horizontal middle of each item, near what it is joined to. Puts the lanes into their rows."""
    above, below = _neighbours(row_of, pairs)
    middles: dict[Item, float] = {}
    for row in rows:
        middles |= _spread(row, dict.fromkeys(row, 0.0), sizes)
    for lane in lanes:
        middles[lane] = middles[lane[0]]
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for number in range(len(rows)) if down else reversed(range(len(rows))):
            joined = above if down else below
            boxes = [item for item in rows[number] if isinstance(item, str)]
            passing = [lane for lane in lanes if lane[1] == number]
            wish: dict[Item, float] = {box: _mean(joined.get(box, []), middles, middles[box]) for box in boxes}
            wish |= {lane: _mean([*above[lane], *below[lane]], middles, 0.0) for lane in passing}
            rows[number][:] = _ordered(boxes, passing, wish, _spread(boxes, wish, sizes))
            middles |= _spread(rows[number], wish, sizes)
    return middles


def _mean(joined: Sequence[Item], middles: Mapping[Item, float], otherwise: float) -> float:
    return sum(middles[item] for item in joined) / len(joined) if joined else otherwise


def _ordered(
    boxes: Sequence[str], passing: Sequence[Lane], wish: Mapping[Item, float], alone: Mapping[Item, float]
) -> list[Item]:
    """A row from left to right: boxes keep their order, and a line passes between those that it comes nearest to."""
    ordered: list[Item] = list(boxes)
    for lane in sorted(passing, key=lambda lane: wish[lane]):
        at = sum(1 for box in boxes if alone[box] < wish[lane])
        place = ordered.index(boxes[at]) if at < len(boxes) else len(ordered)
        ordered.insert(place, lane)
    return ordered


def _width(item: Item, sizes: Mapping[str, Size]) -> float:
    return sizes[item].width if isinstance(item, str) else LANE


def _spread(row: Sequence[Item], wish: Mapping[Item, float], sizes: Mapping[str, Size]) -> dict[Item, float]:
    """Middles as near to those wished for as the items' order and widths allow: the least sum of squares.

    Without the widths this is an isotonic regression, made by pooling neighbours that are in each other's way.
    """
    offsets = [0.0]
    for one, other in pairwise(row):
        space = GAP if isinstance(one, str) and isinstance(other, str) else GAP / 2
        offsets.append(offsets[-1] + (_width(one, sizes) + _width(other, sizes)) / 2 + space)
    pools: list[tuple[float, int]] = []
    for item, offset in zip(row, offsets, strict=False):
        pools.append((wish[item] - offset, 1))
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            (first, count), (second, more) = pools[-2:]
            pools[-2:] = [((first * count + second * more) / (count + more), count + more)]
    shifts = [shift for shift, count in pools for _ in range(count)]
    return {item: shift + offset for item, shift, offset in zip(row, shifts, offsets, strict=False)}


def _drawn(
    rows: Sequence[Sequence[Item]],
    sizes: Mapping[str, Size],
    row_of: Mapping[str, int],
    middles: Mapping[Item, float],
    pairs: Sequence[tuple[str, str]],
) -> Placing:
    """Boxes and lines with their places, moved so that the picture begins at 0, 0."""
    items = [item for row in rows for item in row]
    left = min((middles[item] - _width(item, sizes) / 2 for item in items), default=0.0)
    right = max((middles[item] + _width(item, sizes) / 2 for item in items), default=0.0)
    tops, y = [0.0], 0.0
    for members in rows:
        y += max((sizes[item].height for item in members if isinstance(item, str)), default=0.0) + BETWEEN_ROWS
        tops.append(y)
    boxes = {
        box: Box(middles[box] - size.width / 2 - left, tops[row_of[box]], size.width, size.height)
        for box, size in sizes.items()
    }
    ports = _ports(boxes, row_of, middles, pairs, left)
    lines = []
    for source, target in pairs:
        start = boxes[source]
        points = [(start.middle, start.y + start.height), (start.middle, tops[row_of[source] + 1] - BETWEEN_ROWS)]
        for row in range(row_of[source] + 1, row_of[target]):
            x = middles[source, row] - left
            points += [(x, tops[row]), (x, tops[row + 1] - BETWEEN_ROWS)]
        points.append((ports[source, target], boxes[target].y))
        lines.append(Line(source, target, tuple(points)))
    return Placing(boxes, tuple(lines), right - left, max(y - BETWEEN_ROWS, 0.0))


def _ports(
    boxes: Mapping[str, Box],
    row_of: Mapping[str, int],
    middles: Mapping[Item, float],
    pairs: Sequence[tuple[str, str]],
    left: float,
) -> dict[tuple[str, str], float]:
    """Where each line meets its step's upper edge: side by side, in the order in which they arrive."""

    def arrives(source: str, target: str) -> float:
        last: Item = source if row_of[target] == row_of[source] + 1 else (source, row_of[target] - 1)
        return middles[last] - left

    ports = {}
    for target in dict.fromkeys(target for _, target in pairs):
        sources = sorted((of for of, to in pairs if to == target), key=lambda source: arrives(source, target))
        box = boxes[target]
        for number, source in enumerate(sources, 1):
            ports[source, target] = box.x + box.width * number / (len(sources) + 1)
    return ports
