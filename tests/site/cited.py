"""Citations of pages in docstrings and comments, such as `docs/workflows.md, As a tool`."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CITATION = re.compile(r"(?P<page>docs/[a-z-]+|ARCHITECTURE)\.md(?:,\s+(?P<after>[A-Z][^().]*))?")


def headings(page: Path) -> dict[str, str]:
    """Return a page's headings with their anchors on the site."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = [title.strip() for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    return {title: re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


def resolve_citation(match: re.Match[str]) -> tuple[str, str | None]:
    """Return the page and the heading of a citation. The first words of a heading are enough."""
    page, title = ROOT / f"{match['page']}.md", " ".join((match["after"] or "").split())
    if not page.exists():
        raise ValueError(f"{match[0]!r} is cited, but this page does not exist")
    if not title:
        return page.stem, None
    matches = [heading for heading in headings(page) if title.startswith(heading) or heading.startswith(title)]
    if not matches:
        raise ValueError(f"{match[0]!r} is cited, but the page has no such heading")
    return page.stem, max(matches, key=len)
