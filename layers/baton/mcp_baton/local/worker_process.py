"""A worker process of `baton serve`: runs background tasks, as a second Lambda function would (`worker_pool`).

The pool writes one JSON document per line to its standard input: its settings, and then one event at a time. The
process writes the outcome of each event, and the events that it dispatches, to its standard output.
"""

import json
import logging
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from msgspec.json import decode

from mcp_baton.aws import dynamodb_store, handler
from mcp_baton.local.dynamodb import http_client
from mcp_baton.local.gateway import InvocationContext
from mcp_baton.local.loader import load
from mcp_baton.local.log import PLAIN, LogStyle, log_to_stderr
from mcp_baton.local.request_log import with_task_log
from mcp_baton.protocol.json import JsonObject, dumps
from mcp_baton.server.server import Server
from mcp_baton.settings import Settings

logger = logging.getLogger(__name__)

type Handler = Callable[[dict[str, Any], InvocationContext], dict[str, Any] | None]


@dataclass(frozen=True, slots=True)
class Launch:
    """The settings of a worker process. `path` is the `sys.path` of `baton serve`."""

    target: str
    table: str
    dynamodb: str
    settings: Settings
    log: LogStyle = PLAIN
    path: tuple[str, ...] = ()


class Channel:
    """The connection to the pool. Implements `tasks.jobs.Dispatcher`.

    It takes over standard input and output, so that no tool reads or writes the pool's lines: tools read an empty
    input, and print to standard error.
    """

    def __init__(self) -> None:
        self._source, self._sink = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
        self._writing = threading.Lock()
        with open(os.devnull) as null_device:  # noqa: PTH123 - a file descriptor is needed
            os.dup2(null_device.fileno(), 0)
        os.dup2(2, 1)
        self.launch = decode(self._source.readline(), type=Launch)
        self._events: SimpleQueue[dict[str, Any]] = SimpleQueue()

    def listen(self) -> None:
        """Receive events. The process exits as soon as the server has ended, even if a tool is running."""

        def read() -> None:
            for line in self._source:
                self._events.put(json.loads(line))
            os._exit(0)

        threading.Thread(target=read, name="server", daemon=True).start()

    def dispatch(self, event: JsonObject) -> None:
        self._write({"event": event})

    def reply(self, failure: str | None) -> None:
        """Report an outcome; `None` if the handler returned."""
        self._write({"failure": failure})

    def invoke(self, handler: Handler) -> None:
        """Wait for an event, process it and report the outcome."""
        message = self._events.get()
        request_id, failure = message["id"], None
        try:
            handler(message["event"], InvocationContext(message["timeout_s"], request_id))
        except Exception as error:
            logger.exception("invocation %s failed", request_id)
            failure = f"{type(error).__name__}: {error}"
        self.reply(failure)

    def _write(self, document: JsonObject) -> None:
        with self._writing:
            self._sink.write(f"{dumps(document)}\n")
            self._sink.flush()


def work(make: Callable[[Channel], Handler]) -> int:
    """Process events until the server ends. Return the exit code of a process that could not be started."""
    channel = Channel()
    log_to_stderr(channel.launch.log)
    channel.listen()
    try:
        handle = make(channel)
    except Exception as error:
        logger.exception("the worker could not be started")
        channel.reply(f"it could not be started: {type(error).__name__}: {error}")
        return 1
    channel.reply(None)
    while True:
        channel.invoke(handle)


def served_handler(channel: Channel) -> Handler:
    """Return a handler of the server that `baton serve` serves, with the same table."""
    launch, client = channel.launch, http_client(channel.launch.dynamodb)
    sys.path[:] = [*launch.path, *(entry for entry in sys.path if entry not in launch.path)]
    store = dynamodb_store(launch.table, launch.settings, connect=lambda: client)
    server = load(launch.target, Server)
    return with_task_log(handler(server, settings=launch.settings, store=store, dispatcher=channel))


if __name__ == "__main__":
    sys.exit(work(served_handler))
