"""The code blocks of Markdown pages.

Readers do not see comments. Two kinds of comments before a block have a meaning:

- `<!-- not run: REASON -->`: the block is only parsed. The names of commands, options and targets are still checked.
  The reason is the test that runs it, or what it needs.
- `<!-- before: CODE -->`: Python that is run first.

The Python blocks of a page are one program. A block with `title="FILE"` becomes that file, which other blocks import.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    *(
        ROOT / name
        for name in (
            "README.md",
            "ARCHITECTURE.md",
            "CONTRIBUTING.md",
            "SECURITY.md",
            "RELEASING.md",
            "events/README.md",
        )
    ),
    ROOT / "tests" / "simulation" / "README.md",
    ROOT / "tests" / "smoke" / "README.md",
    ROOT / "tests" / "frameworks" / "README.md",
    ROOT / "costs" / "expensive.md",
    ROOT / "costs" / "workflows.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[a-z]*)(?: (?P<options>.*))?$")
_COMMENT = re.compile(r"<!--\s*(?P<kind>not run|before):\s*(?P<text>.*?)\s*-->", re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True)
class Block:
    """One code block.

    Attributes:
        page: The path of the page, relative to the repository.
        line: The number of the first line of code, from 1.
        title: The file that the block becomes.
        before: Code to run first.
        not_run: Why the block cannot be run; `None` if it can.
    """

    page: str
    line: int
    language: str
    code: str
    title: str | None = None
    before: str = ""
    not_run: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> list[Block]:
    return list(_blocks(str(page.relative_to(ROOT)), page.read_text().splitlines()))


def _blocks(page: str, lines: list[str]) -> Iterator[Block]:
    comment, number = "", 0
    while number < len(lines):
        opening = _FENCE.match(lines[number])
        if opening is None:
            # A comment applies to the block right after it.
            comment = (
                comment + lines[number] + "\n" if "<!--" in comment + lines[number] or not lines[number].strip() else ""
            )
            comment = "" if "-->" in comment and comment.rpartition("-->")[2].strip() else comment
            number += 1
            continue
        fence = opening["indent"] + "```"
        end = next((index for index in range(number + 1, len(lines)) if lines[index] == fence), None)
        if end is None:
            raise ValueError(f"{page}:{number + 1}: the code block does not end")
        code = "\n".join(line.removeprefix(opening["indent"]) for line in lines[number + 1 : end])
        notes = {match["kind"]: match["text"] for match in _COMMENT.finditer(comment)}
        title = _TITLE.search(opening["options"] or "")
        yield Block(
            page,
            number + 2,
            opening["language"],
            code + "\n",
            title and title[1],
            notes.get("before", ""),
            notes.get("not run"),
        )
        comment, number = "", end + 1
