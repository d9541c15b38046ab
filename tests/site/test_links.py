"""Every link of every page has a target: a file of the repository, a heading of a page, or an address.

`make docs` checks the links between the pages of docs/. These tests also check links from the README and other pages
outside docs/, and links to files of the repository.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.site.blocks import PAGES, ROOT
from tests.site.cited import CITED, cited, headings

CODE = ("layers", "functions", "examples", "benchmarks", "costs", "emulators", "tests")
NOT_OURS = {".venv", ".layers", "node_modules"}


def sources() -> Iterator[Path]:
    for folder in CODE:
        for path, folders, files in (ROOT / folder).walk():
            folders[:] = {*folders} - NOT_OURS
            yield from (path / file for file in files if file.endswith(".py"))


def text_of(page: Path) -> str:
    return re.sub(r"^ *```.*?^ *```|`[^`\n]+`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def dead_links(page: Path) -> list[str]:
    """Return the page's links to missing files or headings."""
    links = re.findall(r"\]\(([^)\s]+)\)", text_of(page))
    return [link for link in links if "://" not in link and not link.startswith("mailto:") and not lives(page, link)]


def lives(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    if not target.exists():
        return False
    generated = anchor.startswith("mcp_baton.") and f"::: {anchor}\n" in target.read_text()
    return not anchor or generated or anchor in headings(target).values()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_has_a_target(page: Path) -> None:
    assert dead_links(page) == []


def test_every_citation_in_the_code_has_a_target() -> None:
    wrong = []
    for file in sources():
        for match in CITED.finditer(re.sub(r"\n\s*#? ?", " ", file.read_text())):
            try:
                cited(match)
            except ValueError as error:
                wrong.append(f"{file.relative_to(ROOT)}: {error}")

    assert wrong == []
