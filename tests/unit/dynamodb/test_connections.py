"""Connections to DynamoDB: what is sent and read on them, which are kept, and whom they trust."""

import socket
import ssl
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mcp_baton.dynamodb import connections
from mcp_baton.dynamodb.connections import KEPT, Connections, Endpoint
from mcp_baton.dynamodb.direct import DirectClient, to_json
from mcp_baton.dynamodb.environment import certificate_authorities
from mcp_baton.dynamodb.requests import NoAnswer, NotConnected, NotSent, Refused
from tests.unit.dynamodb.scripted import CLOSE, HANG, Scripted, Told, ok, raw, scripted

KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"}
TIMEOUT_S = 0.2
BOUND_S = 10.0
DONE = ok({"done": True})


def client(
    port: int, environment: dict[str, str] = KEYS, read_timeout_s: float = BOUND_S, **where: Any
) -> DirectClient:
    endpoint = Endpoint(**{"region": "eu-west-1", "host": "127.0.0.1", "port": port, **where})
    return DirectClient(endpoint, environment, connect_timeout_s=BOUND_S, read_timeout_s=read_timeout_s)


def idle_of(asking: DirectClient) -> list[Any]:
    """The connections that it keeps."""
    kept: list[Any] = vars(vars(asking)["_connections"])["_idle"]
    return kept


def test_a_request_is_dynamodbs_json_signed_with_what_the_environment_holds_now() -> None:
    environment = dict(KEYS)
    with scripted(DONE) as server:
        asking = client(server.port, environment, path="/db")
        assert asking.request("PutItem", {"Item": {"pk": {"S": "Grüße"}, "z": {"B": b"\xff"}}}) == {"done": True}
        trace = "Root=1-5759e988-bd862e3fe1be46a994272793"
        environment |= {"AWS_ACCESS_KEY_ID": "NEW", "AWS_SESSION_TOKEN": "token", "_X_AMZN_TRACE_ID": trace}
        asking.request("Query", {})
        environment |= {"AWS_LAMBDA_FUNCTION_NAME": "shop"}
        asking.request("Query", {})
        environment["_X_AMZN_TRACE_ID"] = "Root=1\r\nhost:elsewhere"
        asking.request("Query", {})
        environment["AWS_ACCESS_KEY_ID"] = ""
        with pytest.raises(NotSent, match="AWS_ACCESS_KEY_ID"):
            asking.request("Query", {})

    (head, body), (later, _), (traced, _), (untraced, _) = server.requests
    lines = head.split("\r\n")
    assert lines[0] == "POST /db HTTP/1.1"
    assert {
        *("content-type:application/x-amz-json-1.0", "x-amz-target:DynamoDB_20120810.PutItem"),
        *("accept-encoding:identity", "user-agent:mcp-baton", f"host:127.0.0.1:{server.port}"),
    } <= set(lines)
    assert "Credential=AKIDEXAMPLE/" in head
    assert body == b'{"Item":{"pk":{"S":"Gr\\u00fc\\u00dfe"},"z":{"B":"/w=="}}}'
    assert ("Credential=NEW/" in later, "\r\nx-amz-security-token:token\r\n" in later) == (True, True)
    assert [f"\r\nx-amzn-trace-id:{trace}\r\n" in sent for sent in (later, traced)] == [False, True]
    assert ("x-amzn-trace-id" in untraced, "elsewhere" in untraced) == (False, False)
    assert server.connections == 1


def test_an_answer_in_chunks_and_pieces_is_read_whole() -> None:
    body = b'{"Item": {"a": {"B": "/w=="}, "b": {"BS": ["AA=="]}}}'
    chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks += b"".join(b"%x;x=y\r\n%s\r\n" % (len(part), part) for part in (body[:9], body[9:])) + b"0\r\nT: t\r\n\r\n"
    with scripted(Told(chunks)) as server:
        asking = client(server.port)
        for _ in range(2):
            assert asking.request("GetItem", {}) == {"Item": {"a": {"B": b"\xff"}, "b": {"BS": [b"\x00"]}}}
        assert server.connections == 1


