"""`baton callback`, and other commands on a waiting task, against `baton serve` (docs/waiting.md)."""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mcp_baton.cli.app import main
from mcp_baton.cli.remote.client import Remote
from mcp_baton.testing.function import Clock
from tests.serving import served

APP = Path(__file__).parent / "waits_app.py"
BATON = Path(sys.executable).parent / "baton"
GREEN = '{"image": "shop:7"}'
TIME = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"

type Run = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served") / "log"


@pytest.fixture(scope="module")
def url(log: Path) -> Iterator[str]:
    with served([BATON, "serve", APP, "--port", "0", "--log-level", "debug"], log) as address:
        yield address


@pytest.fixture
def baton(url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command against the server. Returns the exit code and the output, as JSON or as text."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(command: str, *words: str, text: bool = False) -> tuple[int, Any]:
        code = main([command, url, *words, *([] if text else ["--json"])])
        captured = capsys.readouterr()
        return code, captured.out + captured.err if text else json.loads(captured.out)

    return run


@pytest.fixture
def branch(request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    return name


@pytest.fixture
def task(baton: Run, branch: str) -> str:
    code, run = baton("run", "release", f"branch={branch}")
    assert (code, run["pause"]["type"]) == (3, "waiting")
    return str(run["taskId"])


@pytest.fixture
def address(baton: Run, task: str, branch: str) -> str:
    return str(baton("call", "address_of", f"branch={branch}")[1]["structuredContent"]["result"])


def list_line(baton: Run, task: str) -> str:
    lines: list[str] = baton("tasks", text=True)[1].splitlines()
    return next(line for line in lines if line.startswith(task[:16]))


@pytest.mark.parametrize("part", ["the address", "its last part"])
def test_a_callback_ends_the_wait_and_the_server_continues(baton: Run, task: str, address: str, part: str) -> None:
    target = address if part == "the address" else address.rpartition("/")[2]
    assert baton("callback", target, GREEN, text=True) == (0, "accepted\n")
    assert baton("callback", target, GREEN) == (0, {"accepted": True})  # a repetition
    status_text = "paused: its wait is over; continue it"
    assert f"working, {status_text}  deploy (waiting)" in list_line(baton, task)
    task_output = baton("show", task, text=True)[1]
    assert "paused at build: its wait is over; continue it\n" in task_output
    assert "nothing needs to be done" not in task_output
    assert "\nNext\n" in task_output
    code, run = baton("resume", task)
    assert (code, run["results"]["deploy"]) == (0, "shop:7 is deployed")


def test_a_refused_callback_shows_the_reason(baton: Run, address: str) -> None:
    problem = "BODY is not JSON: Expecting value: line 1 column 1 (char 0)"
    assert baton("callback", address, "shop:7") == (2, {"error": {"message": problem}})
    problem = "The body does not match its type: image: Input should be a valid string (422)"
    assert baton("callback", address, '{"image": 7}') == (1, {"error": {"message": problem}})
    assert baton("callback", address, GREEN)[0] == 0
    problem = "Another callback was accepted before. (409)"
    assert baton("callback", address, '{"image": "shop:8"}') == (1, {"error": {"message": problem}})
    assert baton("callback", "forged", GREEN) == (1, {"error": {"message": "There is no such callback. (404)"}})


def test_the_servers_log_has_no_address_of_a_callback(baton: Run, address: str, log: Path) -> None:
    for body in ("{}7", '{"image": 7}', GREEN):
        baton("callback", address, body)
    text = log.read_text()
    assert "POST /callbacks/…" in text
    assert "422 The body does not match its type" in text
    assert address.rpartition("/")[2] not in text


def test_the_commands_show_what_a_task_waits_for_and_until_when(baton: Run, task: str, branch: str) -> None:
    pattern = rf"waits for a callback until {TIME}"
    assert re.search(rf"working, paused: {pattern}  build \(waiting\)", list_line(baton, task))
    for output in (baton("show", task, text=True)[1], baton("run", "release", f"branch={branch}", text=True)[1]):
        assert re.search(rf"working, paused at build: {pattern}\n", output)
        assert "Until then, nothing needs to be done." in output
        assert "\nAfter the wait\n" in output
    assert "\nTo continue here after the wait: baton resume" in output
    later_output = baton("run", "release_later", "branch=main", text=True)[1]
    assert re.search(rf"working, paused at night: waits until {TIME}\n", later_output)


def test_the_graph_shows_what_a_step_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", str(APP), "release"]) == 0
    assert "build<br/>waits for a callback, for 2 hours" in capsys.readouterr().out


FILE = """
from datetime import timedelta
from mcp_baton import Approval, Server, sleep_until, wait_for_callback

server = Server("s")

@server.workflow(background=True)
def nap() -> None:
    sleep_until("nap", timedelta(seconds=30))

@server.workflow(background=True)
def release() -> None:
    wait_for_callback("build; test", dict, within=timedelta(hours=2))

@server.tool(task="required", approval=Approval("people"))
def pay() -> str:
    return "paid"
"""


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replaces the clock of the served file: it moves only in a sleep. Returns the seconds of each sleep."""
    seconds: list[float] = []
    reads, began_ms = count(), time.time_ns() // 1_000_000
    monkeypatch.setattr(time, "sleep", seconds.append)
    monkeypatch.setattr(Clock, "now_ms", lambda _clock: began_ms + next(reads) + round(sum(seconds) * 1000))
    return seconds


@pytest.mark.parametrize(
    ("tool", "code", "text"),
    [
        ("nap", 0, "Done: 1 of 1 step."),
        ("release", 1, "waits for a callback until"),
        ("pay", 1, "waits for an approval of people until"),
    ],
)
def test_a_call_of_a_file_waits_for_what_can_come(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], slept: list[float], tool: str, code: int, text: str
) -> None:
    path = tmp_path / f"{tool}_waits.py"  # a module has one name
    path.write_text(FILE)

    assert main(["call", str(path), tool]) == code

    output = " ".join("".join(capsys.readouterr()).split())
    assert text in output
    assert ("with `baton serve`, and run it there" in output) is (code == 1)
    assert 28 <= len(slept) <= 31 if code == 0 else not slept


def test_a_call_of_a_file_sleeps_a_second_if_the_time_has_come_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, slept: list[float]
) -> None:
    result = Remote.result

    def slow_result(remote: Remote, method: str, *params: Any, **options: Any) -> dict[str, Any]:
        answer = result(remote, method, *params, **options)
        if method == "tasks/get":
            slept.append(31)
        return answer

    monkeypatch.setattr(Remote, "result", slow_result)
    path = tmp_path / "late_nap.py"
    path.write_text(FILE)

    assert main(["call", str(path), "nap"]) == 0
    assert slept == [31, 1, 31]
    assert "Done: 1 of 1 step." in capsys.readouterr().out
