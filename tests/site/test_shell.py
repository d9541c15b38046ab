"""Runs every shell line of the pages in a new folder, with the server that the page starts.

A block that is not run has a comment with the reason (`tests/site/blocks.py`).
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from tests.serving import served
from tests.site.blocks import PAGES, ROOT, Block, blocks
from tests.starter import needs_the_starter

PROGRAMS = Path(sys.executable).parent
SAMPLE, STARTER = "examples/sample/app.py", "functions/mcp/app.py"
SERVER_OF_PAGE = {
    "README.md": STARTER,
    "docs/tutorial.md": STARTER,
    "docs/deploying.md": STARTER,
    "docs/commands.md": SAMPLE,
    "docs/local.md": SAMPLE,
}
"""The server that the reader of a page has started. By default, the starter is deployed."""
ADDRESS = re.compile(r"http://127\.0\.0\.1:[38]000/mcp")
TASK = re.compile(r"\b01[0-9a-z]{35}\b")
EXAMPLE_TASK = re.compile(r"\b01m8[0-9a-z]{4,}\b")
"""An example of a task id, or its beginning. The tests replace it with the id of their own task."""
PAUSED_EXIT_CODE = 3
"""The exit code of a command that ends with a paused workflow."""


def is_run(block: Block) -> bool:
    return block.language in ("sh", "console") and block.not_run is None


BLOCKS = {page: page_blocks for page in PAGES if (page_blocks := [block for block in blocks(page) if is_run(block)])}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The reader's folder: the repository, or a project with a server."""
    for name in ("functions", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", ".venv"))
    (tmp_path / "shop").mkdir()
    for file in ("app.py", "shop/mcp.py"):
        shutil.copy(ROOT / STARTER, tmp_path / file)
    return tmp_path


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """The addresses of programs. One server serves all pages."""
    with ExitStack() as stack:

        @cache
        def address(program: str) -> str:
            command = [str(PROGRAMS / "baton"), "serve", str(ROOT / program), "--port", "0"]
            return stack.enter_context(served(command, tmp_path_factory.mktemp("served") / "log"))

        yield address


@needs_the_starter
@pytest.mark.parametrize("page", BLOCKS, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_shell_lines_of_a_page_succeed(page: Path, folder: Path, address: Callable[[str], str]) -> None:
    program, task = SERVER_OF_PAGE.get(str(page.relative_to(ROOT))), ""
    url = address(program) if program else ""
    for block in BLOCKS[page]:
        for line in lines_of(block):
            code = ADDRESS.sub(url, line)
            output = run(EXAMPLE_TASK.sub(task, code) if task else code, url, folder)
            task = next(iter(TASK.findall(output)), task)


def lines_of(block: Block) -> Iterator[str]:
    """Yield the parts of a block that are run separately."""
    if block.language == "console":
        yield from (line.removeprefix("$ ") for line in block.code.splitlines() if line.startswith("$ "))
    elif re.search(r"^(uv run )?baton serve ", block.code, re.MULTILINE):
        yield from block.code.splitlines()
    else:
        yield block.code


def run(code: str, url: str, folder: Path) -> str:
    """Run the lines and return their output. A command that serves is stopped when it is ready."""
    code = re.sub(r"\buv run ", "", code)  # the programs of the project's environment are on the path
    environment = {
        **os.environ,
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "HOME": str(folder),
        "URL": url,
        "KEY": "key",
    }
    if code.startswith("baton serve "):
        command = f"cd {folder}; exec {code.partition('#')[0]} --port 0"
        with served(["bash", "-c", f"PATH={PROGRAMS}:$PATH; {command}"], folder / "serve-log") as server_url:
            return server_url
    script = f"trap 'code=$?; [ $code = {PAUSED_EXIT_CODE} ] || exit $code' ERR\n{code}"
    process = subprocess.run(
        ["bash", "-o", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert process.returncode in (0, PAUSED_EXIT_CODE), f"{code}\n{process.stdout}{process.stderr}"
    if code.startswith("curl "):
        last_line = process.stdout.strip().splitlines()[-1].removeprefix("data: ")
        assert "result" in json.loads(last_line), last_line
    return process.stdout
