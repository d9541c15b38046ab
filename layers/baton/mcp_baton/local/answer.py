"""A function's answer to one HTTP request, sent through WSGI: whole, or as a stream."""

import base64
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from mcp_baton.local.gateway import HOP_BY_HOP
from mcp_baton.protocol.http import ClientGone

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse

SERVER_HEADERS = HOP_BY_HOP | {"content-length", "date", "server"}


class Answer:
    """The answer to one request: whole, or a stream.

    Args:
        start_response: Sends its head.
        bodiless: Whether nothing follows the head (the answer to `HEAD`).
    """

    def __init__(self, start_response: "StartResponse", *, bodiless: bool) -> None:
        self._start_response = start_response
        self._bodiless = bodiless
        self._send: Callable[[bytes], object] | None = None

    @property
    def begun(self) -> bool:
        """Whether it is a stream that was opened."""
        return self._send is not None

    def open(self, status: int, headers: Mapping[str, str]) -> "Answer":
        """Begin a stream."""
        self._send = self._start(status, headers, {})
        self._put(b"")
        return self

    def write(self, data: bytes) -> None:
        """Send a piece of the stream now.

        Raises:
            ClientGone: the client has gone away.
        """
        if data and not self._bodiless:
            self._put(data)

    def of(self, returned: dict[str, Any]) -> list[bytes]:
        """The handler's whole answer.

        Raises:
            KeyError, TypeError, ValueError: it is not a proxy response.
        """
        body = str(returned.get("body") or "")
        data = base64.b64decode(body) if returned.get("isBase64Encoded") else body.encode()
        return self.whole(int(returned["statusCode"]), dict(returned.get("headers") or {}), data)

    def whole(self, status: int, headers: Mapping[str, str], body: bytes) -> list[bytes]:
        """Send the head of an answer whose body is known; what is left to send."""
        without_body = status in {204, 304}
        self._start(status, headers, {} if without_body else {"Content-Length": str(len(body))})
        return [] if without_body or self._bodiless else [body]

    def _start(self, status: int, headers: Mapping[str, str], framing: Mapping[str, str]) -> Callable[[bytes], object]:
        own = [(name, value) for name, value in headers.items() if name.lower() not in SERVER_HEADERS]
        return self._start_response(f"{status} {_phrase(status)}", [*own, *framing.items()])

    def _put(self, data: bytes) -> None:
        try:
            if self._send is not None:
                self._send(data)
        except OSError as error:
            raise ClientGone from error


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "-"
