"""`baton serve` during development: files change, the process is killed and restarted, and the log is read."""

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.e2e.local.test_serve import BOUND_S, Baton, start_serve

APP = """
from mcp_baton import Server, Step, Workflow, constant
from rates import rate

server = Server("shop", version="1.0.0")

@server.tool
def quote() -> int:
    return rate()

@server.tool
def pay(amount: int, approved_by: str) -> str:
    return "paid"

steps = [Step("quote", tool="quote"), Step("pay", tool="pay", arguments={"amount": constant(3)})]
server.add_workflow(Workflow(name="buy", description="buy", steps=steps))
"""
RATES = "def rate():\n    return 1\n"


@contextmanager
def serve(*options: str, folder: Path) -> Iterator[tuple[Baton, IO[str]]]:
    """Run `baton serve`. Return it with its standard error stream."""
    with start_serve(*options, stderr=subprocess.PIPE, folder=folder) as baton:
        assert baton.process.stderr is not None
        yield baton, baton.process.stderr


def next_line(stream: IO[str], pattern: str) -> str:
    """Return the next line that matches."""
    return next(line for line in stream if re.search(pattern, line))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "rates.py").write_text(RATES)
    return tmp_path


def test_each_request_is_logged_and_changed_files_are_served_without_losing_tasks(project: Path) -> None:
    app, rates, data = project / "app.py", project / "rates.py", project / "tasks.db"
    with serve(str(app), "--reload", "--data", str(data), folder=project) as (baton, log):
        task = baton.call("prompts/get", name="buy")["_meta"]["task_id"]
        line = r"^\d\d:\d\d:\d\d prompts/get +buy …\w{8} \d+ ms paused at pay: missing approved_by\n$"
        assert re.match(line, log.readline())

        rates.write_text("def rate(:\n")
        assert "rates.py has changed, and cannot be served: SyntaxError" in next_line(log, "rates.py")
        assert "uses the old code until this is corrected" in log.readline()
        assert baton.tool("quote")["result"] == 1
        rates.write_text("def rate():\n    return open('/absent/rates')\n")
        assert "rates.py has changed: reloaded" in next_line(log, "reloaded")
        assert baton.call("tools/call", name="quote", arguments={})["isError"]
        trace: list[str] = []
        while "left out" not in (trace[-1] if trace else ""):
            trace.append(log.readline())
        text = "".join(trace)
        assert 'rates.py", line 2, in rate' in text
        assert 'app.py", line 9, in quote' in text
        assert "mcp_baton/" not in text
        assert re.search(r"tools/call +quote <?\d+ ms internal error in quote", log.readline())
        assert [task_entry["taskId"] for task_entry in baton.call("tasks/list")["tasks"]] == [task]
        baton.process.send_signal(signal.SIGKILL)
        baton.process.wait(BOUND_S)

    rates.write_text(RATES)
    with serve("app:server", "--data", str(data), "--json", folder=project) as (baton, log):
        assert baton.call("tasks/get", taskId=task)["_meta"]["_workflow.result.quote"] == 1
        entry = json.loads(log.readline())
        assert (entry["method"], entry["task"], entry["status"]) == ("tasks/get", task, "waiting")
        baton.process.send_signal(signal.SIGINT)
        assert baton.process.wait(BOUND_S) == 130
