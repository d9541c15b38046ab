"""What the reference makes of the code besides what Griffe does (https://mkdocstrings.github.io/griffe/).

`mcp_baton.light_dataclasses` stands for the standard library's decorator, which Griffe knows by name. And docstrings cite
pages as `docs/workflows.md, As a tool`: the reference links there. A page or heading that is not there stops the build.
"""

import re
from pathlib import Path
from typing import Any

import griffe

DOCS = Path(__file__).parents[2] / "docs"
_LIGHT, _STANDARD = "mcp_baton.light_dataclasses.dataclass", "dataclasses.dataclass"
CITED = re.compile(r"docs/(?P<page>[a-z-]+)\.md(?:,\s+(?P<after>[A-Z][^().]*))?")


class Reference(griffe.Extension):
    """The two changes."""

    def on_alias_instance(self, *, alias: griffe.Alias, **_: Any) -> None:
        """See the standard library's decorator in ours."""
        if alias.target_path == _LIGHT:
            alias.target_path = _STANDARD

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Link what the docstring cites."""
        if obj.docstring is not None:
            obj.docstring.value = CITED.sub(_linked, obj.docstring.value)


def headings(page: Path) -> dict[str, str]:
    """A page's headings, and the anchors that they have on the site."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found = [title.strip() for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    return {title: re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in found}


def cited(match: re.Match[str]) -> tuple[str, str | None]:
    """The page that a citation means, and the heading, which may be cited by its first words; a `ValueError` if none."""
    page, said = DOCS / f"{match['page']}.md", " ".join((match["after"] or "").split())
    if not page.exists():
        raise ValueError(f"{match[0]!r} is cited, and there is no such page")
    if not said:
        return page.stem, None
    found = [heading for heading in headings(page) if said.startswith(heading) or heading.startswith(said)]
    if not found:
        raise ValueError(f"{match[0]!r} is cited, and the page has no such heading")
    return page.stem, max(found, key=len)


def _linked(match: re.Match[str]) -> str:
    page, heading = cited(match)
    known = headings(DOCS / f"{page}.md")
    if heading is None:
        return f"[{next(iter(known))}](../{page}.md)"
    rest = " ".join(match["after"].split())[len(heading) :]
    return f"[{heading}](../{page}.md#{known[heading]}){rest}"
