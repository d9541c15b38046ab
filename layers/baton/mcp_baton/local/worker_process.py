"""A worker process of `baton serve`: runs background tasks, as a second Lambda function would (`worker_pool`).

The pool sends one event at a time. The process answers with the outcome, after the events that it dispatches.
"""

import logging
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from typing import Any

from mcp_baton.aws import dynamodb_store, handler
from mcp_baton.local.dynamodb import http_client
from mcp_baton.local.gateway import InvocationContext
from mcp_baton.local.loader import load
from mcp_baton.local.log import PLAIN, LogStyle, log_to_stderr
from mcp_baton.local.request_log import with_entries
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.server import Server
from mcp_baton.settings import Settings

logger = logging.getLogger(__name__)

type Handler = Callable[[dict[str, Any], InvocationContext], dict[str, Any] | None]


@dataclass(frozen=True, slots=True)
class Launch:
    """The settings of a worker process."""

    target: str
    table: str
    dynamodb: str
    settings: Settings
    log: LogStyle = PLAIN


class Channel:
    """The connection to the pool. Implements `tasks.jobs.Dispatcher`."""

    def __init__(self, connection: "Connection[Any, Any]", launch: Launch) -> None:
        # Processes that a tool starts must not keep the connection open.
        os.set_inheritable(connection.fileno(), False)
        self.launch = launch
        self._connection = connection
        self._sending = threading.Lock()

    def dispatch(self, event: JsonObject) -> None:
        with self._sending:
            self._connection.send({"event": event})

    def reply(self, failure: str | None) -> None:
        """Report an outcome; `None` if the handler returned."""
        with self._sending:
            self._connection.send({"failure": failure})

    def invoke(self, handler: Handler) -> None:
        """Wait for an event, process it and report the outcome."""
        event, request_id, timeout_s = self._connection.recv()
        failure = None
        try:
            handler(event, InvocationContext(timeout_s, request_id))
        except Exception as error:
            logger.exception("invocation %s failed", request_id)
            failure = f"{type(error).__name__}: {error}"
        self.reply(failure)


def work(make: Callable[[Channel], Handler], launch: Launch, connection: "Connection[Any, Any]") -> None:
    """Process events until the server ends."""
    # In a session of its own, Ctrl-C does not reach the process, and those that a tool starts are killed with it.
    if hasattr(os, "setsid"):
        os.setsid()
    # Tools read an empty input and print to standard error.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    threading.Thread(target=_end_with_server, daemon=True).start()
    log_to_stderr(launch.log)
    channel = Channel(connection, launch)
    try:
        handle = make(channel)
    except Exception as error:
        logger.exception("the worker could not be started")
        channel.reply(f"it could not be started: {type(error).__name__}: {error}")
        sys.exit(1)
    channel.reply(None)
    while True:
        channel.invoke(handle)


def _end_with_server() -> None:
    """Exit as soon as the server has ended, even if a tool is running."""
    server = parent_process()
    if server is not None:
        wait([server.sentinel])
        os._exit(0)


def served_handler(channel: Channel) -> Handler:
    """Return the handler of the served server, over the same table."""
    launch, client = channel.launch, http_client(channel.launch.dynamodb)
    store = dynamodb_store(launch.table, launch.settings, connect=lambda: client)
    server = load(launch.target, Server)
    return with_entries(handler(server, settings=launch.settings, store=store, dispatcher=channel))