@pytest.mark.parametrize(
    "told",
    [
        Told(raw(b"{}", Connection="close"), HANG),
        Told(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", HANG),
        Told(raw(b"{}") + b"more", HANG),
    ],
    ids=["to be closed", "of HTTP/1.0", "followed by more"],
)
def test_a_connection_that_cannot_take_another_request_is_not_kept(told: Told) -> None:
    with scripted(told) as server:
        asking = client(server.port)
        for _ in range(3):
            assert asking.request("DeleteItem", {}) == {}
            assert idle_of(asking) == []
        assert server.connections == 3


def test_an_idle_connection_that_the_server_has_closed_is_not_used() -> None:
    with scripted(DONE) as server:
        asking = client(server.port)
        for _ in range(20):
            assert asking.request("PutItem", {}) == {"done": True}
            [idle] = idle_of(asking)
            server.close_idle()
            # The end has arrived when something can be read.
            idle.recv(1, socket.MSG_PEEK)
        assert (server.connections, len(server.requests)) == (20, 20)


BROKEN = {
    "nothing": Told(b"", CLOSE),
    "half of its headers": Told(b"HTTP/1.1 200 OK\r\nContent-Le", CLOSE),
    "half of its body": Told(raw(b"{}")[:-1], CLOSE),
    "silence": Told(b"", HANG),
    "silence in its midst": Told(raw(b"{}")[:-1], HANG),
    "another protocol": Told(b"220 smtp.example.com ESMTP\r\n\r\n", HANG),
    "no length": Told(b"HTTP/1.1 200 OK\r\n\r\n{}", CLOSE),
    "a length that is none": Told(b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}", CLOSE),
    "too great a length": Told(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{}", HANG),
    "too great a chunk": Told(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n{}", HANG),
    "a chunk that ends elsewhere": Told(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n", HANG),
    "headers without end": Told(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20_000, HANG),
    "a chunk's line without end": Told(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 200_000, HANG),
    "an informational status": Told(raw(b"{}", 100), HANG),
    "another checksum": Told(raw(b"{}", 200, **{"x-amz-crc32": "1"})),
    "another checksum of an error": Told(raw(b"{}", 400, **{"x-amz-crc32": "1"})),
    "a page": Told(raw(b"<html>")),
    "no object": Told(raw(b"[]")),
    "a text": Told(raw(b'"Item"')),
    "an item that is none": Told(raw(b'{"Item": [1]}')),
    "bytes that are none": Told(raw(b'{"Item": {"a": {"B": "x"}}}')),
    "a set of bytes that is none": Told(raw(b'{"Item": {"a": {"BS": [1]}}}')),
    "no text": Told(raw(b"\xff\xfe")),
    "endless lists": Told(raw(b'{"Item":' + b"[" * 200_000)),
}


@pytest.mark.parametrize("told", BROKEN.values(), ids=BROKEN)
def test_after_an_answer_that_is_none_nobody_knows_what_was_written(told: Told) -> None:
    with scripted(told) as server:
        asking = client(server.port, read_timeout_s=TIMEOUT_S if told.then == HANG else BOUND_S)
        with pytest.raises(NoAnswer):
            asking.request("GetItem", {})
        assert len(server.requests) == 1
        # What was left on its connection is no answer to the next request.
        server.answer = lambda _head, _body: ok({"Item": {}})
        assert asking.request("GetItem", {}) == {"Item": {}}


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [raw(b'{"a": 56789012}'), CHUNKED + b'f\r\n{"a": 56789012}\r\n0\r\n\r\n'],
    ids=["in one", "in chunks"],
)
def test_an_answer_that_is_too_large_is_not_read(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(Told(data)) as server:
        asking = client(server.port)
        monkeypatch.setattr(connections, "MAX_BODY_BYTES", 15)
        assert asking.request("PutItem", {}) == {"a": 56789012}
        monkeypatch.setattr(connections, "MAX_BODY_BYTES", 14)
        with pytest.raises(NoAnswer, match="the answer's length is"):
            asking.request("PutItem", {})


def test_chunks_that_are_too_many_together_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_BODY_BYTES", 15)
    many = Told(CHUNKED + b"a\r\n0123456789\r\n" * 2 + b"0\r\n\r\n")
    with scripted(many) as server, pytest.raises(NoAnswer, match="too many"):
        client(server.port).request("PutItem", {})


def test_an_error_that_is_no_json_is_told_by_its_status() -> None:
    with scripted(Told(raw(b"<html>Bad Gateway", 502))) as server, pytest.raises(Refused) as refused:
        client(server.port).request("PutItem", {})
    assert (refused.value.code, refused.value.status) == ("502", 502)


def test_what_takes_no_connection_was_sent_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for host in ("127.0.0.1", "no-such-host.invalid"):
        with pytest.raises(NotConnected):
            client(port, host=host).request("PutItem", {})


def test_a_connection_waits_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float | None] = []

    def create_connection(_address: object, timeout: float) -> socket.socket:
        asked.append(timeout)
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", create_connection)
    with pytest.raises(NotConnected, match="timed out"):
        client(1).request("PutItem", {})
    assert asked == [BOUND_S]


def test_threads_have_connections_of_their_own_and_few_are_kept() -> None:
    together = threading.Barrier(16)

    def echo(head: str, body: bytes) -> Told:
        if b"first" in body:
            together.wait(BOUND_S)
        return ok({"sent": body.decode()})

    with scripted(echo) as server, ThreadPoolExecutor(16) as pool:
        asking = client(server.port)

        def ask(number: int, *more: str) -> bool:
            asked = {"number": number, "text": "x" * (number * 997 % 5_000), "more": more}
            return bool(asking.request("PutItem", asked)["sent"] == to_json(asked).decode())

        assert all(pool.map(lambda number: ask(number, "first"), range(16)))
        assert server.connections == 16
        assert KEPT <= len(idle_of(asking)) < 16
        assert all(pool.map(ask, range(400)))


def test_an_interrupted_request_leaves_nothing_for_the_next() -> None:
    with scripted(ok({"of": "the first"})) as server:
        asking = client(server.port)
        asking.request("PutItem", {})
        [idle] = idle_of(asking)

        class Interrupted(BaseException):
            """Raised wherever the program is."""

        class Interrupting:
            def sendall(self, data: bytes) -> None:
                idle.sendall(data)
                raise Interrupted

            def fileno(self) -> int:
                return int(idle.fileno())

            def close(self) -> None:
                idle.close()

        idle_of(asking)[:] = [Interrupting()]
        with pytest.raises(Interrupted):
            asking.request("PutItem", {})
        server.answer = lambda _head, _body: ok({"of": "the second"})
        assert asking.request("PutItem", {}) == {"of": "the second"}
        assert idle.fileno() == -1


def test_a_connection_is_kept_alive_and_sends_at_once() -> None:
    with scripted(DONE) as server:
        asking = client(server.port)
        asking.request("PutItem", {})
        [idle] = idle_of(asking)
        assert idle.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert idle.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert idle.gettimeout() == BOUND_S


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for `localhost` that vouches for itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    key, own = folder / "key.pem", folder / "cert.pem"
    name = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    made = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    subprocess.run([*made, "-keyout", key, "-out", own, "-days", "2", *name], check=True, capture_output=True)
    return own, key


@pytest.fixture
def tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    """A server's side of TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


def test_over_tls_a_connection_is_kept_and_its_end_noticed(certificate: tuple[Path, Path], tls: ssl.SSLContext) -> None:
    with scripted(DONE, tls) as server:
        asking = client(server.port, host="localhost", certificates=str(certificate[0]))
        for _ in range(3):
            assert asking.request("PutItem", {}) == {"done": True}
        assert server.connections == 1
        [idle] = idle_of(asking)
        assert isinstance(idle, ssl.SSLSocket)
        assert idle.version() in ("TLSv1.2", "TLSv1.3")
        server.close_idle()
        socket.socket.recv(idle, 1, socket.MSG_PEEK)
        assert asking.request("PutItem", {}) == {"done": True}
        assert (server.connections, len(server.requests)) == (2, 4)


def test_over_tls_what_was_sent_beyond_an_answer_is_no_answer_to_the_next(
    certificate: tuple[Path, Path], tls: ssl.SSLContext
) -> None:
    # One record, of which an exact reader leaves the rest where the socket does not show it.
    with scripted(Told(ok({"of": "the first"}).data + raw(b'{"of": "nobody"}')), tls) as server:
        asking = client(server.port, host="localhost", certificates=str(certificate[0]))
        assert [asking.request("PutItem", {}) for _ in range(2)] == [{"of": "the first"}] * 2
        assert server.connections == 2


def test_whoever_is_not_vouched_for_is_sent_nothing(certificate: tuple[Path, Path], tls: ssl.SSLContext) -> None:
    authorities, own = certificate_authorities(), str(certificate[0])
    with scripted(DONE, tls) as server:
        for where in ({"host": "localhost", "certificates": authorities}, {"host": "127.0.0.1", "certificates": own}):
            with pytest.raises(NotConnected, match="CERTIFICATE_VERIFY_FAILED"):
                client(server.port, **where).request("PutItem", {})
        assert server.requests == []


def test_old_tls_is_refused(certificate: tuple[Path, Path]) -> None:
    opened = Connections(Endpoint("eu-west-1", "localhost", 1, certificates=str(certificate[0])), 1.0, 1.0)
    context: Any = vars(opened)["_tls"]
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)


def test_a_server_that_says_nothing_in_the_handshake_was_sent_nothing(certificate: tuple[Path, Path]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = Endpoint("eu-west-1", "localhost", listener.getsockname()[1], certificates=str(certificate[0]))
        with pytest.raises(NotConnected, match="timed out"):
            DirectClient(endpoint, KEYS, connect_timeout_s=TIMEOUT_S, read_timeout_s=BOUND_S).request("PutItem", {})


def test_the_server_of_these_tests_answers_to_the_byte() -> None:
    served: Scripted
    with scripted(Told(b"x", CLOSE)) as served, socket.create_connection(("127.0.0.1", served.port)) as peer:
        peer.sendall(b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\ny")
        assert (peer.recv(10), peer.recv(10)) == (b"x", b"")
        assert served.requests[0][1] == b"y"
