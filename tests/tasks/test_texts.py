"""Texts are compressed with gzip and decompressed up to a maximum length."""

import random
import tracemalloc
import zlib
from itertools import count

import pytest

from mcp_baton.exceptions import ValueLost, ValueTooLarge
from mcp_baton.tasks.texts import MAX_VALUE_BYTES, ZipWithin, unzipped, zipped, zipped_length

TEXT = ("é\u4e00🎉" * 5000).encode()


def test_a_compressed_text_comes_back_and_states_its_length() -> None:
    data = zipped(TEXT)
    assert unzipped(data) == TEXT
    assert zipped_length(data) == len(TEXT)


def test_a_text_over_the_limit_is_not_read() -> None:
    assert len(unzipped(zipped(b"x" * MAX_VALUE_BYTES))) == MAX_VALUE_BYTES
    with pytest.raises(ValueTooLarge, match=f"{MAX_VALUE_BYTES + 1} bytes"):
        unzipped(zipped(b"x" * (MAX_VALUE_BYTES + 1)))


def with_stated_length(data: bytes, length: int) -> bytes:
    return data[:-4] + length.to_bytes(4, "little")


DAMAGED = {
    "nothing": b"",
    "no zip": b"something else",
    "another zip": zlib.compress(TEXT),
    "broken off": zipped(TEXT)[:-20] + zipped(TEXT)[-4:],
    "changed": zipped(TEXT)[:50] + b"?" + zipped(TEXT)[51:],
    "states less": with_stated_length(zipped(b"x" * 50_000), 10),
    "states more": with_stated_length(zipped(b"x" * 50_000), 60_000),
    "followed by another": zipped(TEXT) + zipped(b"y"),
    "followed by its own length": zipped(TEXT) + len(TEXT).to_bytes(4, "little"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_gzip_stream_is_a_lost_value(damage: str) -> None:
    with pytest.raises(ValueLost):
        unzipped(DAMAGED[damage])


def test_a_gzip_bomb_uses_no_memory() -> None:
    largest = zipped(bytes(50 * MAX_VALUE_BYTES))
    for stated in (100, MAX_VALUE_BYTES, 50 * MAX_VALUE_BYTES):
        tracemalloc.start()
        try:
            with pytest.raises(ValueLost):
                unzipped(with_stated_length(largest, stated))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 3 * MAX_VALUE_BYTES, stated


def test_a_text_that_cannot_be_compressed_in_time_stays_uncompressed() -> None:
    seconds = count()
    text = random.Random(1).randbytes(300_000).hex().encode()

    # Each reading of the clock advances it by a second: at the start, for three pieces, at the end.
    zips = ZipWithin(6.0, lambda: float(next(seconds)))

    assert unzipped(zips(text)) == text
    assert zips(text) == text
    assert zips(b"x") == b"x"
