"""An HTTP server whose responses a test gives byte for byte."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

KEEP, CLOSE, HANG = "keep", "close", "hang"


@dataclass(frozen=True, slots=True)
class Told:
    """The server's response to one request, and what it does with the connection afterwards.

    Attributes:
        data: Sent at once. The server then sends each of `pieces` by itself.
    """

    data: bytes = b""
    then: str = KEEP
    pieces: tuple[bytes, ...] = ()


@dataclass(slots=True)
class Scripted:
    """The server.

    Attributes:
        answer: Makes the answer to a request of this head and body.
        requests: The heads and bodies of the requests.
        connections: How many were opened.
    """

    answer: Callable[[str, bytes], Told]
    port: int = 0
    requests: list[tuple[str, bytes]] = field(default_factory=list)
    connections: int = 0
    closing: list[socket.socket] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close_idle(self) -> None:
        """Close the connections that it holds."""
        while self.closing:
            with suppress(OSError):
                self.closing.pop().shutdown(socket.SHUT_RDWR)


@contextmanager
def scripted(answer: Callable[[str, bytes], Told] | Told) -> Iterator[Scripted]:
    server = Scripted((lambda _head, _body: answer) if isinstance(answer, Told) else answer)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server.port = listener.getsockname()[1]
        threading.Thread(target=_accept, args=(server, listener), daemon=True).start()
        try:
            yield server
        finally:
            server.over.set()
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            server.close_idle()


def _accept(server: Scripted, listener: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.connections += 1
            server.closing.append(connection)
            threading.Thread(target=_serve, args=(server, connection), daemon=True).start()


def _serve(server: Scripted, connection: socket.socket) -> None:
    with suppress(OSError, ValueError), connection, connection.makefile("rb") as reader:
        while (request := _request(reader)) is not None:
            server.requests.append(request)
            reported = server.answer(*request)
            for piece in (reported.data, *reported.pieces):
                connection.sendall(piece)
            if reported.then == CLOSE:
                connection.shutdown(socket.SHUT_RDWR)
                return
            if reported.then == HANG:
                server.over.wait(10)
                return


def _request(reader: Any) -> tuple[str, bytes] | None:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = reader.readline()
        if not line:
            return None
        head += line
    text = head.decode("latin-1")
    [length] = [int(line.partition(":")[2]) for line in text.split("\r\n") if line.lower().startswith("content-length")]
    return text, reader.read(length)
