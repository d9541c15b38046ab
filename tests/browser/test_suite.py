"""Runs the browser tests, which have their own environment and pytest session, as one test.

`make test-browser` runs them separately, one line a test; `ARGS="-k form"` selects some.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import missing

HERE = Path(__file__).parent
PYTHON = HERE / ".venv/bin/python"


@pytest.mark.first
def test_the_page_works_in_a_browser() -> None:
    if not PYTHON.exists():
        missing("the browser's tests are not installed; `make test` does it")
    process = subprocess.run(
        [PYTHON, "-m", "pytest", "-c", HERE / "suite/pytest.toml", "-q", "--color=no", HERE / "suite"],
        env=os.environ | {"BATON_COMMAND": str(Path(sys.executable).parent / "baton")},
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        pytest.fail(f"in the browser:\n{process.stdout}{process.stderr}", pytrace=False)
    if " skipped" in process.stdout:
        missing(process.stdout)
