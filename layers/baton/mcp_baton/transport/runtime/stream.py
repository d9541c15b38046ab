"""A streamed answer to one invocation, as the Runtime API and API Gateway want it.

Chunked; a JSON prelude with status and headers, eight NUL bytes, then the body. API Gateway looks for the NUL bytes in
the first 16 KB. An error after the start can only be told in trailers, which HTTP wants announced in the head.
"""

from collections.abc import Mapping
from threading import Lock

from mcp_baton.protocol.http import ClientGone
from mcp_baton.protocol.json import Json, dumps
from mcp_baton.transport.runtime.connection import RuntimeConnection
from mcp_baton.transport.runtime.errors import ERROR_BODY, ERROR_TYPE

type Headers = Mapping[str, str | list[str]]
"""Header names as they are sent, with one value or with several."""

_DELIMITER = b"\0" * 8
_ACCEPTED = 202


class AnswerRefused(Exception):
    """The Runtime API read the whole answer and did not accept it.

    Args:
        status: Its HTTP status.
    """

    def __init__(self, status: int) -> None:
        super().__init__(f"the Runtime API refused the streamed answer with status {status}")
        self.status = status


class ResponseStream:
    """An answer that has begun; a `StreamSink`.

    Args:
        connection: Where its request head and prelude have been sent.
    """

    def __init__(self, connection: RuntimeConnection) -> None:
        self._connection = connection
        self._ended = False
        # A tool that was abandoned may still write while the runtime ends the answer. A chunk behind the end would
        # become part of the next invocation's answer, which may be another client's.
        self._lock = Lock()

    @classmethod
    def begin(
        cls, connection: RuntimeConnection, invoke_id: str, invocation_id: str | None, status: int, headers: Headers
    ) -> "ResponseStream":
        """Begin the answer to this invocation.

        Raises:
            ClientGone: the Runtime API takes no answer.
        """
        head = _request_head(connection.address, invoke_id, invocation_id)
        connection.begin(head + _chunk(_prelude(status, headers) + _DELIMITER))
        return cls(connection)

    def write(self, data: bytes) -> None:
        """Send these bytes now.

        Raises:
            ClientGone: the client has gone away, or the answer has ended.
        """
        with self._lock:
            if self._ended:
                raise ClientGone("the answer has ended")
            if data:  # an empty chunk would end the body
                self._connection.send(_chunk(data))

    def end(self, trailers: Mapping[str, str] | None = None) -> None:
        """End the answer, and wait until the Runtime API has acknowledged it.

        Raises:
            ClientGone: the connection ended first.
            AnswerRefused: the Runtime API did not want the answer.
        """
        with self._lock:
            self._ended = True
            lines = "".join(f"{name}: {value}\r\n" for name, value in (trailers or {}).items())
            self._connection.send(f"0\r\n{lines}\r\n".encode("ascii"))
            status = self._connection.read_status()
        if status != _ACCEPTED:
            raise AnswerRefused(status)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _prelude(status: int, headers: Headers) -> bytes:
    """The metadata of API Gateway's streaming proxy format; cookies apart, since they may not be joined by commas."""
    single = {name: value for name, value in headers.items() if isinstance(value, str)}
    several = {name: value for name, value in headers.items() if not isinstance(value, str)}
    cookies = [cookie for name in list(several) if name.lower() == "set-cookie" for cookie in several.pop(name)]
    prelude: dict[str, Json] = {"statusCode": status, "headers": single}
    if several:
        prelude["multiValueHeaders"] = several
    if cookies:
        prelude["cookies"] = cookies
    return dumps(prelude).encode()


def _request_head(address: str, invoke_id: str, invocation_id: str | None) -> bytes:
    lines = [
        f"POST /2018-06-01/runtime/invocation/{invoke_id}/response HTTP/1.1",
        f"Host: {address}",
        "Content-Type: application/vnd.awslambda.http-integration-response",
        "Lambda-Runtime-Function-Response-Mode: streaming",
        "Transfer-Encoding: chunked",
        f"Trailer: {ERROR_TYPE}, {ERROR_BODY}",
    ]
    if invocation_id:
        lines.append(f"Lambda-Runtime-Invocation-Id: {invocation_id}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
