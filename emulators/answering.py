"""HTTP servers in threads, each of which is one function from a request to an answer.

They keep connections, as services of AWS do. `mcp_baton.local.http_server`, which serves people, closes each one, so
that no test or benchmark could count or time requests on a kept connection.
"""

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, override


@dataclass(frozen=True, slots=True)
class Request:
    """A request. The names of its headers are in lower case."""

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


@contextmanager
def answering(
    answer: Callable[[Request], Answer | None], tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> Iterator[str]:
    """Serve, and yield the address. A request whose answer is None gets none: its connection is closed."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        @override
        def handle(self) -> None:
            # Clients give up, and processes are killed, while their requests are here.
            with suppress(OSError):
                super().handle()

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = answer(Request(self.command, self.path, headers, body))
            if reply is None:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            length = ("Content-Length", str(len(reply.body)))
            self.send_header(*(length if reply.pieces is None else ("Connection", "close")))
            self.end_headers()
            for piece in (reply.body,) if reply.pieces is None else reply.pieces:
                self.wfile.write(piece)
                self.wfile.flush()

        do_GET = do_POST = do_PUT = do_DELETE = do_OPTIONS = handle_any  # noqa: N815

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
