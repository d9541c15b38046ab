"""One client's HTTP/1.1 connection to the local server: each request becomes a proxy event and a call of the handler.

The call gets a context of its own, with its own deadline, and a stream that it may open: a streamed answer leaves in
chunks as it is written.
"""

import base64
import logging
import re
import socket
import time
from collections.abc import Mapping
from email.errors import FirstHeaderLineIsContinuationDefect, MissingHeaderBodySeparatorDefect
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, override

from mcp_baton.local.body import Refused, body_length, read_body
from mcp_baton.local.gateway import HOP_BY_HOP, InvocationContext, WireRequest, proxy_event
from mcp_baton.local.stream import ChunkedStream
from mcp_baton.protocol.http import ClientGone
from mcp_baton.protocol.json import dumps
from mcp_baton.transport.stream import stream_opener

if TYPE_CHECKING:
    from mcp_baton.local.httpd import LocalServer

logger = logging.getLogger(__name__)

GATEWAY_BODY_LIMIT = 10 * 1024 * 1024  # API Gateway's own: the handler's smaller limit is the handler's to answer.
MAX_REQUEST_LINE = 65536
OWN_HEADERS = HOP_BY_HOP | {"content-length", "date", "server"}
LINGER_S = 5.0
LINGER_BYTES = 4 * GATEWAY_BODY_LIMIT
NO_HEADER = (MissingHeaderBodySeparatorDefect, FirstHeaderLineIsContinuationDefect)
_FOLD = re.compile(r"\r?\n[ \t]*")


class Connection(BaseHTTPRequestHandler):
    """One client's connection, kept open between its requests."""

    protocol_version = "HTTP/1.1"
    server_version = "Baton"
    sys_version = ""
    disable_nagle_algorithm = True
    timeout = 75
    server: "LocalServer"

    @override
    def setup(self) -> None:
        """Take the connection over."""
        super().setup()
        self._stream: ChunkedStream | None = None
        self._continue_expected = False

    @override
    def handle_one_request(self) -> None:
        """Answer the next request, whatever its method: which methods there are is the handler's to say."""
        self.command = self.requestline = ""
        try:
            self.raw_requestline = self.rfile.readline(MAX_REQUEST_LINE + 1)
            if not self.raw_requestline:
                self.close_connection = True
            elif len(self.raw_requestline) > MAX_REQUEST_LINE:
                self.send_error(414)
            elif self.parse_request():
                self._serve()
        except TimeoutError:
            logger.info("%s was quiet for too long", self.address_string())
            self.close_connection = True

    @override
    def parse_request(self) -> bool:
        """Read the request's head; refuse what the base class lets through: HTTP/0.9 and lines that are no headers."""
        self._continue_expected = False
        if len(self.raw_requestline.split()) == 2:
            self.send_error(400, "the request line has no HTTP version")
            return False
        if not super().parse_request():
            return False
        if any(isinstance(defect, NO_HEADER) for defect in self.headers.defects):
            self.send_error(400, "a line among the headers is not a header")
            return False
        if self.request_version == "HTTP/1.0":
            self.close_connection = True
        return True

    @override
    def handle_expect_100(self) -> bool:
        """Leave the client waiting until its body is wanted (`_body`): one that is too large never is."""
        self._continue_expected = True
        return True

    @override
    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a request that could not be read, in JSON, and close."""
        self._refuse(Refused(code, message or self.responses.get(code, ("refused", ""))[0]))

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Log a request that was answered."""
        logger.info(format, *args)

    def _serve(self) -> None:
        with self.server.in_flight():
            try:
                body = self._body()
            except Refused as refused:
                self._refuse(refused)
            else:
                self._invoke(body)

    def _body(self) -> bytes:
        length = body_length(self.headers, GATEWAY_BODY_LIMIT)
        if self._continue_expected:
            self.send_response_only(100)
            self.end_headers()
        return read_body(self.rfile, length, GATEWAY_BODY_LIMIT)

    def _invoke(self, body: bytes) -> None:
        function = self.server.function
        context = InvocationContext(function.timeout_s)
        headers = [(name, _FOLD.sub(" ", str(value)).strip()) for name, value in self.headers.items()]
        request = WireRequest(self.command, self.path, headers, body, str(self.client_address[0]))
        event = proxy_event(request, request_id=context.aws_request_id, owner_header=function.owner_header)
        self._stream = None
        token = stream_opener.set(self._open_stream)
        try:
            answer = function.handler(event, context)
        except Exception:
            logger.exception("invocation %s failed", context.aws_request_id)
            self._fail()
        else:
            self._finish(answer)
        finally:
            stream_opener.reset(token)

    def _open_stream(self, status: int, headers: Mapping[str, str]) -> ChunkedStream:
        chunked = self.request_version != "HTTP/1.0"
        framing = {"Transfer-Encoding": "chunked"} if chunked else {"Connection": "close"}
        stream = ChunkedStream(self.wfile.write, chunked=chunked, silent=self.command == "HEAD")
        try:
            self._send_head(status, headers, framing)
        except OSError as error:
            self.close_connection = True
            raise ClientGone from error
        self._stream = stream
        return stream

    def _finish(self, answer: dict[str, Any]) -> None:
        if self._stream is None:
            self._send_answer(answer)
            return
        try:
            self._stream.close()
        except ClientGone:
            self.close_connection = True

    def _fail(self) -> None:
        """What API Gateway answers for a function that failed; a stream just breaks off."""
        if self._stream is None:
            self._send_whole(502, {"Content-Type": "application/json"}, b'{"message":"Internal server error"}')
        else:
            self.close_connection = True

    def _send_answer(self, answer: dict[str, Any]) -> None:
        try:
            body = str(answer.get("body") or "")
            data = base64.b64decode(body) if answer.get("isBase64Encoded") else body.encode()
            status, headers = int(answer["statusCode"]), dict(answer.get("headers") or {})
        except (KeyError, TypeError, ValueError):
            logger.exception("the handler's answer is not a proxy response")
            self._fail()
        else:
            self._send_whole(status, headers, data)

    def _send_whole(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        bodiless = status in {204, 304}
        framing = {} if bodiless else {"Content-Length": str(len(body))}
        if self.close_connection:
            framing["Connection"] = "close"
        self._send_head(status, headers, framing)
        if not bodiless and self.command != "HEAD":
            self.wfile.write(body)

    def _send_head(self, status: int, headers: Mapping[str, str], framing: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in OWN_HEADERS:
                self.send_header(name, value)
        for name, value in framing.items():
            self.send_header(name, value)
        self.end_headers()

    def _refuse(self, refused: Refused) -> None:
        self.close_connection = True
        self.request_version = self.protocol_version
        logger.info("%s refused: %d %s", self.address_string(), refused.status, refused.reason)
        body = dumps({"message": refused.reason}).encode()
        self._send_whole(refused.status, {"Content-Type": "application/json"}, body)
        self._linger()

    def _linger(self) -> None:
        """Take what the client is still sending before closing: with bytes unread, the close would be a reset,
        which makes the client's system throw the answer away."""
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(1)
        stop = time.monotonic() + LINGER_S
        taken = 0
        while taken < LINGER_BYTES and time.monotonic() < stop and (data := self.connection.recv(65536)):
            taken += len(data)
