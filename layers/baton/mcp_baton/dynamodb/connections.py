"""HTTP/1.1 connections to one DynamoDB, kept for the next request.

Plain sockets: `http.client` takes as long to import as all that is imported here, and parses each answer's headers with
the package `email`.
"""

import select
import socket
from typing import TYPE_CHECKING, Final, cast

from mcp_baton.dynamodb.requests import NoAnswer, NotConnected
from mcp_baton.light_dataclasses import dataclass

if TYPE_CHECKING:
    from ssl import SSLContext

KEPT: Final = 10
"""How many idle connections are kept, as botocore's client keeps them."""

MAX_HEAD_BYTES: Final = 65_536
MAX_BODY_BYTES: Final = 16_777_216
"""DynamoDB's largest answer is a page of 1 MB, which grows in JSON: a null takes one byte there and thirteen here."""

_PIECE_BYTES: Final = 65_536

type Answer = tuple[int, dict[str, str], bytes]
"""Status, headers by their names in lower case, and body."""

PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A DynamoDB.

    Attributes:
        region: The region that requests are signed for.
        host: Its name or IPv4 address.
        port: Its port.
        path: The path of its requests.
        certificates: The file of the certificate authorities that may vouch for it; `None` without TLS.
    """

    region: str
    host: str
    port: int
    path: str = "/"
    certificates: str | None = None

    @property
    def authority(self) -> str:
        """What the header `Host` says."""
        default = PORTS["http" if self.certificates is None else "https"]
        return self.host if self.port == default else f"{self.host}:{self.port}"


class Connections:
    """Connections to a DynamoDB, for any number of threads, each of which has one to itself during a request.

    Args:
        endpoint: The DynamoDB.
        connect_timeout_s: How long opening a connection may take, and each step of TLS's handshake.
        read_timeout_s: How long sending may take, and waiting for each part of the answer.
    """

    def __init__(self, endpoint: Endpoint, connect_timeout_s: float, read_timeout_s: float) -> None:
        # The last one first: what is used seldom is closed by the other end. `append` and `pop` are atomic.
        self._idle: list[socket.socket] = []
        self._endpoint = endpoint
        self._connect_timeout_s = connect_timeout_s
        self._read_timeout_s = read_timeout_s
        self._tls = None if endpoint.certificates is None else _tls(endpoint.certificates)

    def exchange(self, request: bytes) -> Answer:
        """Send a request and read its answer.

        Raises:
            NotConnected: no connection came about; nothing was sent.
            NoAnswer: the request was sent, whole or in part, and no whole answer came.
        """
        connection = self._kept() or self._opened()
        kept = False
        try:
            connection.sendall(request)
            answer, kept = _read(connection)
        except (OSError, ValueError) as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from error
        finally:
            # Whatever has interrupted the exchange: what comes on this connection would be read for the next answer.
            if kept and len(self._idle) < KEPT:
                self._idle.append(connection)
            else:
                connection.close()
        return answer

    def close(self) -> None:
        """Close the connections that are kept. Others may be opened after that."""
        while self._idle:
            self._idle.pop().close()

    __del__ = close

    def _kept(self) -> socket.socket | None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if _is_quiet(connection):
                return connection
            connection.close()

    def _opened(self) -> socket.socket:
        # As bytes: a text is encoded for international names, whose tables take longer to import than all else here.
        host = self._endpoint.host.encode()
        opened: socket.socket | None = None
        try:
            opened = socket.create_connection((cast("str", host), self._endpoint.port), self._connect_timeout_s)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._tls is not None:
                opened = self._tls.wrap_socket(opened, server_hostname=host)
            opened.settimeout(self._read_timeout_s)
        except OSError as error:
            if opened is not None:
                opened.close()
            raise NotConnected(f"{type(error).__name__}: {error}") from error
        return opened


def _tls(certificates: str) -> "SSLContext":
    """TLS 1.2 or later, to whoever has the name that was asked for, by these authorities' word and no others'."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(certificates)
    return context


def _is_quiet(connection: socket.socket) -> bool:
    """Whether the other end has neither closed the connection nor sent anything: between requests it has no reason."""
    # What TLS has decrypted already is not at the socket any more.
    pending = getattr(connection, "pending", None)
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    return not (pending and pending()) and not poller.poll(0)


def _read(connection: socket.socket) -> tuple[Answer, bool]:
    """An answer, and whether exactly it has been read of a connection that stays open.

    Raises:
        OSError: the connection broke off, or nothing came for too long.
        ValueError: it is no answer of HTTP/1.1, or is too large.
    """
    received = bytearray()
    while (end := received.find(b"\r\n\r\n")) < 0:
        if len(received) > MAX_HEAD_BYTES:
            raise ValueError("the headers of the answer do not end")
        _receive(connection, received)
    version, status, headers = _head(received[:end].decode("latin-1"))
    del received[: end + 4]
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = _chunks(connection, received)
    else:
        body = _take(connection, received, _length(headers.get("content-length", "none"), 10))
    stays = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close" and not received
    return (status, headers, body), stays


def _head(text: str) -> tuple[str, int, dict[str, str]]:
    first, *lines = text.split("\r\n")
    version, _, rest = first.partition(" ")
    status = rest[:3]
    if version not in ("HTTP/1.1", "HTTP/1.0") or not (status.isascii() and status.isdigit() and status >= "200"):
        raise ValueError(f"the answer begins with {first[:40]!r}")
    fields = (line.partition(":") for line in lines)
    return version, int(status), {name.lower(): value.strip() for name, _, value in fields}


def _length(text: str, base: int) -> int:
    """A number of bytes.

    Raises:
        ValueError: it is none, or more than is read.
    """
    length = int(text, base) if text.isascii() and text.isalnum() else -1
    if not 0 <= length <= MAX_BODY_BYTES:
        raise ValueError(f"the answer's length is {text[:40]!r}")
    return length


def _chunks(connection: socket.socket, received: bytearray) -> bytes:
    """A body in chunks: RFC 9112, section 7.1. DynamoDB sends none; servers that stand in for it may."""
    body = bytearray()
    while length := _length(_line(connection, received).partition(b";")[0].strip().decode("latin-1"), 16):
        body += _take(connection, received, length)
        if _line(connection, received) or len(body) > MAX_BODY_BYTES:
            raise ValueError("a chunk of the answer is longer than it says, or there are too many")
    while _line(connection, received):
        pass
    return bytes(body)


def _line(connection: socket.socket, received: bytearray) -> bytes:
    while (end := received.find(b"\r\n")) < 0:
        if len(received) > MAX_HEAD_BYTES:
            raise ValueError("a line of the answer does not end")
        _receive(connection, received)
    line = bytes(received[:end])
    del received[: end + 2]
    return line


def _take(connection: socket.socket, received: bytearray, length: int) -> bytes:
    while len(received) < length:
        _receive(connection, received)
    taken = bytes(received[:length])
    del received[:length]
    return taken


def _receive(connection: socket.socket, received: bytearray) -> None:
    data = connection.recv(_PIECE_BYTES)
    if not data:
        raise ConnectionResetError("the answer broke off")
    received += data
