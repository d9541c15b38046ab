"""Signals that end the local server, which runs in a process of its own."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection, IncompleteRead
from pathlib import Path
from typing import IO

import pytest

BOUND_S = 60

SERVER = """
import logging
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from mcp_baton.local.http_server import HttpFunction, LocalServer
from mcp_baton.local.http_server import end_by_force, run
from mcp_baton.protocol.http import HttpResponse
from mcp_baton.transport.adapter import LambdaAdapter


def gate():
    with open(sys.argv[1]) as pipe:
        pipe.read()


def app(request, exchange):
    if request.path == "/leave-a-thread":
        ThreadPoolExecutor(1).submit(gate)
        return HttpResponse(200)
    if request.path == "/take-the-signal":
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        return HttpResponse(200)
    sink = exchange.open_stream(200, {})
    sink.write(b"first")
    gate()
    sink.write(b"second")


logging.basicConfig(level=logging.INFO)
server = LocalServer("127.0.0.1", 0, HttpFunction(LambdaAdapter(app, allow_anonymous=True, streaming=True), 60))
code = run(server, lambda: print(server.server_port, flush=True))
end_by_force(code)
sys.exit(code)
"""


class Process:
    """A server process whose requests wait until the test opens the gate, a named pipe."""

    def __init__(self, process: subprocess.Popen[str], gate: Path) -> None:
        self.process = process
        self.gate = gate
        self.port = int(output(process.stdout).readline())

    def request(self, path: str) -> HTTPConnection:
        client = HTTPConnection("127.0.0.1", self.port, timeout=BOUND_S)
        client.request("POST", path)
        return client

    def send(self, number: signal.Signals) -> None:
        """Send the signal and wait until the server has logged it."""
        self.process.send_signal(number)
        for line in output(self.process.stderr):
            if f"{number.name}: stopping" in line:
                return
        raise AssertionError(f"the process ended and did not log {number.name}")

    def exit_code(self) -> int:
        return self.process.wait(BOUND_S)


def output(pipe: IO[str] | None) -> IO[str]:
    if pipe is None:
        raise AssertionError("the process has no pipes")
    return pipe


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Process]:
    """A server process that is killed at the end of the test."""
    script, gate = tmp_path / "server.py", tmp_path / "gate"
    script.write_text(SERVER)
    os.mkfifo(gate)
    with ExitStack() as stack:
        command = [sys.executable, str(script), str(gate)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        stack.enter_context(process)
        stack.callback(process.kill)
        watchdog = threading.Timer(BOUND_S, process.kill)
        watchdog.start()
        stack.callback(watchdog.cancel)
        yield Process(process, gate)


def test_an_open_request_is_answered_before_the_server_ends(server: Process) -> None:
    with closing(server.request("/mcp")) as client:
        response = client.getresponse()
        assert response.read1() == b"first"
        server.send(signal.SIGTERM)
        server.gate.write_text("")
        assert response.read() == b"second"
    assert server.exit_code() == 0


def test_a_request_that_never_ends_does_not_keep_the_server_alive(server: Process) -> None:
    with closing(server.request("/mcp")) as client:
        response = client.getresponse()
        assert response.read1() == b"first"
        server.send(signal.SIGTERM)
        assert server.exit_code() == 0
        with pytest.raises((IncompleteRead, ConnectionError)):
            response.read()


def test_a_signal_in_any_thread_ends_the_server_even_if_a_request_left_a_thread_behind(server: Process) -> None:
    for path in ("/leave-a-thread", "/take-the-signal"):
        with closing(server.request(path)) as client:
            assert client.getresponse().status == 200
    assert server.exit_code() == 0
