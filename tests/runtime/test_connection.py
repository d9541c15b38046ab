"""The kept connection, with replies that arrive in pieces, with bodies, or without an end."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mcp_baton.protocol.http import ClientGone
from mcp_baton.transport.runtime.connection import RuntimeConnection
from mcp_baton.transport.runtime.stream import send_whole
from tests.scripted_server import CLOSE, Scripted, ScriptedReply, scripted

REQUEST = b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
ACCEPTED = b"HTTP/1.1 202 Accepted\r\n"


@contextmanager
def connected(reported: ScriptedReply) -> Iterator[tuple[Scripted, RuntimeConnection]]:
    """Run a server that sends this reply to every request. Yield it and a connection to it."""
    with scripted(reported) as server:
        connection = RuntimeConnection(f"127.0.0.1:{server.port}")
        yield server, connection
        connection.drop()


@pytest.mark.parametrize(
    ("pieces", "connections"),
    [
        pytest.param([ACCEPTED + b"Content-Length: 16\r\n\r\n", b'{"status":"OK"}\n'], 1, id="a body of its own"),
        pytest.param([b"HTTP/1.", b"1 202 Accepted\r\nContent-Le", b"ngth: 2\r\n\r", b"\nOK"], 1, id="in pieces"),
        pytest.param([ACCEPTED + b"CONTENT-LENGTH:0\r\n\r\n"], 1, id="in capitals"),
        pytest.param([ACCEPTED + b"Content-Length: 0\r\nConnection: Close\r\n\r\n"], 2, id="the last on this one"),
        pytest.param([ACCEPTED + b"Transfer-Encoding: chunked\r\n\r\n2\r\nOK\r\n0\r\n\r\n"], 2, id="without a length"),
        pytest.param([ACCEPTED + b"Content-Length: 2\r\n\r\nOKHTTP/1.1 500 -\r\n\r\n"], 2, id="more than one reply"),
    ],
)
def test_a_connection_is_kept_only_after_exactly_one_whole_reply(pieces: list[bytes], connections: int) -> None:
    statuses = []
    with connected(ScriptedReply(pieces=tuple(pieces))) as (server, connection):
        for _ in range(2):
            connection.begin(REQUEST)
            statuses.append(connection.read_status())
        assert (statuses, server.connections) == ([202, 202], connections)


@pytest.mark.parametrize(
    "reported",
    [
        *(ScriptedReply(reply, CLOSE) for reply in (b"", b"HTTP/1.1 202 Acc", b"x" * 100_000)),
        ScriptedReply(ACCEPTED + b"Content-Length: 99\r\n\r\nhalf", CLOSE),
        *(ScriptedReply(reply) for reply in (b"HTTP/1.1\r\n\r\n", b"hello\r\n\r\n")),
        ScriptedReply(ACCEPTED + b"Content-Length: many\r\n\r\n"),
    ],
    ids=lambda reported: repr(reported.data[-20:]),
)
def test_an_incomplete_or_invalid_reply_ends_the_response_without_a_crash(reported: ScriptedReply) -> None:
    with connected(reported) as (_, connection):
        connection.begin(REQUEST)
        with pytest.raises(ClientGone):
            connection.read_status()


class OneRequest(RuntimeConnection):
    """A connection that accepts each request and records what is sent."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1:9001")
        self.sent: list[bytes] = []

    def begin(self, head: bytes) -> None:
        self.sent.append(head)

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def read_status(self) -> int:
        return 202


def test_a_whole_response_is_sent_at_once() -> None:
    connection = OneRequest()
    send_whole(connection, "id", None, 200, {"X": "y"}, b"body")
    [sent] = connection.sent
    assert sent.endswith(b"\0body\r\n0\r\n\r\n")
