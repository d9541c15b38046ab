"""`baton serve`: the command in a process of its own, asked over HTTP."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, override

import httpx
import pytest
from botocore.awsrequest import AWSPreparedRequest
from botocore.compat import HTTPHeaders

from mcp_baton.local.embedded import EmbeddedEngine
from mcp_baton.protocol.envelope import REVISION_WITHOUT_HEADER
from mcp_baton.protocol.jsonrpc import Request
from tests.wire.tap import TAP, paired

BOUND_S = 60
SERVED = f"{Path(__file__).with_name('served.py')}:server"
COMMAND = [sys.executable, "-c", "import sys; from mcp_baton.cli.app import main; sys.exit(main())", "serve"]


class Baton:
    """A running `baton serve`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        if process.stdout is None:
            raise AssertionError("the process has no pipes")
        self.stdout = process.stdout
        self.line = self.stdout.readline()
        # With --json the line is an object.
        url = json.loads(self.line)["url"] if self.line.startswith("{") else self.line.split()[-1]
        self.client = httpx.Client(base_url=url.removesuffix("/mcp"), timeout=BOUND_S)

    def call(self, method: str, headers: dict[str, str] | None = None, **params: Any) -> Any:
        """A request's result."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer: dict[str, Any] = self.client.post("/mcp", json=message, headers=headers).raise_for_status().json()
        TAP.judge(paired(answer, Request(1, method, params), REVISION_WITHOUT_HEADER))
        return answer["result"]

    def tool(self, name: str, headers: dict[str, str] | None = None) -> Any:
        """The structured value of a tool without arguments."""
        return self.call("tools/call", headers, name=name, arguments={})["structuredContent"]

    def stop(self) -> int:
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(BOUND_S)


type Start = Callable[..., Baton]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts `baton serve`; no process outlives the test."""
    with ExitStack() as stack:

        def run(*options: str, target: str = SERVED, errors: Path | None = None) -> Baton:
            command = [*COMMAND, target, "--port", "0", *options]
            stderr = None if errors is None else stack.enter_context(errors.open("w"))
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            watchdog = threading.Timer(BOUND_S, process.kill)
            watchdog.start()
            stack.callback(watchdog.cancel)
            baton = Baton(process)
            stack.callback(baton.client.close)
            return baton

        yield run


def failed(*arguments: str) -> str:
    """What a command that could not begin says."""
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=BOUND_S, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


def test_one_line_on_stdout_says_where_it_listens_and_sigterm_ends_it(start: Start) -> None:
    baton = start()
    assert baton.line.startswith("Baton is listening on http://127.0.0.1:")
    assert baton.line.endswith("/mcp\n")
    assert [tool["name"] for tool in baton.call("tools/list")["tools"]][:3] == ["wait", "meet", "whoami"]
    assert baton.stop() == 0
    assert baton.stdout.read() == ""


def test_a_workflow_reports_its_steps_while_they_run_and_leaves_a_task(start: Start, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    baton = start()
    params = {"name": "waiting", "arguments": {"gate": str(gate)}, "_meta": {"progressToken": "p"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": params}
    with baton.client.stream("POST", "/mcp", json=message) as response:
        assert response.headers["content-type"] == "text/event-stream"
        events = (json.loads(line.removeprefix("data: ")) for line in response.iter_lines() if line.startswith("data"))
        assert next(events)["params"]["message"] == "Step 1/2: wait"
        gate.write_text("open")
        assert next(events)["params"]["message"] == "Step 2/2: whoami"
        meta = next(events)["result"]["_meta"]
        assert list(events) == []
    assert meta["task_status"] == "completed"
    variables = baton.call("tasks/get", taskId=meta["task_id"])["_meta"]
    assert variables["_workflow.result.wait"] == "open"


def test_calls_run_in_parallel(start: Start) -> None:
    baton = start()
    with ThreadPoolExecutor(2) as pool:
        places = pool.map(lambda _: baton.tool("meet")["result"], range(2))
        assert sorted(places) == [0, 1]


def test_what_a_tool_raises_is_in_the_terminal_with_its_traceback_and_the_client_reads_its_id(
    start: Start, tmp_path: Path
) -> None:
    terminal = tmp_path / "stderr"
    [block] = start(errors=terminal).call("tools/call", name="broken", arguments={})["content"]
    found = re.fullmatch(r"internal error in broken \(id ([0-9a-f-]{36})\)", block["text"])
    assert found
    line, _, traceback = terminal.read_text().partition(f"request {found[1]}: internal error in broken\n")
    assert "ERROR" in line
    assert traceback.startswith("Traceback (most recent call last):\n")
    assert 'served.py", line' in traceback
    assert "RuntimeError: the bank at https://bank.example.com/?api_key=k-1 said no" in traceback


def test_a_timeout_that_leaves_no_time_to_work_is_refused() -> None:
    said = failed(SERVED, "--timeout", "6", "--port", "0")
    assert "--timeout 6" in said
    assert "BATON_WRITE_RESERVE_MS" in said
    assert "more than 6 seconds" in said


def test_the_function_has_the_time_that_the_command_gives_it(start: Start) -> None:
    remaining = start("--timeout", "7").tool("whoami")["remaining_ms"]
    assert 0 < remaining <= 7000


def test_pages_of_this_machine_may_call_and_others_may_not(start: Start) -> None:
    baton = start()
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}

    page = {"Origin": "http://localhost:6274"}
    preflight = baton.client.options("/mcp", headers=page | asked)
    assert (preflight.status_code, preflight.content) == (204, b"")
    assert preflight.headers["access-control-allow-origin"] == "http://localhost:6274"
    assert preflight.headers["access-control-allow-headers"] == "content-type"
    called = {"name": "whoami", "arguments": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": called}
    for params, kind in (called, "application/json"), (called | {"_meta": {"progressToken": "p"}}, "text/event-stream"):
        answer = baton.client.post("/mcp", json=message | {"params": params}, headers=page)
        assert answer.headers["content-type"] == kind
        assert answer.headers["access-control-allow-origin"] == "http://localhost:6274"

    stranger = {"Origin": "https://evil.example"}
    for refused in (
        baton.client.options("/mcp", headers=stranger | asked),
        baton.client.post("/mcp", json=message, headers=stranger),
    ):
        assert refused.status_code == 403
        assert [name for name in refused.headers if name.startswith("access-control-")] == []


def test_callers_are_anonymous_and_own_tasks(start: Start) -> None:
    baton = start()
    assert baton.tool("whoami", {"X-User": "kim"})["owner"] == "anonymous"
    assert baton.call("prompts/get", name="asking")["_meta"]["task_status"] == "completed"


def test_the_owner_header_keeps_owners_apart_and_nobody_is_refused(start: Start) -> None:
    baton = start("--owner-header", "X-User")
    kim, lee = {"X-User": "kim"}, {"X-User": "lee"}
    assert baton.tool("whoami", kim)["owner"] == "kim"
    refused = baton.client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}})
    assert (refused.status_code, "--owner-header" in refused.json()["error"]["message"]) == (403, True)
    task_id = baton.call("prompts/get", kim, name="asking")["_meta"]["task_id"]
    assert [task["taskId"] for task in baton.call("tasks/list", kim)["tasks"]] == [task_id]
    assert baton.call("tasks/list", lee)["tasks"] == []


