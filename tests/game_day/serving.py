"""HTTP servers of the game, which containers reach at this machine's address."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import override


class Server[Subject](ThreadingHTTPServer):
    """A server whose handlers use `subject`."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, handler: type["Handler"], subject: Subject) -> None:
        super().__init__(("0.0.0.0", 0), handler)
        self.subject = subject


class Handler(BaseHTTPRequestHandler):
    """Handles requests without a log."""

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def serving(handler: type[Handler], subject: object) -> Iterator[str]:
    """Serve on all addresses. Yield the host and port for containers."""
    server = Server(handler, subject)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"host.docker.internal:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
