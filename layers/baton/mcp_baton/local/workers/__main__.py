"""A worker process of `baton serve`: polls the Runtime API and runs the handler.

AWS's runtime interface client would do the same (`mcp_baton.transport.runtime`, which runs against this Runtime API,
too). It is not used here, since it is an extension in C++ that is built where it is installed, but on Linux.
"""

import json
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from http.client import HTTPConnection, HTTPResponse
from importlib import import_module
from typing import Any

from mcp_baton.local.gateway import InvocationContext
from mcp_baton.local.report.log import log_to_stderr
from mcp_baton.local.workers.launch import Launch
from mcp_baton.local.workers.runtime_api import RUNTIME
from mcp_baton.protocol.json import dumps

logger = logging.getLogger(__name__)

PARENT_GONE = 0


def main() -> int:
    """Work until the server that started this process ends; the exit code."""
    _end_with_the_server()
    log_to_stderr(Launch.from_environment(os.environ).log)
    api = Api(os.environ["AWS_LAMBDA_RUNTIME_API"])
    try:
        module, _, name = os.environ["_HANDLER"].rpartition(".")
        handler = getattr(import_module(module), name)
    except Exception as error:
        logger.exception("the worker could not be started")
        api.post("init/error", described(error))
        return 1
    try:
        while True:
            invoke(api, handler)
    except ConnectionError:
        return PARENT_GONE


class Api:
    """The Runtime API, over one connection.

    Args:
        address: Its `host:port`.
    """

    def __init__(self, address: str) -> None:
        self._connection = HTTPConnection(address)

    def next(self) -> tuple[HTTPResponse, bytes]:
        """The next invocation, as soon as there is one.

        Raises:
            ConnectionError: there is no server any more.
        """
        self._connection.request("GET", f"{RUNTIME}/invocation/next")
        reply = self._connection.getresponse()
        return reply, reply.read()

    def post(self, what: str, body: bytes) -> None:
        """Tell what became of an invocation, or of the start."""
        self._connection.request("POST", f"{RUNTIME}/{what}", body, {"Content-Type": "application/json"})
        self._connection.getresponse().read()


def invoke(api: Api, handler: Callable[[Any, InvocationContext], Any]) -> None:
    """Take one event, have the handler work on it, and tell what became of it.

    Raises:
        ConnectionError: there is no server any more.
    """
    reply, event = api.next()
    request_id = reply.headers["Lambda-Runtime-Aws-Request-Id"]
    left_s = int(reply.headers["Lambda-Runtime-Deadline-Ms"]) / 1000 - time.time()
    os.environ["_X_AMZN_TRACE_ID"] = reply.headers["Lambda-Runtime-Trace-Id"]
    try:
        returned = dumps(handler(json.loads(event), InvocationContext(left_s, request_id))).encode()
    except Exception as error:
        logger.exception("invocation %s failed", request_id)
        api.post(f"invocation/{request_id}/error", described(error))
    else:
        api.post(f"invocation/{request_id}/response", returned)


def described(error: Exception) -> bytes:
    """An error as the Runtime API takes it."""
    trace = traceback.format_exception(error)
    return dumps({"errorMessage": str(error), "errorType": type(error).__name__, "stackTrace": trace}).encode()


def _end_with_the_server() -> None:
    """End this process as soon as the server has ended, however that was, and whatever a tool is doing here.

    The server holds the other end of a pipe. The pipe leaves standard input, so that no tool reads it, or gives it to
    a process of its own.
    """
    pipe = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    def wait() -> None:
        os.read(pipe, 1)
        os._exit(PARENT_GONE)

    threading.Thread(target=wait, name="server", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
