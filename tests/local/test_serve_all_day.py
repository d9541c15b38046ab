"""`baton serve` during development: files change, processes are killed, and the log is read."""

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import httpx
import pytest

from tests.local.test_serve import BOUND_S, Baton, start_serve

APP = """
from mcp_baton import Server, ToolStep, Workflow, constant
from rates import rate

server = Server("shop", version="1.0.0")

@server.tool
def quote() -> int:
    return rate()

@server.tool
def pay(amount: int, approved_by: str) -> str:
    return "paid"

steps = [ToolStep("quote", tool="quote"), ToolStep("pay", tool="pay", arguments={"amount": constant(3)})]
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
    return next(line for line in stream if re.search(pattern, line))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "rates.py").write_text(RATES)
    return tmp_path


def test_changed_files_are_served_without_losing_tasks_or_connections(project: Path) -> None:
    app, rates = project / "app.py", project / "rates.py"
    with serve(str(app), "--reload", folder=project) as (baton, log):
        task = baton.call("prompts/get", name="buy")["_meta"]["task_id"]
        line = r"^\d\d:\d\d:\d\d prompts/get +buy …\w{8} \d+ ms paused at pay: missing approved_by\n$"
        assert re.match(line, next_line(log, "prompts/get"))

        rates.write_text("def rate(:\n")
        assert "rates.py has changed: restarting" in next_line(log, "rates.py")
        reason = next_line(log, "the server cannot be started: ")
        assert "rates.py:1: SyntaxError" in reason
        assert next_line(log, "The server starts again when a Python file changes.")
        rates.write_text("def rate():\n    return open('/absent/rates')\n")
        # The request waits until the server has started again.
        assert baton.call("tools/call", name="quote", arguments={})["isError"]
        trace = [next_line(log, "Traceback")]
        while "left out" not in trace[-1]:
            trace.append(log.readline())
        text = "".join(trace)
        assert 'rates.py", line 2, in rate' in text
        assert 'app.py", line 9, in quote' in text
        assert "mcp_baton/" not in text
        assert re.search(r"tools/call +quote <?\d+ ms internal error in quote", log.readline())
        assert [task_entry["taskId"] for task_entry in baton.call("tasks/list")["tasks"]] == [task]


def test_with_reload_a_crash_of_a_tool_is_reported(project: Path) -> None:
    (project / "rates.py").write_text("import os\n\n\ndef rate():\n    os._exit(3)\n")
    with serve(str(project / "app.py"), "--reload", folder=project) as (baton, log):
        with pytest.raises(httpx.TransportError):
            baton.tool("quote")
        assert "the server has ended with the exit code 3" in next_line(log, "has ended")
        assert next_line(log, "The server starts again when a Python file changes.")
        (project / "rates.py").write_text("def rate():\n    return 2\n")
        assert baton.tool("quote")["result"] == 2


def test_files_may_change_while_the_server_starts(project: Path) -> None:
    with serve(str(project / "app.py"), "--reload", folder=project) as (baton, log):
        lines: list[str] = []
        for number in range(2, 5):
            (project / "rates.py").write_text(f"def rate():\n    return {number}\n")
            lines.append(log.readline())
            while "rates.py has changed: restarting" not in lines[-1]:
                lines.append(log.readline())
            lines.append("")
        while baton.tool("quote")["result"] != 4:
            pass
        baton.process.send_signal(signal.SIGTERM)
        lines += log.readlines()
        assert [line for line in lines if "Traceback" in line or "Interrupt" in line] == []


def test_with_reload_the_server_ends_with_its_parent_even_if_that_is_killed(project: Path) -> None:
    with serve(str(project / "app.py"), "--reload", folder=project) as (baton, log):
        assert baton.tool("quote")["result"] == 1
        baton.process.send_signal(signal.SIGKILL)
        baton.process.wait(BOUND_S)
        log.read()  # to its end: the child has closed it, too
        with pytest.raises(httpx.TransportError):
            baton.tool("quote")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_with_reload_a_signal_ends_both_processes(project: Path, number: signal.Signals, code: int) -> None:
    with serve(str(project / "app.py"), "--reload", folder=project) as (baton, log):
        assert baton.tool("quote")["result"] == 1
        baton.process.send_signal(number)
        assert baton.process.wait(BOUND_S) == code
        assert "stopping" in log.read()
