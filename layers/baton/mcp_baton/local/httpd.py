"""HTTP in front of a Lambda handler: what API Gateway and Lambda do to a request in the cloud, in one process.

Requests run in parallel, each in its connection's thread, and nothing that a client sends or does ends the server.
"""

import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, override

from mcp_baton.local.body import Disconnected
from mcp_baton.local.connection import Connection
from mcp_baton.local.gateway import InvocationContext

logger = logging.getLogger(__name__)

type LambdaHandler = Callable[[dict[str, Any], InvocationContext], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Function:
    """The function that is served.

    Attributes:
        handler: The Lambda handler.
        timeout_s: Seconds that each invocation is given.
        owner_header: The header that names a request's owner; `None` when callers stay anonymous.
    """

    handler: LambdaHandler
    timeout_s: float
    owner_header: str | None = None


class LocalServer(ThreadingHTTPServer):
    """Serves a function. Bound once it is made; port 0 takes a free one (`server_port` tells which).

    Raises:
        OSError: the address cannot be had.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, host: str, port: int, function: Function) -> None:
        self.function = function
        self._busy = 0
        self._idle = threading.Condition()
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        self.address_family = family
        super().__init__((str(address[0]), port), Connection)

    @override
    def server_bind(self) -> None:
        """Bind, without the look-up of the host's full name that `HTTPServer` does, which can take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """While a request is being answered."""
        with self._idle:
            self._busy += 1
        try:
            yield
        finally:
            with self._idle:
                self._busy -= 1
                self._idle.notify_all()

    def drain(self, grace_s: float) -> int:
        """Wait until no request is being answered, `grace_s` seconds at most; how many still are."""
        with self._idle:
            self._idle.wait_for(lambda: self._busy == 0, timeout=grace_s)
            return self._busy

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Log what a connection's thread died of. A client that went away is no error."""
        error = sys.exception()
        if isinstance(error, (OSError, Disconnected)):
            logger.info("%s went away: %s", client_address, error or "in the middle of a request")
        else:
            logger.error("the connection of %s failed", client_address, exc_info=error)
