"""Each mistake of the table is named, with its line and what to write instead, and nothing else is said."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_baton.cli.app import main
from tests.mistakes.table import EPILOGUE, MISTAKES, PRELUDE, Mistake

type Check = Callable[[str], tuple[int, Any]]


@pytest.fixture(autouse=True)
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stand in an empty folder, and take back what loading does to the interpreter."""
    monkeypatch.chdir(tmp_path)
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if not name.startswith("mcp_baton"):
            del sys.modules[name]


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Check:
    """`check(target)`: the exit code of `baton check --json`, and its document."""

    def check(target: str) -> tuple[int, Any]:
        code = main(["check", target, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return check


def write(mistake: Mistake) -> str:
    Path("shop_app.py").write_text(mistake.text)
    for name, text in mistake.others.items():
        Path(name).write_text(text.replace("{stem}", "shop_app").replace("{file}", "shop_app.py"))
    return "shop_app.py"


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_named_with_its_line_and_its_remedy(
    mistake: Mistake, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in mistake.environment.items():
        monkeypatch.setenv(name, value)

    code, found = check(write(mistake))

    assert code == (0 if mistake.warning else 1)
    [fault] = found["warnings"] if mistake.warning else found["errors"]
    assert [part for part in mistake.says if part not in fault["problem"]] == [], fault
    assert mistake.remedy in fault["remedy"], fault
    if mistake.line is not None:
        assert (Path(fault["file"]).name, fault["line"]) == ("shop_app.py", mistake.line), fault
