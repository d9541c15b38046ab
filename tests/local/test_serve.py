"""`baton serve` in a process of its own, called over HTTP."""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

import httpx
import pytest

from mcp_baton.cli.app import main
from mcp_baton.protocol.envelope import REVISION_WITHOUT_HEADER
from mcp_baton.protocol.jsonrpc import RequestMessage
from tests.memory_dynamodb import MemoryDynamoDB, loopback_server
from tests.wire.tap import TAP, paired

BOUND_S = 60
UNREACHABLE = "http://127.0.0.1:1"
SERVED = f"{Path(__file__).with_name('served.py')}:server"
COMMAND = [sys.executable, "-c", "import sys; from mcp_baton.cli.app import main; sys.exit(main())", "serve"]


class Baton:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        if process.stdout is None:
            raise AssertionError("the process has no pipes")
        self.stdout = process.stdout
        self.line = self.stdout.readline()
        # with --json, the line is a JSON object
        url = json.loads(self.line)["url"] if self.line.startswith("{") else self.line.split()[-1]
        self.client = httpx.Client(base_url=url.removesuffix("/mcp"), timeout=BOUND_S)

    def call(self, method: str, headers: dict[str, str] | None = None, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer: dict[str, Any] = self.client.post("/mcp", json=message, headers=headers).raise_for_status().json()
        TAP.judge(paired(answer, RequestMessage(1, method, params), REVISION_WITHOUT_HEADER))
        return answer["result"]

    def tool(self, name: str, headers: dict[str, str] | None = None) -> Any:
        return self.call("tools/call", headers, name=name, arguments={})["structuredContent"]

    def stop(self) -> int:
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(BOUND_S)


@contextmanager
def start_serve(*options: str, stderr: int | IO[str] | None = None, folder: Path | None = None) -> Iterator[Baton]:
    command = [*COMMAND, *options, "--port", "0"]
    with ExitStack() as stack:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=folder)
        stack.enter_context(process)
        stack.callback(process.kill)
        # The server runs for all tests of a module, which may take long on a busy machine.
        watchdog = threading.Timer(10 * BOUND_S, process.kill)
        watchdog.start()
        stack.callback(watchdog.cancel)
        baton = Baton(process)
        stack.callback(baton.client.close)
        yield baton


@contextmanager
def serve(*options: str, stderr: IO[str] | None = None) -> Iterator[Baton]:
    """Run `baton serve`. It must end with code 0 after a signal."""
    with start_serve(*options, stderr=stderr) as baton:
        yield baton
        assert (baton.stop(), baton.stdout.read()) == (0, "")


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served") / "stderr"


@pytest.fixture(scope="module")
def baton(terminal: Path) -> Iterator[Baton]:
    """A running `baton serve` for the tests that need no options."""
    with terminal.open("w") as stderr, serve(SERVED, stderr=stderr) as baton:
        yield baton


