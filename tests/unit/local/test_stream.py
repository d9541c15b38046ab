"""Streamed answers on a connection."""

import pytest

from mcp_baton.local.stream import ChunkedStream
from mcp_baton.protocol.http import ClientGone


class Peer:
    """The other end: takes what is sent until it hangs up."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.hung_up = False

    def send(self, data: bytes) -> None:
        if self.hung_up:
            raise BrokenPipeError
        self.received.append(data)


def stream(peer: Peer, *, chunked: bool = True, silent: bool = False) -> ChunkedStream:
    return ChunkedStream(peer.send, chunked=chunked, silent=silent)


def test_each_write_leaves_at_once_as_one_chunk() -> None:
    peer = Peer()
    open_stream = stream(peer)
    open_stream.write(b"x" * 17)
    open_stream.write(b"")
    assert peer.received == [b"11\r\n" + b"x" * 17 + b"\r\n"]
    open_stream.close()
    assert peer.received[1:] == [b"0\r\n\r\n"]


def test_without_chunks_the_bytes_are_sent_as_they_are() -> None:
    peer = Peer()
    open_stream = stream(peer, chunked=False)
    open_stream.write(b"abc")
    open_stream.close()
    assert peer.received == [b"abc"]


def test_the_answer_to_head_has_no_body() -> None:
    peer = Peer()
    open_stream = stream(peer, silent=True)
    open_stream.write(b"abc")
    open_stream.close()
    assert peer.received == []


def test_a_client_that_hung_up_is_gone_for_good() -> None:
    peer = Peer()
    open_stream = stream(peer)
    peer.hung_up = True
    with pytest.raises(ClientGone):
        open_stream.write(b"abc")
    peer.hung_up = False
    with pytest.raises(ClientGone):
        open_stream.write(b"def")
    with pytest.raises(ClientGone):
        open_stream.close()
    assert peer.received == []
