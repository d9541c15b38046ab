"""Processes that tests start, and programs that tests need and may not find."""

import os
import socket
import subprocess
import time
from contextlib import closing
from http.client import HTTPConnection
from typing import NoReturn

import pytest

READY_WITHIN_S = 60.0


def missing(reason: str) -> NoReturn:
    """Skip what needs a program that is not installed; in CI that is a failure."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def becomes_ready(process: "subprocess.Popen[bytes]", port: int, path: str, status: int) -> bool:
    """Wait until a process answers a GET with this status; false when it ended or took too long."""
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        with closing(HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
            try:
                connection.request("GET", path)
                if connection.getresponse().status == status:
                    return True
            except OSError:
                pass
        time.sleep(0.05)
    return False
