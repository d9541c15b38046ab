"""The load benchmark runs: a few clients, for a second, without figures. Several environments write the same tasks."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = ["chatty", "guarded", "waiting"]
WITHIN_S = 600


@pytest.mark.nightly
def test_clients_of_several_environments_end_their_workflows_without_an_error() -> None:
    size = ["--clients", "4", "--seconds", "1", "--processes", "2"]
    command = [sys.executable, "-m", "benchmarks.load", "--servers", "Baton", *size, "--workflows", *WORKFLOWS]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=WITHIN_S)

    assert process.returncode == 0, process.stderr
    table = [[cell.strip() for cell in row.split("|")[1:-1]] for row in process.stdout.splitlines() if row[:1] == "|"]
    titles, _, _floor, *rows = table
    assert [row[titles.index("workflow")] for row in rows] == WORKFLOWS
    assert [row[titles.index("errors")] for row in rows] == ["0"] * len(WORKFLOWS), process.stdout
    assert all(int(row[titles.index("ended")]) >= 4 for row in rows)
