"""Reading request bodies off a connection."""

from email.message import Message
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.local.body import Disconnected, Refused, body_length, read_body

LIMIT = 1000


def head(*headers: tuple[str, str]) -> Message:
    message = Message()
    for name, value in headers:
        message[name] = value
    return message


@pytest.mark.parametrize(
    ("headers", "length"),
    [
        ([], 0),
        ([("Content-Length", "7")], 7),
        ([("content-length", " 7 ")], 7),
        ([("Content-Length", "7"), ("Content-Length", "7")], 7),
        ([("Content-Length", "1000")], 1000),
        ([("Transfer-Encoding", "Chunked")], None),
    ],
)
def test_the_headers_tell_the_bodys_length(headers: list[tuple[str, str]], length: int | None) -> None:
    assert body_length(head(*headers), LIMIT) == length


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("Content-Length", "1001")], 413),
        ([("Content-Length", "9" * 18)], 413),
        ([("Content-Length", "-1")], 400),
        ([("Content-Length", "+1")], 400),
        ([("Content-Length", "1_0")], 400),
        ([("Content-Length", "٣")], 400),
        ([("Content-Length", "")], 400),
        ([("Content-Length", "9" * 5000)], 400),
        ([("Content-Length", "1"), ("Content-Length", "2")], 400),
        ([("Content-Length", "1"), ("Transfer-Encoding", "chunked")], 400),
        ([("Transfer-Encoding", "gzip, chunked")], 501),
        ([("Transfer-Encoding", "identity")], 501),
    ],
)
def test_headers_that_cannot_be_followed_are_refused(headers: list[tuple[str, str]], status: int) -> None:
    with pytest.raises(Refused) as caught:
        body_length(head(*headers), LIMIT)
    assert caught.value.status == status


def test_a_body_of_known_length_leaves_the_next_request_alone() -> None:
    stream = BytesIO(b"bodyPOST /next")
    assert read_body(stream, 4, LIMIT) == b"body"
    assert stream.read() == b"POST /next"


def test_a_chunked_body_is_joined_and_its_trailers_and_extensions_skipped() -> None:
    stream = BytesIO(b'4;name="x"\r\nbody\r\n00A\r\n0123456789\r\n0\r\nExpires: never\r\n\r\nPOST /next')
    assert read_body(stream, None, LIMIT) == b"body0123456789"
    assert stream.read() == b"POST /next"


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=20))
def test_however_a_body_is_cut_into_chunks_it_is_the_same(pieces: list[bytes]) -> None:
    wire = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    assert read_body(BytesIO(wire), None, LIMIT) == b"".join(pieces)


@pytest.mark.parametrize(
    ("wire", "status"),
    [
        (b"3e9\r\n", 413),
        (b"3e8\r\n" + b"x" * 1000 + b"\r\n1\r\n", 413),
        (b"ffffffffffffffff\r\n", 400),
        (b"0x4\r\nbody\r\n0\r\n\r\n", 400),
        (b"-4\r\n", 400),
        (b"\r\n", 400),
        (b"4\r\nbodyandmore\r\n0\r\n\r\n", 400),
        (b"4" * 5000, 400),
        (b"0\r\n" + b"A: b\r\n" * 101 + b"\r\n", 400),
    ],
)
def test_malformed_or_endless_chunks_are_refused(wire: bytes, status: int) -> None:
    with pytest.raises(Refused) as caught:
        read_body(BytesIO(wire), None, LIMIT)
    assert caught.value.status == status


@pytest.mark.parametrize(
    ("wire", "length"),
    [(b"bo", 4), (b"", 4), (b"", None), (b"4", None), (b"4\r\nbo", None), (b"4\r\nbody", None), (b"0\r\nA: b", None)],
)
def test_a_connection_that_ends_before_its_body_is_a_disconnect(wire: bytes, length: int | None) -> None:
    with pytest.raises(Disconnected):
        read_body(BytesIO(wire), length, LIMIT)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(wire: bytes) -> None:
    try:
        assert isinstance(read_body(BytesIO(wire), None, LIMIT), bytes)
    except (Refused, Disconnected):
        return
