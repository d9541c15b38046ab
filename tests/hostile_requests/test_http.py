"""Hostile HTTP against `baton serve` in a process of its own: each test ends with a normal request that must
succeed."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples

BOUND_S = 60
SERVED = f"{Path(__file__).with_name('served.py')}:server"
COMMAND = [sys.executable, "-c", "import sys; from mcp_baton.cli.app import main; sys.exit(main())", "serve"]
ECHO = json.dumps(
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "here"}}}
).encode()
HEAD = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
WHOLE = HEAD + b"Content-Length: %d\r\n\r\n" % len(ECHO) + ECHO


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of a running `baton serve`. Its process must still run after the last test."""
    command = [*COMMAND, SERVED, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        watchdog = threading.Timer(4 * BOUND_S, process.kill)
        watchdog.start()
        try:
            assert process.stdout
            yield int(process.stdout.readline().rpartition(":")[2].removesuffix("/mcp\n"))
            assert process.poll() is None
        finally:
            watchdog.cancel()
            process.kill()


@pytest.fixture(autouse=True)
def _works_afterwards(port: int) -> Iterator[None]:
    yield
    check_echo(port)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=BOUND_S)


def check_echo(port: int) -> None:
    with closing(HTTPConnection("127.0.0.1", port, timeout=BOUND_S)) as client:
        client.request("POST", "/mcp", ECHO, {"Content-Type": "application/json"})
        response = client.getresponse()
        assert response.status == 200
        assert json.loads(response.read())["result"]["structuredContent"] == {"result": "here"}


def send(port: int, data: bytes) -> bytes:
    """Send these bytes, end the request, and return everything that the server sends."""
    with connect(port) as client:
        try:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # The server refused the request before it read everything. The answer may still be readable.
        return receive_all(client)


def receive_all(client: socket.socket) -> bytes:
    data = bytearray()
    try:
        while chunk := client.recv(65536):
            data += chunk
    except ConnectionResetError:
        pass
    return bytes(data)


def statuses(data: bytes) -> list[int]:
    """Return the status of each answer. Fail if an answer is malformed."""
    codes: list[int] = []
    while data:
        head, separator, remaining = data.partition(b"\r\n\r\n")
        line = head.split(b"\r\n")[0].split(b" ", 2)
        assert (line[0], separator) == (b"HTTP/1.1", b"\r\n\r\n"), data
        lengths = [int(name[15:]) for name in head.split(b"\r\n") if name.lower().startswith(b"content-length:")]
        assert len(lengths) == 1, head
        assert len(remaining) >= lengths[0]
        assert b"Traceback" not in remaining[: lengths[0]]
        data = remaining[lengths[0] :]
        codes.append(int(line[1]))
    return codes


def check_statuses(codes: list[int]) -> None:
    # 501 means an unknown transfer coding, and 505 another version of HTTP.
    assert all(status < 500 or status in {501, 505} for status in codes), codes


FRAGMENTS = st.sampled_from(
    [
        b"POST /mcp HTTP/1.1\r\n",
        b"GET / HTTP/1.0\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: -1\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked, gzip\r\n",
        b"Content-Type: application/json\r\n",
        b"Expect: 100-continue\r\n",
        b"Connection: close\r\n",
        b"Upgrade: websocket\r\n",
        b" folded\r\n",
        b": nameless\r\n",
        b"X\x00Y: \xff\xfe\r\n",
        b"\r\n",
        b"\n",
        b"\r",
        b"5\r\nhello\r\n",
        b"0\r\n\r\n",
        b"fffffffff\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ECHO,
        WHOLE,
    ]
)


@examples(150)
@given(st.lists(FRAGMENTS | st.binary(max_size=20), max_size=8).map(b"".join))
def test_no_sequence_of_bytes_causes_a_server_error(port: int, data: bytes) -> None:
    answer = send(port, data).replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"")
    assert b"Traceback" not in answer
    if answer.startswith(
        b"HTTP/1.1"
    ):  # Python's server answers a request line without a version as HTTP/0.9, without headers.
        check_statuses(statuses(answer))


def test_a_hundred_clients_that_stop_in_mid_request_delay_no_other_client(port: int) -> None:
    with ExitStack() as stack:
        slow_clients = [stack.enter_context(connect(port)) for _ in range(100)]
        for number, client in enumerate(slow_clients):
            client.sendall(WHOLE[: 1 + number * len(WHOLE) // 101])
        check_echo(port)
        for number, client in enumerate(slow_clients):
            client.sendall(WHOLE[1 + number * len(WHOLE) // 101 :])
        for client in slow_clients:
            assert client.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        (b"%x\r\n" % len(ECHO) + ECHO + b"\r\n0\r\n\r\n", [200]),
        (b"%x\r\n" % (len(ECHO) - 1) + ECHO + b"\r\n0\r\n\r\n", [400]),
        (b"%x\r\n" % (len(ECHO) + 9) + ECHO + b"\r\n0\r\n\r\n", [400]),
        (b"%x\r\n" % len(ECHO) + ECHO, [400]),
        (b"0\r\n\r\n" + ECHO, [400]),
        (b"-5\r\n", [400]),
        (b"ffffffffffffff\r\n", [413]),
        (b"5;" + b"x" * 5_000 + b"\r\n", [400]),
        (b"0\r\n" + b"T: a\r\n" * 101, [400]),
    ],
)
def test_chunks_with_wrong_sizes_are_refused(port: int, chunks: bytes, expected: list[int]) -> None:
    assert statuses(send(port, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)) == expected
