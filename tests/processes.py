"""Processes that tests start, and required programs that may be missing."""

import os
import shutil
import socket
import subprocess
import time
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from random import SystemRandom
from typing import NoReturn

import pytest

READY_WITHIN_S = 60.0
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser")


def missing(reason: str) -> NoReturn:
    """Skip the test because a program is missing. In CI, fail instead."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def chromium_path() -> Path | None:
    """Return the path of Chromium: the value of CHROMIUM, or the program in PATH. `None` if there is none."""
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    return Path(path) if path else None


def free_port() -> int:
    """Return a free port below those that the system chooses. It could give one of those to another socket before the
    server starts, or while it restarts."""
    for port in SystemRandom().sample(range(20_000, 30_000), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError("no port is free")


def becomes_ready(process: "subprocess.Popen[bytes]", port: int, path: str, status: int) -> bool:
    """Wait until a GET to a process returns this status. Return false if the process ends or takes too long."""
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
