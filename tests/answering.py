"""Small HTTP servers in threads, each of which is one function from a request to an answer."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, override


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. If it has pieces instead of a body, they are sent one after the other."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    pieces: Iterator[bytes] | None = None

    @classmethod
    def json(cls, value: Any, status: int = 200) -> Self:
        return cls(status, {"Content-Type": "application/json"}, json.dumps(value).encode())


class Refusal(Exception):
    """A request is refused with an OAuth error."""


@contextmanager
def answering(
    answer: Callable[[Request], Answer], tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> Iterator[str]:
    """Serve, and yield the address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = answer(Request(self.command, self.path, headers, body))
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            length = ("Content-Length", str(len(reply.body)))
            self.send_header(*(length if reply.pieces is None else ("Connection", "close")))
            self.end_headers()
            for piece in (reply.body,) if reply.pieces is None else reply.pieces:
                self.wfile.write(piece)
                self.wfile.flush()

        do_GET = do_POST = do_DELETE = do_OPTIONS = handle_any  # noqa: N815

        @override
        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 256

    server = Server((host, 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    # `shutdown` takes as long as this interval, and half a second by default.
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"{'https' if tls else 'http'}://{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
