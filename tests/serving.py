"""A server in its own process, for tests that call it over HTTP."""

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
    """Run a server as a process. Yield its address, and terminate it at the end."""
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            yield announced_address(process, log)
        finally:
            process.terminate()


def announced_address(process: "subprocess.Popen[str]", log: Path) -> str:
    """Return the address that the server announces. If it announces none in time, fail with its log."""
    timer = threading.Timer(READY_WITHIN_S, process.kill)
    timer.start()
    line = process.stdout.readline() if process.stdout else ""
    timer.cancel()
    ready = READY.match(line)
    if ready is None:
        pytest.fail(f"the server did not become ready:\n{line}{log.read_text(errors='replace')}")
    return ready["url"]
