"""A streamed response to an invocation, in the format of the Runtime API and API Gateway.

A chunked POST: a JSON prelude with status and headers, eight NUL bytes, then the body. API Gateway expects the NUL
bytes within the first 16 KB. An error after the start is reported in trailers, which the request head must announce.
Lambda rejects or cuts trailers of more than about 3 KB, so the error is shortened before.
"""

from base64 import b64encode
from collections.abc import Mapping
from threading import Lock
from typing import Any

from mcp_baton.protocol.http import ClientGone
from mcp_baton.protocol.json import Json, dumps, json_size, loads
from mcp_baton.transport.runtime.connection import RuntimeConnection

ERROR_TYPE = "Lambda-Runtime-Function-Error-Type"
ERROR_BODY = "Lambda-Runtime-Function-Error-Body"

type Headers = Mapping[str, str | list[str]]
"""Headers with one or several values."""

_DELIMITER = b"\0" * 8
_END = b"0\r\n\r\n"
_ACCEPTED = 202
_MAX_ERROR_CHARS = 2_000
"""Bytes of JSON. They become 2,668 bytes of base64, so all trailers together stay under 3 KB."""
_MAX_TYPE_CHARS = 128


class ResponseRejected(Exception):
    """The Runtime API read the whole response and rejected it with an HTTP status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the Runtime API rejected the streamed response with status {status}")
        self.status = status


class ResponseStream:
    """A streamed response on a connection, on which the request head and the prelude were sent. A `StreamSink`."""

    def __init__(self, connection: RuntimeConnection) -> None:
        self._connection = connection
        self._ended = False
        # An abandoned tool may still write while the runtime ends the response. A chunk after the end would become part
        # of the next response, which may belong to another client.
        self._lock = Lock()

    @classmethod
    def begin(
        cls, connection: RuntimeConnection, invoke_id: str, invocation_id: str | None, status: int, headers: Headers
    ) -> "ResponseStream":
        """Begin the response to an invocation. Raises `ClientGone` if the Runtime API does not accept a response."""
        head = _request_head(connection.address, invoke_id, invocation_id)
        connection.begin(head + _chunk(_prelude(status, headers) + _DELIMITER))
        return cls(connection)

    def write(self, data: bytes) -> None:
        """Send these bytes now. Raises `ClientGone` if the client disconnected, or the response has ended."""
        with self._lock:
            if self._ended:
                raise ClientGone("the response has ended")
            if data:  # an empty chunk would end the body
                self._connection.send(_chunk(data))

    def end(self, trailers: Mapping[str, str] | None = None) -> None:
        """End the response and wait until the Runtime API has acknowledged it.

        Raises:
            ClientGone: the connection was closed before.
            ResponseRejected: the Runtime API rejected the response.
        """
        with self._lock:
            self._ended = True
            lines = "".join(f"{name}: {value}\r\n" for name, value in (trailers or {}).items())
            self._connection.send(f"0\r\n{lines}\r\n".encode("ascii"))
            _check_acknowledged(self._connection)


def send_whole(
    connection: RuntimeConnection, invoke_id: str, invocation_id: str | None, status: int, headers: Headers, body: bytes
) -> None:
    """Send a whole response at once, and wait until the Runtime API has acknowledged it.

    Raises:
        ClientGone: the Runtime API does not accept a response, or closed the connection.
        ResponseRejected: the Runtime API rejected the response.
    """
    head = _request_head(connection.address, invoke_id, invocation_id)
    connection.begin(head + _chunk(_prelude(status, headers) + _DELIMITER + body) + _END)
    _check_acknowledged(connection)


def _check_acknowledged(connection: RuntimeConnection) -> None:
    status = connection.read_status()
    if status != _ACCEPTED:
        raise ResponseRejected(status)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _prelude(status: int, headers: Headers) -> bytes:
    """Return the metadata of the streaming proxy format. Cookies are separate, because commas must not join them."""
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


def error_trailers(error_json: str) -> dict[str, str]:
    """Return the trailers for an error of awslambdaric: `errorType`, `errorMessage`, `requestId`, `stackTrace`.

    First the message is shortened, then the outermost stack frames are left out.

    Raises:
        ValueError: `error_json` is not JSON.
    """
    document: Any = loads(error_json)
    error = document if isinstance(document, dict) else {"errorMessage": error_json}
    error_type = str(error.get("errorType", ""))[:_MAX_TYPE_CHARS]
    message, frames = str(error.get("errorMessage", "")), list(error.get("stackTrace") or [])
    error = {**error, "errorType": error_type, "errorMessage": message, "stackTrace": []}
    while message and json_size(error) > _MAX_ERROR_CHARS:
        message = message[: len(message) * 3 // 4]
        error["errorMessage"] = f"{message[:-1]}…"
    while frames and json_size({**error, "stackTrace": frames}) > _MAX_ERROR_CHARS:
        del frames[0]
    body = dumps({**error, "stackTrace": frames}).encode()
    header = "".join(character if "!" <= character <= "~" else "?" for character in error_type)
    return {ERROR_TYPE: header or "Error", ERROR_BODY: b64encode(body).decode("ascii")}
