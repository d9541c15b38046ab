"""The local HTTP server over real sockets, with a small application."""

import logging
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse, IncompleteRead

import pytest

from mcp_baton.exceptions import BatonError
from mcp_baton.local.dynamodb import embedded_engine
from mcp_baton.local.http_server import HttpFunction, LocalServer, dynamodb_app, listen
from mcp_baton.local.worker_pool import LambdaHandler
from mcp_baton.protocol.http import ClientGone, HttpRequest, HttpResponse
from mcp_baton.transport.adapter import LambdaAdapter
from mcp_baton.transport.exchange import Application, Exchange

BOUND_S = 60  # The time limit for waits. No wait takes that long unless a test fails.

type Serve = Callable[..., int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves handlers until the test ends. Returns the port of each."""
    servers: list[LocalServer] = []

    def start(handler: LambdaHandler, *, timeout_s: float = 60, owner_header: str | None = None) -> int:
        server = LocalServer("127.0.0.1", 0, HttpFunction(handler, timeout_s, owner_header))
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return server.server_port

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
        assert server.drain(BOUND_S) == 0


def adapter(app: Application, *, allow_anonymous: bool = True) -> LambdaAdapter:
    return LambdaAdapter(app, allow_anonymous=allow_anonymous, streaming=True)


def echo(request: HttpRequest, exchange: Exchange) -> HttpResponse:
    """Return the method, the path and the owner in headers, and the request's body as the body."""
    headers = {"X-Method": request.method, "X-Path": request.path, "X-Owner": str(request.owner)}
    return HttpResponse(200, headers, request.body)


def connect(port: int) -> HTTPConnection:
    return HTTPConnection("127.0.0.1", port, timeout=BOUND_S)


def ask(port: int, method: str = "POST", path: str = "/mcp", body: bytes = b"", **headers: str) -> HTTPResponse:
    with closing(connect(port)) as client:
        client.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = client.getresponse()
        response.read()
        return response


def send_raw(port: int, data: bytes) -> bytes:
    """Send these bytes and return everything that the server sends until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=BOUND_S) as client:
        client.sendall(data)
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_a_request_reaches_the_application_and_its_answer_comes_back(serve: Serve) -> None:
    with closing(connect(serve(adapter(echo)))) as client:
        client.request("POST", "/mcp?x=1", b"\x00\xff\xfe", {"Content-Type": "application/octet-stream"})
        response = client.getresponse()
        assert (response.status, response.read()) == (200, b"\x00\xff\xfe")
        assert (response.headers["X-Method"], response.headers["X-Path"]) == ("POST", "/mcp")


def test_a_stream_arrives_in_pieces_while_the_application_runs(serve: Serve) -> None:
    client_has_read = threading.Event()

    def app(request: HttpRequest, exchange: Exchange) -> None:
        sink = exchange.open_stream(200, {"Content-Type": "text/event-stream"})
        sink.write(b"data: first\n\n")
        assert client_has_read.wait(BOUND_S)
        sink.write(b"data: second\n\n")

    with closing(connect(serve(adapter(app)))) as client:
        client.request("POST", "/mcp", b"{}")
        response = client.getresponse()
        assert response.headers["Content-Type"] == "text/event-stream"
        assert response.headers["Transfer-Encoding"] == "chunked"
        assert response.read1() == b"data: first\n\n"
        client_has_read.set()
        assert response.read() == b"data: second\n\n"
        client.request("POST", "/mcp", b"{}")
        assert client.getresponse().read() == b"data: first\n\ndata: second\n\n"


@pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS", "PUT", "PATCH", "PROPFIND"])
def test_the_application_gets_requests_of_every_method(serve: Serve, method: str) -> None:
    assert ask(serve(adapter(echo)), method).headers["X-Method"] == method


def test_head_is_answered_without_a_body(serve: Serve) -> None:
    def app(request: HttpRequest, exchange: Exchange) -> HttpResponse | None:
        if request.path == "/whole":
            return HttpResponse(405, {}, b"not here")
        exchange.open_stream(200, {}).write(b"streamed")
        return None

    with closing(connect(serve(adapter(app)))) as client:
        for method, path, body in [
            ("HEAD", "/whole", b""),
            ("HEAD", "/stream", b""),
            ("POST", "/whole", b"not here"),
            ("POST", "/stream", b"streamed"),
        ]:
            client.request(method, path)
            assert client.getresponse().read() == body


def test_a_chunked_request_body_is_accepted(serve: Serve) -> None:
    with closing(connect(serve(adapter(echo)))) as client:
        for _ in range(2):
            client.request("POST", "/mcp", iter([b"one,", b"two,", b"three"]), encode_chunked=True)
            assert client.getresponse().read() == b"one,two,three"


def test_a_client_that_leaves_a_stream_stops_the_application(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    client_gone = threading.Event()

    def app(request: HttpRequest, exchange: Exchange) -> HttpResponse | None:
        if request.method == "GET":
            return HttpResponse(200, {}, b"still here")
        sink = exchange.open_stream(200, {})
        try:
            while True:
                sink.write(b"x" * 65536)
        except ClientGone:
            client_gone.set()
            raise

    port = serve(adapter(app))
    with socket.create_connection(("127.0.0.1", port), timeout=BOUND_S) as client:
        client.sendall(b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 200"
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert client_gone.wait(BOUND_S)
    assert ask(port, "GET").status == 200
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        b"POST /mcp HT",
        b"POST /mcp HTTP/1.1\r\nContent-Le",
        b"POST /mcp HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf",
        b"POST /mcp HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal",
    ],
)
def test_a_client_that_disconnects_during_its_request_is_ignored(
    serve: Serve, beginning: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    port = serve(adapter(echo))
    with socket.create_connection(("127.0.0.1", port), timeout=BOUND_S) as client:
        client.sendall(beginning)
        client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass
    assert ask(port, body=b"next").status == 200
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


def test_a_malformed_request_line_is_logged_without_its_token(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with socket.create_connection(("127.0.0.1", serve(adapter(echo))), BOUND_S) as connection:
        connection.sendall(b"POST /callbacks/s3-cret twice HTTP/1.1\r\n\r\n")
        connection.recv(1)
    assert "'POST /callbacks/… twice HTTP/1.1'" in caplog.text


def test_a_too_large_body_is_refused_and_the_server_continues(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    port = serve(adapter(echo))
    head, _, body = send_raw(port, b"POST /mcp HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 413 ")
    assert body
    assert ask(port, body=b"next").status == 200
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


def test_a_client_that_expects_100_continue_gets_it_once(serve: Serve) -> None:
    port = serve(adapter(echo))
    request = b"POST /mcp HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=BOUND_S) as client:
        client.sendall(request % 4)
        assert client.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"body")
        assert b"".join(iter(lambda: client.recv(65536), b"")).endswith(b"body")


def broken_handler(event: object, context: object) -> dict[str, object]:
    raise LookupError("the secret cause")


@pytest.mark.parametrize(
    "handler",
    [broken_handler, lambda _event, _context: {}, lambda _event, _context: {"statusCode": "many"}],
    ids=["raises", "no status", "no number"],
)
def test_a_failing_handler_causes_a_502(serve: Serve, handler: LambdaHandler, caplog: pytest.LogCaptureFixture) -> None:
    assert ask(serve(handler)).status == 502
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_stream_whose_application_fails_is_cut_and_logged(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    def app(request: HttpRequest, exchange: Exchange) -> None:
        exchange.open_stream(200, {}).write(b"started")
        raise LookupError("after the stream began")

    with closing(connect(serve(adapter(app)))) as client:
        client.request("POST", "/mcp")
        response = client.getresponse()
        with pytest.raises(IncompleteRead) as error_info:
            response.read()
        assert error_info.value.partial == b"started"
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_the_servers_framing_headers_replace_those_of_the_answer(serve: Serve) -> None:
    def app(request: HttpRequest, exchange: Exchange) -> HttpResponse:
        return HttpResponse(200, {"content-length": "999", "Transfer-Encoding": "chunked", "X": "y"}, b"four")

    with closing(connect(serve(adapter(app)))) as client:
        client.request("POST", "/mcp")
        response = client.getresponse()
        assert (response.read(), response.headers["X"]) == (b"four", "y")
        assert response.headers.get_all("Content-Length") == ["4"]


@pytest.mark.parametrize(("host", "reached"), [("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])  # noqa: S104
def test_the_address_is_where_clients_on_this_machine_reach_it(host: str, reached: str) -> None:
    try:
        listener = listen(host, 0)
    except BatonError:
        pytest.skip(f"this machine has no address {host}")
    with LocalServer(host, 0, dynamodb_app(embedded_engine()), listener) as server:
        assert server.address == f"{reached}:{server.server_port}"


def test_a_port_in_use_is_named_with_the_remedy(serve: Serve) -> None:
    port = serve(adapter(echo))
    with pytest.raises(BatonError, match=f"port {port}.* in use: use --port {port + 1}"):
        LocalServer("127.0.0.1", port, HttpFunction(adapter(echo), 60))
