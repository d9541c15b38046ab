"""A connection to the Runtime API, which is reused for the next streamed response.

It uses `socket`, because importing `http.client` takes five times as long, and it cannot send trailers.
"""

import socket
from typing import cast

from mcp_baton.protocol.http import ClientGone

_MAX_REPLY_BYTES = 65_536


class RuntimeConnection:
    """HTTP/1.1 to the Runtime API (`host:port`), one request at a time. The connection is opened at first use."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket: socket.socket | None = None

    def begin(self, head: bytes) -> None:
        """Send the first bytes of a request, on the open connection if it is still usable. Raises `ClientGone` if the
        Runtime API does not accept the connection."""
        if self._socket is not None and not _is_quiet(self._socket):
            self.drop()
        try:
            if self._socket is None:
                self._socket = _connect(self.address)
            self._socket.sendall(head)
        except OSError as error:
            self.drop()
            raise ClientGone(f"the Runtime API at {self.address} does not accept a response: {error}") from error

    def send(self, data: bytes) -> None:
        """Send more of the request. Raises `ClientGone` if the Runtime API closed the connection, or replied before the
        end of the request."""
        if self._socket is None:
            raise ClientGone("the Runtime API closed the connection")
        try:
            # Only the second write to a closed connection fails.
            if not _is_quiet(self._socket):
                raise ConnectionResetError("it closed the connection, or replied early")
            self._socket.sendall(data)
        except OSError as error:
            self.drop()
            raise ClientGone(f"the Runtime API aborted the response: {error}") from error

    def read_status(self) -> int:
        """Return the HTTP status of the reply. The connection stays open only if it can be reused. Raises `ClientGone`
        if the connection was closed before the reply, or the reply is not HTTP."""
        if self._socket is None:
            raise ClientGone("the Runtime API closed the connection")
        try:
            status, reusable = _read_reply(self._socket)
        except (OSError, ValueError, IndexError) as error:
            self.drop()
            raise ClientGone(f"the Runtime API did not acknowledge the response: {error}") from error
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
    # As bytes: for a `str`, Python imports the IDNA codec, which takes longer than importing `socket`.
    connection = socket.create_connection((cast("str", name.encode()), number))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _is_quiet(connection: socket.socket) -> bool:
    """Return whether the peer has sent nothing. Any data before the end of a request means that it is giving up."""
    try:
        connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _read_reply(connection: socket.socket) -> tuple[int, bool]:
    """Return the status of the reply, and whether the connection can be reused: exactly the reply has been read."""
    reply = b""
    while (end := reply.find(b"\r\n\r\n")) < 0:
        reply += _receive(connection, len(reply))
    status_line, *lines = reply[:end].decode("latin-1").split("\r\n")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    status = int(status_line.split(" ", 2)[1])
    if "content-length" not in fields:
        return status, False
    length = end + 4 + int(fields["content-length"])
    while len(reply) < length:
        reply += _receive(connection, len(reply))
    return status, fields.get("connection", "").lower() != "close" and len(reply) == length


def _receive(connection: socket.socket, already: int) -> bytes:
    data = connection.recv(4096) if already < _MAX_REPLY_BYTES else b""
    if not data:
        raise ConnectionResetError("the reply is incomplete")
    return data
