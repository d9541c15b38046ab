"""What the README and the pages beside it claim, where a test can tell."""

import re
from pathlib import Path

import pytest

from mcp_baton import Server
from mcp_baton.local.loader import load
from mcp_baton.testing import Connect

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "events" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def block(language: str, page: str = README) -> str:
    """A page's first code block in this language; the README's unless another is given."""
    found = re.search(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_server_in_twenty_lines_pauses_with_the_handoff_that_is_shown(tmp_path: Path, baton: Connect) -> None:
    code = block("python")
    file = tmp_path / "readme_server.py"
    file.write_text(code)

    run = baton(load(str(file), Server)).get_prompt("borrow", {"title": "Gathering Moss"})

    assert len([line for line in code.splitlines() if line]) <= 20
    assert run.handoff == block("text").rstrip("\n")
    assert run.pause.missing_fields == ["reader"]
    assert run.steps == {"find": "completed", "lend": "pending"}


def test_the_server_on_the_page_about_tools_registers_what_it_shows(tmp_path: Path, baton: Connect) -> None:
    file = tmp_path / "tools_server.py"
    file.write_text(block("python", (ROOT / "docs" / "tools.md").read_text()))

    server = load(str(file), Server)

    assert list(server.tools) == ["refund", "chart"]
    assert server.tools["refund"].definition["annotations"] == {"destructiveHint": True}
    assert server.tools["chart"].mirrored == {("region",): "mcp-param-region"}
    assert list(server.completions) == [("docs://{topic}", "topic")]
    assert baton(server).get_prompt("greeting", {"name": "Kim"}).messages[1].role == "assistant"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    local = [link for link in links if "://" not in link]

    assert [link for link in local if not (page.parent / link).exists()] == []


def test_the_commands_that_are_named_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE)) <= targets


def test_the_parameters_that_are_named_are_the_templates() -> None:
    template = (ROOT / "template.yaml").read_text()
    rows = re.findall(r"^\| (`[A-Z][A-Za-z]+`(?:, `[A-Z][A-Za-z]+`)*) \|", README, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]

    assert named
    assert [name for name in named if f"\n  {name}:\n    Type: " not in template] == []
