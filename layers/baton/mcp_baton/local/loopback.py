"""Small HTTP servers on loopback, for processes that `baton serve` has started. Python's own server carries them."""

import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from threading import Thread
from typing import override

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
BROWSERS = ("origin", "sec-fetch-site", "sec-fetch-mode")
"""Headers that pages cannot leave out (Fetch Standard, forbidden request-headers). No worker sends one."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request. Header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """Its answer."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class LoopbackServer(ThreadingTCPServer):
    """A server on a free port of 127.0.0.1, each connection in a thread of its own. It serves once it is made.

    It refuses browsers and other names than its address, so that no page reaches it.

    Args:
        answer: Answers a request; `None` closes the connection without an answer.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, answer: Callable[[Call], Reply | None]) -> None:
        super().__init__((HOST, 0), Connection)
        self.answer = answer
        self.address = f"{HOST}:{self.server_address[1]}"
        Thread(target=self.serve_forever, args=(0.5,), name=f"loopback {self.address}", daemon=True).start()

    def close(self) -> None:
        """Take no more connections. Those that there are end with their clients."""
        self.shutdown()
        self.server_close()

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Log what a connection died of. A client that was killed is no error."""
        error = sys.exception()
        if isinstance(error, OSError):
            logger.debug("%s went away: %s", client_address, error)
        else:
            logger.error("the connection of %s failed", client_address, exc_info=error)


class Connection(BaseHTTPRequestHandler):
    """One client's connection, kept open between its requests."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: LoopbackServer

    def do_GET(self) -> None:
        """Answer."""
        self._answer()

    def do_POST(self) -> None:
        """Answer."""
        self._answer()

    def _answer(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        refused = refusal(headers, self.server.address)
        if refused is not None:
            self.close_connection = True
            self._send(refused)
            return
        body = self.rfile.read(int(headers.get("content-length", "0")))
        reply = self.server.answer(Call(self.command, self.path, headers, body))
        if reply is None:
            self.close_connection = True
        else:
            self._send(reply)

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Leave requests of Baton's own processes out of the log."""


def refusal(headers: Mapping[str, str], address: str) -> Reply | None:
    """The answer to a request that is not a worker's; `None` for one that may be."""
    if is_from_page(headers, lambda host: host == address):
        return Reply(403, body=b"for the processes of baton serve alone\n")
    if "transfer-encoding" in headers or not headers.get("content-length", "0").isdecimal():
        return Reply(411, body=b"send a body with its length\n")
    return None


def is_from_page(headers: Mapping[str, str], is_own: Callable[[str], bool]) -> bool:
    """Whether a web page may have sent a request with these headers.

    Args:
        headers: By their names in lower case.
        is_own: Whether a `Host` is the server's. A page may reach this machine by a name that the page's owner gave it.
    """
    return not is_own(headers.get("host", "")) or any(name in headers for name in BROWSERS)
