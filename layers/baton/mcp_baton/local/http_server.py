"""The local HTTP server: werkzeug reads the requests, each in a thread, and an application answers them: `HttpFunction`
calls a Lambda handler as API Gateway does, and `dynamodb_app` is the embedded DynamoDB."""

import base64
import errno
import logging
import os
import re
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, Self, override

from werkzeug.exceptions import BadRequest, HTTPException
from werkzeug.http import HTTP_STATUS_CODES
from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler
from werkzeug.wrappers import Request, Response

from mcp_baton.exceptions import BatonError
from mcp_baton.local.gateway import HOP_BY_HOP, InvocationContext, proxy_event
from mcp_baton.local.log import without_token
from mcp_baton.local.worker_pool import LambdaHandler
from mcp_baton.protocol.http import ClientGone
from mcp_baton.protocol.json import dumps
from mcp_baton.server.access import is_local_host
from mcp_baton.transport.exchange import stream_opener

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

    from mcp_baton.local.embedded import EmbeddedEngine

logger = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"
RAW_HEADERS: Final = "baton.headers"
STOP_GRACE_S: Final = 3.0
SIGNAL_CHECK_S: Final = 0.1
EXIT_CODES: Final = {signal.SIGTERM: 0, signal.SIGINT: 130}
_FOLD: Final = re.compile(r"\r?\n[ \t]*")


class LocalServer(ThreadedWSGIServer):
    """Serves an application on an address, or on a socket that is already bound. Port 0 selects a free port."""

    block_on_close = False

    def __init__(self, host: str, port: int, app: "WSGIApplication", listener: socket.socket | None = None) -> None:
        self._busy = 0
        self._idle = threading.Condition()
        # werkzeug exits the process if an address is taken. It duplicates a socket that is already bound.
        with listener or listen(host, port) as bound_socket:
            super().__init__(bound_socket.getsockname()[0], port, app, RequestHandler, fd=bound_socket.fileno())
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    @property
    def address(self) -> str:
        """The host and the port by which clients on this machine reach it."""
        host = LOOPBACK if ip_address(self.server_name).is_unspecified else self.server_name
        return f"[{host}]:{self.server_port}" if ":" in host else f"{host}:{self.server_port}"

    @property
    def is_private(self) -> bool:
        return ip_address(self.server_name).is_loopback

    def start(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.1,), name=f"accept {self.address}", daemon=True).start()
        return self

    def close(self) -> None:
        """Accept no more connections. Open requests continue."""
        self.shutdown()
        self.server_close()

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        with self._idle:
            self._busy += 1
        try:
            yield
        finally:
            with self._idle:
                self._busy -= 1
                self._idle.notify_all()

    def drain(self, grace_s: float) -> int:
        """Wait at most `grace_s` seconds until no request is open. Return the number of open requests."""
        with self._idle:
            self._idle.wait_for(lambda: self._busy == 0, timeout=grace_s)
            return self._busy

    @override
    def log(self, type: str, message: str, *args: Any) -> None:
        logger.log(logging.getLevelNamesMapping().get(type.upper(), logging.INFO), message, *args)

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Log the exception that ended a connection. A closed connection is not an error."""
        error = sys.exception()
        if isinstance(error, OSError):
            logger.debug("%s went away: %s", client_address, error)
        else:
            logger.error("the connection of %s failed", client_address, exc_info=error)


class RequestHandler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 75
    server: LocalServer

    @override
    def run_wsgi(self) -> None:
        with self.server.in_flight():
            super().run_wsgi()

    @override
    def handle_expect_100(self) -> bool:
        """Do nothing: werkzeug sends `100 Continue`."""
        return True

    @override
    def make_environ(self) -> "WSGIEnvironment":
        """Add the original headers: PEP 3333 keeps neither their order nor repeated ones."""
        headers = [(name, _FOLD.sub(" ", str(value)).strip()) for name, value in self.headers.items()]
        return super().make_environ() | {RAW_HEADERS: headers}

    @override
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log a request and its status. `%r` escapes control characters of the client."""
        logger.debug("%r %s", without_token(self.requestline), code)

    @override
    def log_error(self, format: str, *args: Any) -> None:
        """Log a malformed request. `%r` escapes control characters of the client."""
        logger.info("%s: %r", self.address_string(), without_token(format % args))


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address. Raises `BatonError` if the address is not available."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=128)
    except OSError as error:
        remedy = f": use --port {port + 1}, or --port 0 for a free port" if error.errno == errno.EADDRINUSE else ""
        # Python's message repeats the address.
        reason = (error.strerror or str(error)).partition(" (while attempting")[0]
        raise BatonError(f"cannot listen on {host} port {port}: {reason}{remedy}") from error


# Lambda functions

GATEWAY_BODY_BYTES: Final = 10 * 1024 * 1024
"""API Gateway's limit of a body. The handler has a smaller one."""

SERVER_HEADERS: Final = HOP_BY_HOP | {"content-length", "date", "server"}


class PlainResponse(Response):
    """A response without a default content type."""

    default_mimetype = None