def start_error(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that must fail at its start, and return its standard error. Modules that it imported are
    removed."""
    with patch.dict(sys.modules), patch.object(sys, "path", [*sys.path]):
        code, captured = main(["serve", *arguments]), capfd.readouterr()
    assert (code, captured.out) == (2, "")
    return captured.err


def test_one_line_on_stdout_has_the_url(baton: Baton) -> None:
    assert baton.line.startswith("Baton is listening on http://127.0.0.1:")
    assert baton.line.endswith("/mcp\n")
    assert [tool["name"] for tool in baton.call("tools/list")["tools"]][:2] == ["meet", "broken"]


def test_calls_run_in_parallel(baton: Baton) -> None:
    with ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda _: baton.tool("meet")["result"], range(2))
        assert sorted(results) == [0, 1]


def test_an_exception_of_a_tool_is_logged_and_the_client_gets_its_id(baton: Baton, terminal: Path) -> None:
    [block] = baton.call("tools/call", name="broken", arguments={})["content"]
    match = re.fullmatch(r"internal error in broken \(id ([0-9a-f-]{36})\)", block["text"])
    assert match
    line, _, traceback = terminal.read_text().partition(f"request {match[1]}: internal error in broken\n")
    assert "ERROR" in line
    assert traceback.startswith("Traceback (most recent call last):\n")
    assert 'served.py", line' in traceback
    assert "RuntimeError: the bank at https://bank.example.com/?api_key=k-1 said no" in traceback


def test_a_timeout_without_time_to_work_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    error_text = start_error(capfd, SERVED, "--timeout", "6", "--port", "0")
    assert "--timeout 6" in error_text
    assert "BATON_WRITE_RESERVE_MS" in error_text
    assert "more than 6 seconds" in error_text


def test_only_pages_of_this_machine_may_call(baton: Baton) -> None:
    preflight_headers = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}

    page = {"Origin": "http://localhost:6274"}
    preflight = baton.client.options("/mcp", headers=page | preflight_headers)
    assert (preflight.status_code, preflight.content) == (204, b"")
    assert preflight.headers["access-control-allow-origin"] == "http://localhost:6274"
    assert preflight.headers["access-control-allow-headers"] == "content-type"
    call = {"name": "whoami", "arguments": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    for params, kind in (call, "application/json"), (call | {"_meta": {"progressToken": "p"}}, "text/event-stream"):
        answer = baton.client.post("/mcp", json=message | {"params": params}, headers=page)
        assert answer.headers["content-type"] == kind
        assert answer.headers["access-control-allow-origin"] == "http://localhost:6274"

    foreign_page = {"Origin": "https://evil.example"}
    for response in (
        baton.client.options("/mcp", headers=foreign_page | preflight_headers),
        baton.client.post("/mcp", json=message, headers=foreign_page),
    ):
        assert response.status_code == 403
        assert [name for name in response.headers if name.startswith("access-control-")] == []


def test_callers_are_anonymous_and_own_tasks(baton: Baton) -> None:
    assert baton.tool("whoami", {"X-User": "kim"})["owner"] == "anonymous"
    assert baton.call("prompts/get", name="asking")["_meta"]["task_status"] == "completed"


def test_options_select_the_object_the_owner_the_timeout_and_the_dynamodb() -> None:
    kim, lee = {"X-User": "kim"}, {"X-User": "lee"}
    memory = MemoryDynamoDB()
    database = loopback_server(memory)
    options = ("--dynamodb", f"http://{database.address}", "--table", "own", "--owner-header", "X-User")
    with serve(SERVED.replace(":server", ":other_server"), *options, "--timeout", "20") as baton:
        client_params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t"}}
        assert baton.call("initialize", kim, **client_params)["serverInfo"]["name"] == "other"
        caller = baton.tool("whoami", kim)
        assert (caller["owner"], 0 < caller["remaining_ms"] <= 20_000) == ("kim", True)
        response = baton.client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}})
        assert (response.status_code, "--owner-header" in response.json()["error"]["message"]) == (403, True)
        task_id = baton.call("prompts/get", kim, name="asking")["_meta"]["task_id"]
        assert memory.names == ["own"]
    # the table still exists after the server has ended
    with serve(SERVED, *options) as baton:
        assert [task["taskId"] for task in baton.call("tasks/list", kim)["tasks"]] == [task_id]
        assert baton.call("tasks/list", lee)["tasks"] == []
    database.close()


def test_an_unknown_setting_is_reported_before_the_start(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("BATON_TABEL", "x")
    start_error(capfd, "absent.py")
    assert "BATON_TABEL is not a setting; did you mean 'BATON_TABLE'?" in caplog.text


def test_an_invalid_target_is_reported_with_the_remedy_and_exit_code_2(
    baton: Baton, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    port = baton.line.rpartition(":")[2].removesuffix("/mcp\n")
    broken_file, absent_file = tmp_path / "broken.py", tmp_path / "absent.py"
    broken_file.write_text("import no_such_module_anywhere\n")
    ambiguous_target = SERVED.removesuffix(":server")
    assert start_error(capfd, str(absent_file)) == f"baton: no such file: {absent_file}\n"
    assert "holds server, other_server\n  choose one of server, other_server, as in" in start_error(
        capfd, ambiguous_target
    )
    assert "No module named 'no_such_module_anywhere'" in start_error(capfd, str(broken_file))
    for options, ending in (
        (["--port", port], "or --port 0 for a free port\n"),
        (["--dynamodb", UNREACHABLE], ""),
    ):
        command = [*COMMAND, SERVED, "--port", "0", *options]
        process = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_S, check=False)
        assert (process.returncode, process.stdout, process.stderr.count("\n")) == (2, "", 1)
        assert process.stderr.endswith(ending)
