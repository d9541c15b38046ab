"""`baton serve` with background tools: workers call them, over the table that the requests use."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx
import pytest

from mcp_baton.cli.app import main
from tests.memory_dynamodb import MemoryDynamoDB, loopback_server
from tests.support.client import about_task

BOUND_S = 60
SERVED = Path(__file__).with_name("served_background.py")
COMMAND = [sys.executable, "-c", "import sys; from mcp_baton.cli.app import main; sys.exit(main())"]


@dataclass
class Service:
    """A running `baton serve` and the two named pipes that its tool waits at."""

    process: subprocess.Popen[str]
    client: httpx.Client
    start_pipe: Path
    gate: Path

    def start(self) -> str:
        arguments = {"start_pipe": str(self.start_pipe), "gate": str(self.gate)}
        return str(self.request("tools/call", "wait", name="wait", arguments=arguments)["taskId"])

    def wait_for_tool(self) -> None:
        """Wait until the tool has started."""
        self.start_pipe.read_text()

    def task(self, task_id: str) -> Any:
        return self.request("tasks/get", task_id, taskId=task_id)

    def request(self, method: str, mcp_name: str, **params: Any) -> Any:
        message, headers = about_task(method, mcp_name, params)
        return self.client.post("/mcp", json=message, headers={**headers, "X-User": "kim"}).json()["result"]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = monotonic() + BOUND_S
    while not condition():
        assert monotonic() < deadline, "it did not happen"
        sleep(0.05)


@pytest.fixture
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    """A running `baton serve`. It ends with the test."""
    start_pipe, gate, database_url = tmp_path / "start", tmp_path / "gate", "embedded"
    os.mkfifo(start_pipe)
    os.mkfifo(gate)
    with ExitStack() as stack:
        if request.param == "URL":
            database = loopback_server(MemoryDynamoDB())
            stack.callback(database.close)
            database_url = f"http://{database.address}"
        options = ("--port", "0", "--dynamodb", database_url, "--owner-header", "X-User")
        process = stack.enter_context(
            subprocess.Popen([*COMMAND, "serve", SERVED, *options], stdout=subprocess.PIPE, text=True)
        )
        stack.callback(process.kill)
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        client = httpx.Client(base_url=url.removesuffix("/mcp"), timeout=BOUND_S)
        stack.callback(client.close)
        yield Service(process, client, start_pipe, gate)


@pytest.mark.parametrize(
    ("service", "number", "code"),
    [("embedded", signal.SIGTERM, 0), ("URL", signal.SIGKILL, -9), ("URL", signal.SIGINT, 130)],
    indirect=["service"],
)
def test_a_worker_makes_the_call_and_ends_with_its_server(service: Service, number: signal.Signals, code: int) -> None:
    task_id = service.start()
    service.wait_for_tool()
    assert service.task(task_id)["status"] == "working"
    service.gate.write_text("done")
    wait_for(lambda: service.task(task_id)["status"] == "completed")
    result = service.task(task_id)["result"]["structuredContent"]
    assert result == {"text": "done", "owner": "kim", "attempt": 1}

    service.start()
    service.wait_for_tool()
    service.process.send_signal(number)
    # The tool still waits: it does not keep the process alive.
    assert service.process.wait(BOUND_S) == code


@pytest.mark.parametrize("option", ["--worker-timeout=5", "--worker-timeout=0"])
def test_invalid_worker_options_are_refused(option: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(SERVED), option]) == 2
    assert option.partition("=")[0] in capfd.readouterr().err
