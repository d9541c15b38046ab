"""`--reload`: the server is a child process, which restarts when a Python file changes (docs/commands.md, Serve). This
process keeps the listening socket and the embedded DynamoDB, so that no connection is refused and no task is lost."""

import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from mcp_baton.exceptions import BatonError, SettingsError
from mcp_baton.local.http_server import STOP_GRACE_S, end_by_force
from mcp_baton.local.log import LogLevel, log_to_stderr

logger = logging.getLogger(__name__)

AGAIN: Final = "The server starts again when a Python file changes."

type Serve = Callable[[socket.socket], int]


def restart_on_changes(folder: Path, log_level: LogLevel, listener: socket.socket, serve: Serve) -> None:
    """Run `serve` in a child process, and again after each change of a Python file in the folder, until a signal."""
    try:
        from watchfiles import PythonFilter, watch
    except ModuleNotFoundError as error:
        raise SettingsError("--reload needs the package 'watchfiles': install mcp-baton[local]") from error

    start = partial(_start, log_level, listener, serve)
    # Both signals end `watch`, also if a shell has started this process with SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    process = start()
    try:
        # Not `run_process`: it stops a child by SIGINT, for which a child that still starts prints a traceback.
        for changes in watch(folder, watch_filter=PythonFilter(), raise_interrupt=False):
            logger.info("%s has changed: restarting", Path(min(changes)[1]).name)
            _stop(process)
            process = start()
    finally:
        _stop(process)


def _start(log_level: LogLevel, listener: socket.socket, serve: Serve) -> BaseProcess:
    process = multiprocessing.get_context("spawn").Process(target=_serve_in_child, args=(log_level, listener, serve))
    process.start()
    return process


def _stop(process: BaseProcess) -> None:
    process.terminate()
    # Requests and workers have one grace period, and the end of the process another one.
    process.join(2 * STOP_GRACE_S + 1)
    process.kill()
    process.join()


def _serve_in_child(log_level: LogLevel, listener: socket.socket, serve: Serve) -> None:
    log_to_stderr(log_level)
    # Python would use the compiled old form of a file that changes twice within a second and keeps its length.
    sys.dont_write_bytecode = True
    if hasattr(os, "setsid"):
        os.setsid()  # Ctrl-C reaches only the parent, which stops this process
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    try:
        end_by_force(serve(listener))
    except BatonError as error:
        logger.error("the server cannot be started: %s\n%s", error, AGAIN)  # noqa: TRY400 - the user needs the reason


def _end_with_parent() -> None:
    """End this process as soon as its parent has ended, even if that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