@dataclass(frozen=True, slots=True)
class HttpFunction:
    """A Lambda function behind API Gateway, as a WSGI application (PEP 3333).

    `owner_header` names the header that contains a request's owner; `None` for anonymous callers.
    """

    handler: LambdaHandler
    timeout_s: float
    owner_header: str | None = None

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        try:
            event = self._event(environ)
        except HTTPException as error:
            return _failure(error.code or 400, error.description)(environ, start_response)
        context = InvocationContext(self.timeout_s, event["requestContext"]["requestId"])
        stream = _Stream(environ, start_response)
        token = stream_opener.set(stream.open)
        try:
            result = self.handler(event, context)
            if stream.is_open:
                return []
            response = _response(result)
        except Exception as error:
            logger.exception("invocation %s failed", context.aws_request_id)
            if stream.is_open:
                # The connection ends, so that the stream does not look complete.
                raise ConnectionAbortedError from error
            response = _failure(502, "Internal server error")
        finally:
            stream_opener.reset(token)
        return response(environ, start_response)

    def _event(self, environ: "WSGIEnvironment") -> dict[str, Any]:
        request = Request(environ)
        request.max_content_length = GATEWAY_BODY_BYTES
        try:
            body = request.get_data(cache=False)
        except (ConnectionError, TimeoutError):
            raise
        except OSError as error:
            raise BadRequest(f"{error}") from error
        return proxy_event(
            request.method,
            environ["RAW_URI"],
            environ[RAW_HEADERS],
            body,
            client=environ["REMOTE_ADDR"],
            request_id=str(uuid.uuid4()),
            owner_header=self.owner_header,
        )


def _response(result: dict[str, Any]) -> Response:
    body = str(result.get("body") or "")
    data = base64.b64decode(body) if result.get("isBase64Encoded") else body.encode()
    return PlainResponse(data, int(result["statusCode"]), _app_headers(result.get("headers") or {}))


def _failure(status: int, message: str | None) -> Response:
    return PlainResponse(dumps({"message": message}), status, content_type="application/json")


def _app_headers(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers.items() if name.lower() not in SERVER_HEADERS]


class _Stream:
    """The response to one request as a stream. It begins when the handler opens it."""

    def __init__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> None:
        self._start_response = start_response
        self._bodiless = environ["REQUEST_METHOD"] == "HEAD"
        self._send: Callable[[bytes], object] | None = None

    @property
    def is_open(self) -> bool:
        return self._send is not None

    def open(self, status: int, headers: Mapping[str, str]) -> Self:
        self._send = self._start_response(f"{status} {HTTP_STATUS_CODES.get(status, '-')}", _app_headers(headers))
        self._put(b"")
        return self

    def write(self, data: bytes) -> None:
        if data and not self._bodiless:
            self._put(data)

    def _put(self, data: bytes) -> None:
        try:
            if self._send is not None:
                self._send(data)
        except OSError as error:
            raise ClientGone from error


# The embedded DynamoDB

CONTAINERS: Final = "host.docker.internal"
"""The name of this machine inside containers, for example those of `sam local`."""

FOR_PROGRAMS: Final = f"for programs, not for web pages: use the name 127.0.0.1, localhost or {CONTAINERS}\n"
BROWSER_HEADERS: Final = ("Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode")
"""Headers that a page cannot omit (Fetch Standard, forbidden request-headers). No SDK and no worker sends one."""


def dynamodb_app(engine: "EmbeddedEngine") -> "WSGIApplication":
    """Return the embedded DynamoDB as an application, for other processes."""

    @Request.application
    def answer(request: Request) -> Response:
        # The domain of a web page can also resolve to this machine (DNS rebinding).
        host = request.headers.get("Host", "")
        is_known_host = is_local_host(host) or host.partition(":")[0] == CONTAINERS
        if not is_known_host or any(name in request.headers for name in BROWSER_HEADERS):
            return Response(FOR_PROGRAMS, 403)
        # A browser would have to send a preflight request before it could send this header.
        if "X-Amz-Target" not in request.headers:
            return Response("this is a DynamoDB: use an AWS SDK\n", 400)
        from botocore.awsrequest import AWSPreparedRequest
        from botocore.compat import HTTPHeaders

        from mcp_baton.local.dynamodb import LOCAL_REGION

        url = f"https://dynamodb.{LOCAL_REGION}.amazonaws.com{request.path}"
        headers = HTTPHeaders.from_pairs(request.headers)
        reply = engine.answer(AWSPreparedRequest("POST", url, headers, request.get_data(), stream_output=False))
        return PlainResponse(reply.content, reply.status_code, _app_headers(reply.headers))

    return answer


# Signals


def run(server: LocalServer, ready: Callable[[], None], on_stop: Callable[[], None] = lambda: None) -> int:
    """Serve until SIGTERM (exit code 0) or SIGINT (exit code 130). Call it in the main thread, which gets the signals.

    `on_stop` is called after the signal, before the server waits for open requests.
    """
    signals: list[int] = []
    for number in EXIT_CODES:
        signal.signal(number, lambda number, _frame: signals.append(number))
    server.start()
    ready()
    # Waiting at a lock would not work: the handler of a signal that arrives just before runs only after the wait.
    while not signals:
        time.sleep(SIGNAL_CHECK_S)
    for number in EXIT_CODES:  # a second signal ends the process
        signal.signal(number, signal.SIG_DFL)
    name = signal.Signals(signals[0])
    logger.info("%s: stopping", name.name)
    on_stop()
    server.close()
    if open_requests := server.drain(STOP_GRACE_S):
        logger.warning("%d requests were still open after %g s", open_requests, STOP_GRACE_S)
    return EXIT_CODES[name]


def end_by_force(code: int) -> None:
    """Exit the process with this code if it has not exited after the grace period.

    An abandoned tool may still run in a thread for which Python waits at exit.
    """
    timer = threading.Timer(STOP_GRACE_S, os._exit, [code])
    timer.daemon = True
    timer.start()
