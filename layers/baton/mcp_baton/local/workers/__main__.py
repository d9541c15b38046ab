"""A worker process of `baton serve`: polls the Runtime API and runs the handler.

AWS's runtime interface client (`mcp_baton.transport.runtime`) also works with this Runtime API. It is not used here,
because outside Linux its C++ extension has to be compiled.
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
from mcp_baton.local.log import log_to_stderr
from mcp_baton.local.workers.function import Launch
from mcp_baton.local.workers.runtime_api import RUNTIME
from mcp_baton.protocol.json import dumps

logger = logging.getLogger(__name__)

PARENT_ENDED = 0


def main() -> int:
    """Work until the server that started this process ends. Return the exit code."""
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
        return PARENT_ENDED


class Api:
    """The Runtime API, over one connection.

    Args:
        address: Its `host:port`.
    """

    def __init__(self, address: str) -> None:
        self._connection = HTTPConnection(address)

    def next(self) -> tuple[HTTPResponse, bytes]:
        """Wait for the next invocation.

        Raises:
            ConnectionError: the server has ended.
        """
        self._connection.request("GET", f"{RUNTIME}/invocation/next")
        reply = self._connection.getresponse()
        return reply, reply.read()

    def post(self, what: str, body: bytes) -> None:
        """Report the outcome of an invocation, or a failed start."""
        self._connection.request("POST", f"{RUNTIME}/{what}", body, {"Content-Type": "application/json"})
        self._connection.getresponse().read()


def invoke(api: Api, handler: Callable[[Any, InvocationContext], Any]) -> None:
    """Process one event and report the outcome.

    Raises:
        ConnectionError: the server has ended.
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
    """Return an error in the form of the Runtime API."""
    trace = traceback.format_exception(error)
    return dumps({"errorMessage": str(error), "errorType": type(error).__name__, "stackTrace": trace}).encode()


def _end_with_the_server() -> None:
    """Exit this process as soon as the server has ended, even if it was killed and a tool is running here.

    The server holds the other end of a pipe. The pipe is moved away from standard input, so that no tool reads it or
    passes it to another process.
    """
    pipe = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    def wait() -> None:
        os.read(pipe, 1)
        os._exit(PARENT_ENDED)

    threading.Thread(target=wait, name="server", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
