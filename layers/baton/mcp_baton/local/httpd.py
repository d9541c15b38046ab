"""HTTP in front of a Lambda handler: what API Gateway and Lambda do to a request in the cloud, in one process.

werkzeug's server reads the requests, each in a thread of its own, and closes the connection after the answer. Here each
request becomes a proxy event and a call of the handler, which may open a stream: its pieces leave as they are written.
"""

import logging
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, override

from werkzeug.exceptions import BadRequest, HTTPException
from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler
from werkzeug.wrappers import Request

from mcp_baton.local.answer import Answer
from mcp_baton.local.gateway import InvocationContext, WireRequest, proxy_event
from mcp_baton.protocol.json import dumps
from mcp_baton.transport.stream import stream_opener

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

logger = logging.getLogger(__name__)

GATEWAY_BODY_BYTES = 10 * 1024 * 1024
"""API Gateway's own limit of a body: the handler's smaller one is the handler's to answer."""

RAW_HEADERS = "baton.headers"
_FOLD = re.compile(r"\r?\n[ \t]*")

type LambdaHandler = Callable[[dict[str, Any], InvocationContext], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Function:
    """The function that is served.

    Attributes:
        handler: The Lambda handler.
        timeout_s: Seconds that each invocation is given.
        owner_header: The header that names a request's owner; `None` when callers stay anonymous.
    """

    handler: LambdaHandler
    timeout_s: float
    owner_header: str | None = None

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> list[bytes]:
        """Answer one request (PEP 3333).

        Raises:
            BrokenOff: the answer had begun and cannot be finished.
        """
        answer = Answer(start_response, bodiless=environ["REQUEST_METHOD"] == "HEAD")
        try:
            request = _wire_request(environ)
        except HTTPException as refused:
            body = dumps({"message": refused.description}).encode()
            return answer.whole(refused.code or 400, {"Content-Type": "application/json"}, body)
        return self._invoke(request, answer)

    def _invoke(self, request: WireRequest, answer: Answer) -> list[bytes]:
        context = InvocationContext(self.timeout_s)
        event = proxy_event(request, request_id=context.aws_request_id, owner_header=self.owner_header)
        token = stream_opener.set(answer.open)
        try:
            returned = self.handler(event, context)
            return [] if answer.begun else answer.of(returned)
        except Exception as error:
            logger.exception("invocation %s failed", context.aws_request_id)
            if answer.begun:
                raise BrokenOff from error
            return answer.whole(502, {"Content-Type": "application/json"}, b'{"message":"Internal server error"}')
        finally:
            stream_opener.reset(token)


class BrokenOff(ConnectionError):
    """An answer that ends before it is complete, so that it does not look complete. Logged where it happened."""


class LocalServer(ThreadedWSGIServer):
    """Serves a function. Bound once it is made; port 0 takes a free one (`server_port` tells which).

    Raises:
        OSError: the address cannot be had.
    """

    block_on_close = False

    def __init__(self, host: str, port: int, function: Function) -> None:
        self._busy = 0
        self._idle = threading.Condition()
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # werkzeug ends the process where an address is taken; of a socket that is bound already it takes a copy.
        with socket.create_server(address[:2], family=family, backlog=128) as bound:
            super().__init__(str(address[0]), port, function, Connection, fd=bound.fileno())
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """While a request is being answered."""
        with self._idle:
            self._busy += 1
        try:
            yield
        finally:
            with self._idle:
                self._busy -= 1
                self._idle.notify_all()

    def drain(self, grace_s: float) -> int:
        """Wait until no request is being answered, `grace_s` seconds at most; how many still are."""
        with self._idle:
            self._idle.wait_for(lambda: self._busy == 0, timeout=grace_s)
            return self._busy

    @override
    def log(self, type: str, message: str, *args: Any) -> None:
        """Log what werkzeug has to say."""
        logger.log(logging.getLevelNamesMapping().get(type.upper(), logging.INFO), message, *args)

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Log what a connection's thread died of. A client that went away is no error."""
        error = sys.exception()
        if isinstance(error, OSError):
            logger.debug("%s went away: %s", client_address, error)
        else:
            logger.error("the connection of %s failed", client_address, exc_info=error)


class Connection(WSGIRequestHandler):
    """One client's connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 75
    server: LocalServer

    @override
    def run_wsgi(self) -> None:
        """Answer the request."""
        with self.server.in_flight():
            super().run_wsgi()

    @override
    def handle_expect_100(self) -> bool:
        """Leave it to werkzeug to tell the client to go on."""
        return True

    @override
    def make_environ(self) -> "WSGIEnvironment":
        """The request, with its headers as they came: PEP 3333 knows neither their order nor repeated ones."""
        headers = [(name, _FOLD.sub(" ", str(value)).strip()) for name, value in self.headers.items()]
        return super().make_environ() | {RAW_HEADERS: headers}

    @override
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log a request with the status of its answer. The line is the client's: control characters are escaped."""
        logger.debug("%r %s", self.requestline, code)

    @override
    def log_error(self, format: str, *args: Any) -> None:
        """Log what is wrong with a request, escaped likewise."""
        logger.info("%s: %r", self.address_string(), format % args)


class _Request(Request):
    """A request whose body has the gateway's limit."""

    max_content_length = GATEWAY_BODY_BYTES


def _wire_request(environ: "WSGIEnvironment") -> WireRequest:
    """The request that werkzeug has read.

    Raises:
        HTTPException: its body is too large, or not framed as HTTP wants it.
    """
    try:
        body = _Request(environ).get_data(cache=False)
    except (ConnectionError, TimeoutError):
        raise
    except OSError as error:
        raise BadRequest(f"{error}") from error
    return WireRequest(
        environ["REQUEST_METHOD"], environ["RAW_URI"], environ[RAW_HEADERS], body, environ["REMOTE_ADDR"]
    )
