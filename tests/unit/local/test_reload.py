"""Reloading the user's files while the server runs."""

import logging
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mcp_baton.local.gateway import InvocationContext
from mcp_baton.local.loader import LoadError, load
from mcp_baton.local.reload import OLD_CODE, ReloadingHandler, Watcher, short_reason


@pytest.fixture(autouse=True)
def restored_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore `sys.path` and `sys.modules` after the test, and write no bytecode."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    modules = set(sys.modules)
    yield
    for name in set(sys.modules) - modules:
        del sys.modules[name]


class Project:
    """A file that imports another one. Each contains a number."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("reload_numbers", "number = 1")
        self.write("reload_app", "from reload_numbers import number\nnumbers = [number]")
        self.renewal_count = 0
        self.handler = ReloadingHandler(self._make, self._renew)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / f"{name}.py"
        path.write_text(text)
        return path

    def _make(self) -> Any:
        numbers = load(str(self.folder / "reload_app.py"), list)

        def answer(event: dict[str, Any], _context: InvocationContext) -> dict[str, Any]:
            if event:
                event["started"].set()
                event["go"].wait(60)
            return {"number": numbers[0]}

        return answer

    def _renew(self) -> None:
        self.renewal_count += 1

    @property
    def number(self) -> int:
        return int(self.handler({}, InvocationContext(1.0, "id-1"))["number"])


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_changed_imported_file_is_reloaded(project: Project) -> None:
    assert (project.handler.reload_if_changed(), project.number) == (False, 1)
    project.write("reload_numbers", "number = 22")
    assert (project.handler.reload_if_changed(), project.number, project.renewal_count) == (True, 22, 1)
    assert project.handler.reload_if_changed() is False


def test_a_file_that_is_not_imported_does_not_reload(project: Project) -> None:
    unrelated_file = project.write("reload_other", "number = 3")
    assert project.handler.reload_if_changed([unrelated_file]) is False
    assert project.renewal_count == 0


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("number = (", "SyntaxError: '(' was never closed (reload_numbers.py, line 1)"),
        ("\nnumber = nothing", "reload_numbers.py, line 2, NameError: name 'nothing' is not defined"),
    ],
)
def test_code_that_cannot_be_loaded_is_logged_and_the_old_code_serves(
    project: Project, caplog: pytest.LogCaptureFixture, text: str, cause: str
) -> None:
    caplog.set_level(logging.INFO, "mcp_baton.local.reload")
    old_module = sys.modules["reload_numbers"]
    project.write("reload_numbers", text)
    assert (project.handler.reload_if_changed(), project.number, project.renewal_count) == (False, 1, 0)
    assert caplog.messages == [f"reload_numbers.py has changed, and cannot be served: {cause}\n{OLD_CODE}"]
    assert sys.modules["reload_numbers"] is old_module
    assert project.handler.reload_if_changed() is False  # the files have not changed since, so nothing is logged again
    project.write("reload_numbers", "number = 333")
    assert (project.handler.reload_if_changed(), project.number, project.renewal_count) == (True, 333, 1)


def test_a_new_file_lets_a_missing_import_succeed(project: Project) -> None:
    project.write("reload_app", "from reload_later import number\nnumbers = [number]")
    assert project.handler.reload_if_changed() is False
    new_file = project.write("reload_later", "number = 4")
    assert (project.handler.reload_if_changed([new_file]), project.number) == (True, 4)


def test_a_file_that_changes_while_it_is_loaded_is_loaded_again(project: Project) -> None:
    change = "file.write_text('number = 3'), os.utime(file, ns=(time.time_ns(),) * 2)"
    imports = "import os, time\nfrom pathlib import Path\nfrom reload_numbers import number\nnumbers = [number]"
    project.write(
        "reload_app", f"{imports}\nfile = Path(__file__).with_name('reload_numbers.py')\nif number == 1: {change}"
    )
    assert (project.handler.reload_if_changed(), project.number) == (True, 1)
    assert (project.handler.reload_if_changed(), project.number) == (True, 3)
    assert project.handler.reload_if_changed() is False


def test_files_are_checked_without_a_notification(tmp_path: Path) -> None:
    """A loaded file may be outside the watched folder, or may change before the folder is watched."""
    checked = threading.Event()
    watcher = Watcher(tmp_path, lambda is_noticed: None if is_noticed else checked.set())
    assert checked.wait(60)
    watcher.stop()


def test_a_running_request_ends_with_its_code(project: Project) -> None:
    started, may_continue = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(project.handler, {"started": started, "go": may_continue}, InvocationContext(1.0, "id-1"))
        assert started.wait(60)
        project.write("reload_numbers", "number = 22")
        assert project.handler.reload_if_changed()
        may_continue.set()
        assert (answer.result(60)["number"], project.number) == (1, 22)


def test_a_mistake_and_its_remedy_are_logged_in_one_line() -> None:
    assert short_reason(LoadError("app.py:53: no 'raeder'\n  did you mean 'reader'?")) == (
        "app.py:53: no 'raeder'; did you mean 'reader'?"
    )
