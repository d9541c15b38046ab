"""Follows docs/tutorial.md: the generated server, the new tool and step, the tests, the mistake."""

import sys
from pathlib import Path
from runpy import run_path
from types import ModuleType

import pytest

from mcp_baton import Server, WorkflowError
from mcp_baton.local.loader import load
from mcp_baton.testing import Connect
from tests.site.blocks import ROOT, blocks
from tests.starter import needs_the_starter

PAGE = blocks(ROOT / "docs" / "tutorial.md")
PYTHON = [block for block in PAGE if block.language == "python"]
GENERATED, TOOL, STEP, TESTS = (block.code for block in PYTHON)
LAST_STEP = '    step(lend_book)(shelf=book["shelf"], reader=reader)\n'


@needs_the_starter
def test_the_page_shows_the_generated_server() -> None:
    # `baton new` copies this file.
    assert (ROOT / "functions" / "mcp" / "app.py").read_text() == GENERATED


def changed_server() -> str:
    """Return the server with the tutorial's tool and step."""
    assert GENERATED.count(LAST_STEP) == 1
    steps = "".join(f"    {line}\n" for line in STEP.splitlines())
    return GENERATED.replace("@server.workflow\n", f"{TOOL}\n\n@server.workflow\n").replace(LAST_STEP, steps)


def test_the_page_shows_the_handoff_of_the_generated_server(tmp_path: Path, baton: Connect) -> None:
    file = tmp_path / "generated.py"
    file.write_text(GENERATED)
    [handoff] = [block.code for block in PAGE if block.language == "text"]

    run = baton(load(str(file), Server)).call_workflow("borrow", {"title": "Walden"})

    assert run.handoff.replace(run.task_id, "01m8206ces00bbmd…") == handoff.rstrip("\n")


def test_the_tests_of_the_tutorial_pass(tmp_path: Path, baton: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "changed.py").write_text(changed_server())
    (tmp_path / "test_reminders.py").write_text(TESTS)
    app = ModuleType("app")
    app.__dict__["server"] = load(str(tmp_path / "changed.py"), Server)
    monkeypatch.setitem(sys.modules, "app", app)
    tests = {
        name: test for name, test in run_path(str(tmp_path / "test_reminders.py")).items() if name.startswith("test_")
    }

    for test in tests.values():
        test(baton)

    assert len(tests) == 2


def test_the_mistake_of_the_tutorial_is_rejected_with_a_suggestion(tmp_path: Path) -> None:
    file = tmp_path / "mistaken.py"
    file.write_text(changed_server().replace("loan.weeks", "loan.weks"))

    with pytest.raises(WorkflowError, match="did you mean 'weeks'"):
        load(str(file), Server).check()
