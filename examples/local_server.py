"""`baton serve` as a process that is always stopped."""

import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from typing import IO

READY = "Baton is listening on "
READY_WITHIN_S = 30.0
STOPPED_WITHIN_S = 5.0


class NotServing(Exception):
    """The server did not become ready. The message contains its output."""


@contextmanager
def serving(target: Path, *options: str) -> Iterator[str]:
    """Serve a Python file's server on a free port during the block, and yield its URL.

    Raises:
        NotServing: the server ended, or did not become ready in time.
    """
    command = [str(Path(sysconfig.get_path("scripts")) / "baton"), "serve", str(target), "--port", "0", *options]
    with (
        TemporaryFile("w+") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            yield _url(process, log)
        finally:
            _stop(process)


def _url(process: "subprocess.Popen[str]", log: IO[str]) -> str:
    # If the server is killed, `readline` returns.
    limit = Timer(READY_WITHIN_S, process.kill)
    limit.start()
    try:
        line = process.stdout.readline() if process.stdout else ""
    finally:
        limit.cancel()
    if not line.startswith(READY):
        log.seek(0)
        raise NotServing(f"`baton serve` did not become ready:\n{log.read().strip()}")
    return line.removeprefix(READY).strip()


def _stop(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.wait(STOPPED_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
