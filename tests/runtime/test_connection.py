"""The kept connection, against replies as they can come: in pieces, with bodies, without an end."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from threading import Thread

import pytest

from mcp_baton.protocol.http import ClientGone
from mcp_baton.transport.runtime.connection import RuntimeConnection
from tests.runtime.delivery import PATIENCE_S

REQUEST = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
ACCEPTED = b"HTTP/1.1 202 Accepted\r\n"


class Scripted:
    """Answers each request with the same pieces.

    Args:
        pieces: What it sends.
        stays: Whether it waits for another request on the same connection.

    Attributes:
        address: `host:port`.
        connections: How many were opened.
    """

    def __init__(self, *pieces: bytes, stays: bool = True) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pieces = pieces
        self._stays = stays
        self.address = "{}:{}".format(*self._listener.getsockname())
        self.connections = 0
        self._thread = Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE_S)

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with connection, suppress(OSError):
                    while _takes_a_request(connection):
                        for piece in self._pieces:
                            connection.sendall(piece)
                        if not self._stays:
                            break


def _takes_a_request(connection: socket.socket) -> bool:
    received = b""
    while not received.endswith(b"\r\n0\r\n\r\n"):
        data = connection.recv(4096)
        if not data:
            return False
        received += data
    return True


type Connect = Callable[[Scripted], RuntimeConnection]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Connects to a server; both are closed when the test ends."""
    with ExitStack() as opened:

        def to(server: Scripted) -> RuntimeConnection:
            opened.enter_context(closing(server))
            connection = RuntimeConnection(server.address)
            opened.callback(connection.drop)
            return connection

        yield to


@pytest.mark.parametrize(
    ("pieces", "connections"),
    [
        pytest.param([ACCEPTED + b"Content-Length: 16\r\n\r\n", b'{"status":"OK"}\n'], 1, id="a body of its own"),
        pytest.param([b"HTTP/1.", b"1 202 Accepted\r\nContent-Le", b"ngth: 2\r\n\r", b"\nOK"], 1, id="in pieces"),
        pytest.param([ACCEPTED + b"CONTENT-LENGTH:0\r\n\r\n"], 1, id="in capitals"),
        pytest.param([ACCEPTED + b"Content-Length: 0\r\nConnection: Close\r\n\r\n"], 2, id="the last on this one"),
        pytest.param([ACCEPTED + b"Transfer-Encoding: chunked\r\n\r\n2\r\nOK\r\n0\r\n\r\n"], 2, id="without a length"),
        pytest.param([ACCEPTED + b"Content-Length: 2\r\n\r\nOKHTTP/1.1 500 -\r\n\r\n"], 2, id="more than one reply"),
    ],
)
def test_a_connection_is_kept_when_the_whole_reply_and_nothing_else_has_come(
    connect: Connect, pieces: list[bytes], connections: int
) -> None:
    server = Scripted(*pieces)
    connection = connect(server)
    statuses = []
    for _ in range(2):
        connection.begin(REQUEST)
        statuses.append(connection.read_status())
    assert (statuses, server.connections) == ([202, 202], connections)


@pytest.mark.parametrize(
    "pieces", [[], [b"HTTP/1.1 202 Acc"], [b"x" * 100_000], [ACCEPTED + b"Content-Length: 99\r\n\r\nhalf"]]
)
def test_a_reply_that_breaks_off_or_has_no_end_is_the_answers_end_and_no_crash(
    connect: Connect, pieces: list[bytes]
) -> None:
    connection = connect(Scripted(*pieces, stays=False))
    connection.begin(REQUEST)
    with pytest.raises(ClientGone):
        connection.read_status()


@pytest.mark.parametrize("reply", [b"HTTP/1.1\r\n\r\n", b"hello\r\n\r\n", ACCEPTED + b"Content-Length: many\r\n\r\n"])
def test_a_reply_that_is_not_http_is_the_answers_end_and_no_crash(connect: Connect, reply: bytes) -> None:
    connection = connect(Scripted(reply))
    connection.begin(REQUEST)
    with pytest.raises(ClientGone):
        connection.read_status()
