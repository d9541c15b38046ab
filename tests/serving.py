"""A server in a process of its own, for tests that speak to it over HTTP."""

import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

READY = re.compile(r"Baton is listening on (?P<url>\S+)")
READY_WITHIN_S = 60.0


@contextmanager
def served(command: Sequence[str | Path], log: Path) -> Iterator[str]:
    """The address of a server, a process of its own while this lasts."""
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            yield announced(process, log)
        finally:
            process.terminate()


def announced(process: "subprocess.Popen[str]", log: Path) -> str:
    """The address that the server says it listens on; fails with its log when it says nothing in time."""
    timer = threading.Timer(READY_WITHIN_S, process.kill)
    timer.start()
    line = process.stdout.readline() if process.stdout else ""
    timer.cancel()
    ready = READY.match(line)
    if ready is None:
        pytest.fail(f"the server did not become ready:\n{line}{log.read_text(errors='replace')}")
    return ready["url"]
