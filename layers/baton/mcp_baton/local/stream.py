"""A streamed HTTP/1.1 answer on a connection (RFC 9112, section 7.1)."""

from collections.abc import Callable

from mcp_baton.protocol.http import ClientGone


class ChunkedStream:
    """An answer that leaves as it is written.

    Args:
        send: Writes bytes to the connection.
        chunked: Whether each piece is framed as a chunk; otherwise the connection's end is the answer's.
        silent: Whether nothing is sent at all (the answer to `HEAD`).
    """

    def __init__(self, send: Callable[[bytes], object], *, chunked: bool, silent: bool) -> None:
        self._send = send
        self._chunked = chunked
        self._silent = silent
        self._gone = False

    def write(self, data: bytes) -> None:
        """Send these bytes now.

        Raises:
            ClientGone: nobody is listening any more.
        """
        if data:  # An empty chunk would be the end.
            self._put(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def close(self) -> None:
        """Send the end.

        Raises:
            ClientGone: nobody is listening any more.
        """
        if self._chunked:
            self._put(b"0\r\n\r\n")

    def _put(self, data: bytes) -> None:
        if self._gone:
            raise ClientGone
        if self._silent:
            return
        try:
            self._send(data)
        except OSError as error:
            self._gone = True
            raise ClientGone from error
