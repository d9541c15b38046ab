"""The body of an HTTP/1.1 request, read off a connection (RFC 9112, sections 6 and 7)."""

import re
from email.message import Message
from io import BufferedIOBase

MAX_LINE = 4096
MAX_TRAILERS = 100
_HEX = re.compile(rb"[0-9a-fA-F]{1,15}")


class Refused(Exception):
    """A request that is answered by the server itself, after which its connection is closed.

    Args:
        status: The HTTP status.
        reason: One sentence for the client's developer.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Disconnected(Exception):
    """The client closed the connection in the middle of its request."""


def body_length(headers: Message, limit: int) -> int | None:
    """How many bytes the body has; `None` when it comes in chunks.

    Raises:
        Refused: the headers contradict each other (400), want an unknown coding (501) or a body over the limit (413).
    """
    codings = [value.strip().lower() for value in headers.get_all("transfer-encoding", [])]
    lengths = {value.strip() for value in headers.get_all("content-length", [])}
    if codings and lengths:
        raise Refused(400, "Content-Length and Transfer-Encoding exclude each other")
    if codings and codings != ["chunked"]:
        raise Refused(501, "the only transfer coding known here is chunked")
    if codings:
        return None
    if len(lengths) > 1:
        raise Refused(400, "several values of Content-Length")
    length = lengths.pop() if lengths else "0"
    if not re.fullmatch(r"[0-9]{1,18}", length):
        raise Refused(400, "Content-Length is not a number")
    return _within(int(length), limit)


def read_body(stream: BufferedIOBase, length: int | None, limit: int) -> bytes:
    """Read the body whose length `body_length` told.

    Raises:
        Refused: its chunks are malformed (400), or together over the limit (413).
        Disconnected: the connection ended before the body did.
    """
    return _exactly(stream, length) if length is not None else _read_chunks(stream, limit)


def _within(size: int, limit: int) -> int:
    if size > limit:
        raise Refused(413, f"the body has more than {limit} bytes")
    return size


def _read_chunks(stream: BufferedIOBase, limit: int) -> bytes:
    body = bytearray()
    while size := _chunk_size(_line(stream)):
        _within(len(body) + size, limit)
        body += _exactly(stream, size)
        if _line(stream):
            raise Refused(400, "a chunk is longer than its size says")
    _skip_trailers(stream)
    return bytes(body)


def _chunk_size(line: bytes) -> int:
    size = line.partition(b";")[0].strip()
    if not _HEX.fullmatch(size):
        raise Refused(400, "a chunk's size is not a hexadecimal number")
    return int(size, 16)


def _skip_trailers(stream: BufferedIOBase) -> None:
    for _ in range(MAX_TRAILERS):
        if not _line(stream):
            return
    raise Refused(400, f"more than {MAX_TRAILERS} trailers")


def _line(stream: BufferedIOBase) -> bytes:
    line = stream.readline(MAX_LINE)
    if line.endswith(b"\n"):
        return line.rstrip(b"\r\n")
    if len(line) == MAX_LINE:
        raise Refused(400, f"a line of the chunked body is longer than {MAX_LINE} bytes")
    raise Disconnected


def _exactly(stream: BufferedIOBase, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise Disconnected
    return data
