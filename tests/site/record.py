"""Records the demo's first workflow as an animated SVG: `make record` writes docs/images/demo.svg from a real run.

Values that change from run to run (the port, the task's id, the seconds) are those of the recorded run.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from xml.etree import ElementTree

from rich.color import ColorType
from rich.console import Console
from rich.style import Style
from rich.text import Text

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "images" / "demo.svg"
COLUMNS, ROWS = 100, 32
_WIDTH, _HEIGHT, _MARGIN = 7.2, 17, 14
_LINE_S, _CHAPTER_S, _FIRST_S, _LAST_S = 0.25, 2.5, 5.0, 8.0
_COLOURS = {1: "#ff7b72", 2: "#7ee787", 3: "#e3b341", 4: "#79c0ff", 5: "#d2a8ff", 6: "#56d4dd"}
_PLAIN, _DIM, _BACKGROUND = "#e6edf3", "#8b949e", "#0d1117"
_FONT = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace'
_TITLE = "The demo: a refund runs until it needs an approval, pauses, is continued by tool calls, and completes"
_CONSOLE = Console(width=COLUMNS, force_terminal=True)
_CHAPTERS = " 1 · ", " 5 · "
_REPLACEMENTS = [
    (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    (r"\b01[a-z0-9]{35}\b", "TASK"),
    (r"\b[0-9a-f]{50,64}\b", "APPROVAL"),
    (r"\d+\.\d\d s\b", "N s"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
]


def run() -> str:
    """Return the demo's output on a terminal, with colours."""
    command, colours = [sys.executable, str(ROOT / "examples" / "demo.py")], {**os.environ, "FORCE_COLOR": "1"}
    colours.pop("NO_COLOR", None)
    return subprocess.run(command, env=colours, capture_output=True, text=True, check=True, timeout=120).stdout


def first_workflow(output: str) -> list[Text]:
    """Return the first line and the lines of the first workflow."""
    lines = list(Text.from_ansi(output).split("\n"))
    begin, end = (
        next(number for number, line in enumerate(lines) if line.plain.startswith(title)) for title in _CHAPTERS
    )
    while not lines[end - 1].plain.strip():
        end -= 1
    return [lines[0], Text(), *lines[begin:end]]


def words(text: str) -> list[str]:
    """Return the words without frames. Words that differ between runs are replaced."""
    for pattern, replacement in _REPLACEMENTS:
        text = re.sub(pattern, replacement, text)
    line = " ".join(re.sub("[│─╭╮╰╯]", " ", text).split())
    # Moments and durations, which are shortened if they are long.
    return re.sub(r"(mcp-baton/timings) .*? characters\)", r"\1", line).split()


def picture_words(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)  # noqa: S314 - our own picture
    rows = root.findall(".//{http://www.w3.org/2000/svg}text")
    return words("\n".join("".join(row.itertext()) for row in rows))


def picture(lines: list[Text]) -> str:
    """Return the SVG: a window of `ROWS` lines that moves down to the last line and starts again."""
    width, height = COLUMNS * _WIDTH + 2 * _MARGIN, ROWS * _HEIGHT + 2 * _MARGIN
    rows = "\n".join(
        f'<text y="{(number + 0.75) * _HEIGHT:g}">{"".join(_runs(line))}</text>' for number, line in enumerate(lines)
    )
    moments = _moments(lines)
    total = moments[-1] + _LAST_S
    colours = " ".join(f".c{number} {{ fill: {colour} }}" for number, colour in _COLOURS.items())
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img"
 aria-labelledby="title"><title id="title">{_TITLE}</title>
<style>
text {{ font: 12px {_FONT}; fill: {_PLAIN}; white-space: pre }}
.b {{ font-weight: 600 }} .d {{ fill: {_DIM} }} {colours}
@media (prefers-reduced-motion: no-preference) {{ .all {{ animation: follow {total:g}s step-end infinite }}
@keyframes follow {{ {" ".join(_keyframes(moments, total))} }} }}
</style>
<rect width="{width:g}" height="{height:g}" rx="8" fill="{_BACKGROUND}"/>
<svg x="{_MARGIN}" y="{_MARGIN}" width="{COLUMNS * _WIDTH:g}" height="{ROWS * _HEIGHT}"><g class="all">
{rows}
</g></svg>
</svg>
"""


def _runs(line: Text) -> Iterator[str]:
    """Yield the parts of a line that have one style, with their positions."""
    column = 0
    for segment in line.render(_CONSOLE):
        if segment.text.strip():
            blank = len(segment.text) - len(segment.text.lstrip())
            text = segment.text.strip()
            position = f'x="{(column + blank) * _WIDTH:g}" textLength="{len(text) * _WIDTH:g}"'
            yield f"<tspan {position}{_classes(segment.style)}>{escape(text, quote=False)}</tspan> "
        column += len(segment.text)


def _classes(style: Style | None) -> str:
    if style is None:
        return ""
    classes = ["b"] * bool(style.bold) + ["d"] * bool(style.dim)
    if style.color is not None and style.color.type is ColorType.STANDARD and style.color.number in _COLOURS:
        classes.append(f"c{style.color.number}")
    return f' class="{" ".join(classes)}"' if classes else ""


def _moments(lines: list[Text]) -> list[float]:
    """Return the second at which the window reaches each line, from the last line of the first window on."""
    moment, moments = _FIRST_S, []
    for line in lines[ROWS:]:
        moment += _CHAPTER_S if re.match(r" \d · ", line.plain) else _LINE_S
        moments.append(moment)
    return moments


def _keyframes(moments: list[float], total: float) -> Iterator[str]:
    yield "0% { transform: translateY(0) }"
    for number, moment in enumerate(moments, 1):
        yield f"{moment / total:.2%} {{ transform: translateY({-number * _HEIGHT}px) }}"


if __name__ == "__main__":
    PICTURE.write_text(picture(first_workflow(run())))
