"""The code blocks of a Markdown page, and what the comment before one says of it.

A comment is not shown, neither on the site nor on a Git host. Two kinds mean something before a block:

- `<!-- not run: REASON -->`: the test looks at how the block is written and no further. Of a shell's lines it
  looks at the commands, options and targets that they name.
- `<!-- before: CODE -->`: Python that is run first: what the reader knows from elsewhere.

A page's Python blocks are one program, in their order; a block with `title="FILE"` is that file, which others import.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "RELEASING.md", "events/README.md")),
    ROOT / "tests" / "simulation" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
_OPENS = re.compile(r"^(?P<indent> *)```(?P<language>[a-z]*)(?: (?P<options>.*))?$")
_COMMENT = re.compile(r"<!--\s*(?P<kind>not run|before):\s*(?P<text>.*?)\s*-->", re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True)
class Block:
    """One code block.

    Attributes:
        page: Relative to the repository.
        line: That of its first line of code, from 1.
        language: As the fence says it; empty where it says none.
        code: Without the fence and its indentation.
        title: The file that it is, if it is one.
        before: Code to run first.
        not_run: Why it cannot be run; `None` where it can.
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
        """Where it is, for messages."""
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The page's blocks, in order; a `ValueError` for a fence that does not end."""
    return list(_blocks(str(page.relative_to(ROOT)), page.read_text().splitlines()))


def _blocks(page: str, lines: list[str]) -> Iterator[Block]:
    said, number = "", 0
    while number < len(lines):
        opens = _OPENS.match(lines[number])
        if opens is None:
            # What a comment says holds for the block right after it.
            said = said + lines[number] + "\n" if "<!--" in said + lines[number] or not lines[number].strip() else ""
            said = "" if "-->" in said and said.rpartition("-->")[2].strip() else said
            number += 1
            continue
        fence = opens["indent"] + "```"
        end = next((at for at in range(number + 1, len(lines)) if lines[at] == fence), None)
        if end is None:
            raise ValueError(f"{page}:{number + 1}: the code block does not end")
        code = "\n".join(line.removeprefix(opens["indent"]) for line in lines[number + 1 : end])
        notes = {match["kind"]: match["text"] for match in _COMMENT.finditer(said)}
        title = _TITLE.search(opens["options"] or "")
        yield Block(
            page,
            number + 2,
            opens["language"],
            code + "\n",
            title and title[1],
            notes.get("before", ""),
            notes.get("not run"),
        )
        said, number = "", end + 1