def test_an_object_can_be_chosen_by_its_name(start: Start) -> None:
    baton = start(target=SERVED.replace(":server", ":other"))
    result = baton.call("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "t"})
    assert result["serverInfo"]["name"] == "other"


class DynamoDB(ThreadingHTTPServer):
    """The embedded engine behind a socket of its own: a DynamoDB at a URL."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), DynamoDBConnection)
        self.engine = EmbeddedEngine("us-east-1")
        self.url = f"http://127.0.0.1:{self.server_port}"


class DynamoDBConnection(BaseHTTPRequestHandler):
    server: DynamoDB

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = HTTPHeaders.from_pairs(self.headers.items())
        request = AWSPreparedRequest("POST", self.server.url + self.path, headers, body, False)
        answer = self.server.engine.answer(request)
        self.send_response(answer.status_code)
        self.end_headers()
        self.wfile.write(answer.content)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def dynamodb() -> Iterator[str]:
    with DynamoDB() as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.url
        server.shutdown()


def test_at_a_url_the_table_is_created_and_the_tasks_outlive_the_server(start: Start) -> None:
    with dynamodb() as url:
        first = start("--dynamodb", url, "--table", "first-table")
        task_id = first.call("prompts/get", name="asking")["_meta"]["task_id"]
        assert first.stop() == 0
        second = start("--dynamodb", url, "--table", "first-table")
        assert [task["taskId"] for task in second.call("tasks/list")["tasks"]] == [task_id]
        third = start("--dynamodb", url, "--table", "second-table")
        assert third.call("tasks/list")["tasks"] == []
        assert [second.stop(), third.stop()] == [0, 0]


UNSERVABLE = """
from dataclasses import dataclass
from mcp_baton import Server, Step, Workflow, step_output
from mcp_baton.aws import handler
from pydantic import BaseModel

class Order(BaseModel):
    total: float

server = Server("orders")

@server.tool
def fetch() -> Order:
    return Order(total=1)

@server.tool
def pay(amount: float) -> None: ...

amount = step_output("fetch", "PATH")
steps = [Step("fetch", tool=fetch), Step("pay", tool=pay, arguments={"ARGUMENT": amount})]
server.add_workflow(Workflow(name="flow", description="pay", steps=steps))
lambda_handler = handler(server)
"""


def test_a_workflow_that_cannot_work_is_two_lines(tmp_path: Path) -> None:
    file = tmp_path / "unservable.py"

    file.write_text(UNSERVABLE.replace("PATH", "totl").replace("ARGUMENT", "amount"))
    assert failed(str(file)) == (
        f"baton: {file}:20: workflow 'flow', step 'pay': step_output('fetch', 'totl'): "
        "the output of the tool 'fetch' has no 'totl', only total\n"
        "  did you mean 'total'?\n"
    )
    file.write_text(UNSERVABLE.replace("PATH", "total").replace("ARGUMENT", "amuont"))
    assert failed(str(file)) == (
        f"baton: {file}:20: workflow 'flow', step 'pay': the tool 'pay' has no parameter 'amuont'\n"
        "  did you mean 'amount'?\n"
    )


def test_what_cannot_be_served_is_one_line_and_exit_code_2(start: Start, tmp_path: Path) -> None:
    port = start().line.rpartition(":")[2].removesuffix("/mcp\n")
    broken = tmp_path / "broken.py"
    broken.write_text("import no_such_module_anywhere\n")
    several = SERVED.removesuffix(":server")
    assert failed(str(tmp_path / "absent.py")) == f"baton: no such file: {tmp_path / 'absent.py'}\n"
    assert "holds server, other: choose one" in failed(several)
    assert "No module named 'no_such_module_anywhere'" in failed(str(broken))
    assert failed(SERVED, "--port", port).endswith("is another, --port 0 takes a free one\n")
    assert failed(SERVED, "--port", "0", "--dynamodb", "http://127.0.0.1:1").count("\n") == 1
