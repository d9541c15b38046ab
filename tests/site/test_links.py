"""Every link of every page has a target: a file of the repository, a heading of a page, or an address.

`make docs` checks the links between the pages of docs/. These tests also check links from the README and other pages
outside docs/, and links to files of the repository.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.site.blocks import PAGES, ROOT
from tests.site.cited import CITATION, headings, resolve_citation

CODE = ("layers", "functions", "examples", "benchmarks", "costs", "emulators", "tests")
EXCLUDED_FOLDERS = {".venv", ".layers", "node_modules"}


def sources() -> Iterator[Path]:
    for folder in CODE:
        for path, folders, files in (ROOT / folder).walk():
            folders[:] = {*folders} - EXCLUDED_FOLDERS
            yield from (path / file for file in files if file.endswith(".py"))


def text_of(page: Path) -> str:
    return re.sub(r"^ *```.*?^ *```|`[^`\n]+`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def dead_links(page: Path) -> list[str]:
    """Return the page's links to missing files or headings."""
    links = re.findall(r"\]\(([^)\s]+)\)", text_of(page))
    return [link for link in links if "://" not in link and not link.startswith("mailto:") and not is_valid(page, link)]


def is_valid(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    if not target.exists():
        return False
    is_generated = anchor.startswith("mcp_baton.") and f"::: {anchor}\n" in target.read_text()
    return not anchor or is_generated or anchor in headings(target).values()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_has_a_target(page: Path) -> None:
    assert dead_links(page) == []


def test_every_citation_in_the_code_has_a_target() -> None:
    mistakes = []
    for file in sources():
        for match in CITATION.finditer(re.sub(r"\n\s*#? ?", " ", file.read_text())):
            try:
                resolve_citation(match)
            except ValueError as error:
                mistakes.append(f"{file.relative_to(ROOT)}: {error}")

    assert mistakes == []
