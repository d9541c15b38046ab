"""What docstrings and comments cite of the pages: `docs/workflows.md, As a tool`."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
CITED = re.compile(r"docs/(?P<page>[a-z-]+)\.md(?:,\s+(?P<after>[A-Z][^().]*))?")


def headings(page: Path) -> dict[str, str]:
    """A page's headings, and the anchors that they have on the site."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found = [title.strip() for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    return {title: re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in found}


def cited(match: re.Match[str]) -> tuple[str, str | None]:
    """The page that a citation means, and the heading, by its first words at least; a `ValueError` if there is none."""
    page, said = DOCS / f"{match['page']}.md", " ".join((match["after"] or "").split())
    if not page.exists():
        raise ValueError(f"{match[0]!r} is cited, and there is no such page")
    if not said:
        return page.stem, None
    found = [heading for heading in headings(page) if said.startswith(heading) or heading.startswith(said)]
    if not found:
        raise ValueError(f"{match[0]!r} is cited, and the page has no such heading")
    return page.stem, max(found, key=len)
