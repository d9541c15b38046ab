"""An HTTP server that sends the exact bytes that a test specifies."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

KEEP, CLOSE = "keep", "close"


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """The server's response to each request, and what it does with the connection afterwards.

    Attributes:
        data: Sent at once. The server then sends each of `pieces` by itself.
    """

    data: bytes = b""
    then: str = KEEP
    pieces: tuple[bytes, ...] = ()


@dataclass(slots=True)
class Scripted:
    reply: ScriptedReply
    port: int = 0
    connections: int = 0
    closing: list[socket.socket] = field(default_factory=list)


@contextmanager
def scripted(reply: ScriptedReply) -> Iterator[Scripted]:
    server = Scripted(reply)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server.port = listener.getsockname()[1]
        accepting = threading.Thread(target=_accept, args=(server, listener), daemon=True)
        accepting.start()
        try:
            yield server
        finally:
            for open_socket in (listener, *server.closing):
                with suppress(OSError):
                    open_socket.shutdown(socket.SHUT_RDWR)
            accepting.join()  # before another socket gets the number of the listener


def _accept(server: Scripted, listener: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.connections += 1
            server.closing.append(connection)
            threading.Thread(target=_serve, args=(server.reply, connection), daemon=True).start()


def _serve(reply: ScriptedReply, connection: socket.socket) -> None:
    """Answer requests. Requests have no bodies."""
    with suppress(OSError), connection, connection.makefile("rb") as reader:
        while line := reader.readline():
            if line != b"\r\n":
                continue
            for piece in (reply.data, *reply.pieces):
                connection.sendall(piece)
            if reply.then == CLOSE:
                connection.shutdown(socket.SHUT_RDWR)
                return
