"""Tests of every code block of every page. They run Python and parse commands and data; `test_shell.py` runs commands.

A block that cannot be run has a comment with the reason (`tests/site/blocks.py`).
"""

import ast
import json
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.site import settings_page
from tests.site.blocks import PAGES, Block, blocks
from tests.site.commands import mistakes_in

ALL = [block for page in PAGES for block in blocks(page)]
LANGUAGES = {"python", "sh", "console", "json", "toml", "yaml", "text", "mermaid", "ts"}
# Other tests run the Python of these pages.
RUN_BY = {
    "docs/choose.md": "tests/site/test_choose.py",
    "docs/example.md": "tests/site/test_example.py",
    "docs/testing.md": "tests/testing/test_plugin.py",
    "docs/tutorial.md": "tests/site/test_tutorial.py",
}


def blocks_of(*languages: str) -> list[Block]:
    return [block for block in ALL if block.language in languages]


def place(block: Block) -> str:
    return block.place


def test_every_block_names_its_language() -> None:
    assert [block.place for block in ALL if block.language not in LANGUAGES] == []


@pytest.mark.parametrize("page", sorted({block.page for block in blocks_of("python")} - RUN_BY.keys()))
def test_the_python_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, value in {
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "s",
    }.items():
        monkeypatch.setenv(name, value)
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    for block in (block for block in blocks_of("python") if block.page == page):
        code = compile(block.code, block.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if block.title is not None:
            (tmp_path / block.title).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / block.title).write_text(block.code)
        elif block.not_run is None:
            exec(compile(block.before, f"{block.place}, before", "exec"), vars(module))  # noqa: S102 - our own pages
            exec(code, vars(module))  # noqa: S102


@pytest.mark.parametrize("block", blocks_of("sh", "console"), ids=place)
def test_the_commands_of_a_block_exist(block: Block) -> None:
    typed_lines = [line.removeprefix("$ ") for line in block.code.splitlines() if line.startswith("$ ")]

    assert mistakes_in("\n".join(typed_lines) if block.language == "console" else block.code) == []


@pytest.mark.parametrize("block", blocks_of("json", "toml", "yaml"), ids=place)
def test_data_can_be_parsed(block: Block) -> None:
    parsers: dict[str, Any] = {"json": json.loads, "toml": tomllib.loads, "yaml": settings_page.read}
    parse = parsers[block.language]
    assert parse(block.code)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("baton serve --prot 80 app.py", "No such option"),
        ("baton srve app.py", "No such command"),
        ("make tset", "no such target"),
        ("cd shop && make tset", "no such target"),
        ("TASK=$(baton serv app.py) curl URL", "No such command"),
        ("python -m tests.simulations", "no module"),
        ("uv run baton serve --prot 80 app.py", "No such option"),
    ],
)
def test_a_mistake_in_a_command_is_found(line: str, fault: str) -> None:
    [mistake] = mistakes_in(line)
    assert re.search(re.escape(fault), mistake)
