"""A connection to the Runtime API that is kept from one streamed answer to the next.

Plain `socket`: `http.client` costs a cold start five times as much, and cannot send trailers.
"""

import socket
from typing import cast

from mcp_baton.protocol.http import ClientGone

_MAX_REPLY_BYTES = 65_536


class RuntimeConnection:
    """HTTP/1.1 to the Runtime API, one request at a time, opened when first needed.

    Args:
        address: `host:port`, as in `AWS_LAMBDA_RUNTIME_API`.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket: socket.socket | None = None

    def begin(self, head: bytes) -> None:
        """Start a request with these bytes, on the kept connection if the other end still holds it.

        Raises:
            ClientGone: the Runtime API takes no connection.
        """
        if self._socket is not None and not _is_quiet(self._socket):
            self.drop()
        try:
            if self._socket is None:
                self._socket = _connect(self.address)
            self._socket.sendall(head)
        except OSError as error:
            self.drop()
            raise ClientGone(f"the Runtime API at {self.address} takes no answer: {error}") from error

    def send(self, data: bytes) -> None:
        """Send more of the request.

        Raises:
            ClientGone: the other end has closed the connection, or has answered before the request's end.
        """
        if self._socket is None:
            raise ClientGone("the Runtime API closed the connection")
        try:
            # A closed connection takes the first write without complaint; it would be the second that fails.
            if not _is_quiet(self._socket):
                raise ConnectionResetError("it closed the connection, or answered early")
            self._socket.sendall(data)
        except OSError as error:
            self.drop()
            raise ClientGone(f"the Runtime API gave up on the answer: {error}") from error

    def read_status(self) -> int:
        """The status that answers the request. The connection is kept only if it can take another.

        Raises:
            ClientGone: the connection ended before an answer came, or what came is none.
        """
        if self._socket is None:
            raise ClientGone("the Runtime API closed the connection")
        try:
            status, reusable = _read_reply(self._socket)
        except (OSError, ValueError, IndexError) as error:
            self.drop()
            raise ClientGone(f"the Runtime API did not acknowledge the answer: {error}") from error
        if not reusable:
            self.drop()
        return status

    def drop(self) -> None:
        """Close the connection; the next request opens another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _connect(address: str) -> socket.socket:
    host, colon, port = address.rpartition(":")
    name, number = (host.strip("[]"), int(port)) if colon else (address, 80)
    # As bytes: a text is encoded for international names, whose tables take longer to import than `socket`.
    connection = socket.create_connection((cast("str", name.encode()), number))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _is_quiet(connection: socket.socket) -> bool:
    """Whether the other end has sent nothing: between requests and within one, anything it says is the end."""
    try:
        connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _read_reply(connection: socket.socket) -> tuple[int, bool]:
    """The status of the reply, and whether exactly its body has been read, so that the connection can be used again."""
    received = b""
    while (end := received.find(b"\r\n\r\n")) < 0:
        received += _receive(connection, len(received))
    status_line, *lines = received[:end].decode("latin-1").split("\r\n")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    status = int(status_line.split(" ", 2)[1])
    if "content-length" not in fields:
        return status, False
    whole = end + 4 + int(fields["content-length"])
    while len(received) < whole:
        received += _receive(connection, len(received))
    return status, fields.get("connection", "").lower() != "close" and len(received) == whole


def _receive(connection: socket.socket, already: int) -> bytes:
    data = connection.recv(4096) if already < _MAX_REPLY_BYTES else b""
    if not data:
        raise ConnectionResetError("the reply broke off")
    return data
