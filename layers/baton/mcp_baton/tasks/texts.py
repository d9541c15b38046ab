"""JSON texts as they are kept: zipped from a length on, and never unzipped beyond a bound (docs/storage.md, Budgets).

A zip is a gzip stream (RFC 1952). Its last four bytes are the length of the text, so that a text is weighed without
being unzipped; they are held against what comes out when it is.
"""

import codecs
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from mcp_baton.exceptions import ValueLost, ValueTooLarge

MARK: Final = '"'
"""How a text begins that is stored as its JSON text: `from_text` gives out every other one as it is."""


def to_text(text: str) -> str:
    """Any Python string as one that DynamoDB takes as a key, a map's key or a string.

    UTF-8 has no lone surrogates and a map no empty key: such a string is stored as its JSON text, which begins with a
    quotation mark; so is one that itself begins with a quotation mark, and every other string is stored as it is.
    """
    if text and not text.startswith(MARK) and (text.isascii() or not _has_surrogates(text)):
        return text
    return json.dumps(text)


def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def from_text(stored: str) -> str:
    """The string that `to_text` was given."""
    return str(json.loads(stored)) if stored.startswith(MARK) else stored


VALUE_BYTES: Final = 6_000_000
"""The longest JSON text of a value that is read back, bytes; as long as a request's body may be."""

PIECE_BYTES: Final = 65_536
"""How much of a text is in memory at once when it is passed on in pieces, bytes."""

ZIPPED_AT_ONCE: Final = 262_144
"""How much is zipped between two looks at the clock, bytes."""

_GZIP = 31  # zlib's number for a gzip stream with the largest window
_MAGIC = b"\x1f\x8b"
_LENGTH_BYTES = 4
_DAMAGED = "its zip is damaged"


def zipped(text: bytes) -> bytes:
    """A text as a gzip stream."""
    return zlib.compress(text, wbits=_GZIP)


class ZipWithin:
    """Zips texts for so long, all together; from then on texts stay as they are, which costs room and no time.

    Args:
        seconds: How long zipping may take.
        monotonic: Seconds, from any moment on.
    """

    def __init__(self, seconds: float, monotonic: Callable[[], float]) -> None:
        self._left_s = seconds
        self._monotonic = monotonic

    def __call__(self, text: bytes) -> bytes:
        """The text as a gzip stream, or the text itself when there was no time for that."""
        began = self._monotonic()
        zipper, made = zlib.compressobj(wbits=_GZIP), list[bytes]()
        try:
            for place in range(0, len(text), ZIPPED_AT_ONCE):
                if self._monotonic() - began > self._left_s:
                    return text
                made.append(zipper.compress(text[place : place + ZIPPED_AT_ONCE]))
        finally:
            self._left_s -= self._monotonic() - began
        return b"".join((*made, zipper.flush()))


def is_zipped(data: bytes) -> bool:
    """Whether these are bytes of a gzip stream; no JSON text begins like one."""
    return data.startswith(_MAGIC)


def zipped_length(data: bytes) -> int:
    """The length of the text in a gzip stream, as the stream states it, bytes; of anything else its own."""
    return int.from_bytes(data[-_LENGTH_BYTES:], "little") if is_zipped(data) else len(data)


def check_readable(text_bytes: int) -> None:
    """Make sure that a text of this length may be read.

    Raises:
        ValueTooLarge: it is longer than `VALUE_BYTES`.
    """
    if text_bytes > VALUE_BYTES:
        raise ValueTooLarge(text_bytes, VALUE_BYTES)


def unzipped(data: bytes) -> bytes:
    """The whole text in a gzip stream.

    Raises:
        ValueLost: it is damaged, or holds more than it states.
        ValueTooLarge: it states more than is read.
    """
    return b"".join(unzipped_pieces(data, VALUE_BYTES))


def unzipped_pieces(data: bytes, piece_bytes: int = PIECE_BYTES) -> Iterator[bytes]:
    """The text in a gzip stream, in pieces of at most so many bytes.

    Raises:
        ValueLost, ValueTooLarge: as `unzipped`; what came out before is then worth nothing.
    """
    return unzipped_stream((data,), zipped_length(data), piece_bytes)


def unzipped_stream(parts: Iterable[bytes], length: int, piece_bytes: int = PIECE_BYTES) -> Iterator[bytes]:
    """The text in a gzip stream that comes in parts, in pieces of at most so many bytes.

    Args:
        parts: The stream, wherever it was cut.
        length: The length of the text, bytes.
        piece_bytes: The longest piece.

    Raises:
        ValueLost: it is damaged, or holds more than that.
        ValueTooLarge: it is longer than is read.
    """
    check_readable(length)
    unzip = zlib.decompressobj(_GZIP)
    came = 0
    try:
        for part in parts:
            rest = part
            while not unzip.eof:
                piece = unzip.decompress(rest, min(piece_bytes, length - came + 1))
                rest, came = unzip.unconsumed_tail, came + len(piece)
                if came > length:
                    raise ValueLost(length, _DAMAGED)
                if not piece:
                    break
                yield piece
            if unzip.eof and (unzip.unused_data or rest):
                raise ValueLost(length, _DAMAGED)
    except zlib.error as error:
        raise ValueLost(length, _DAMAGED) from error
    if not unzip.eof or came != length:
        raise ValueLost(length, _DAMAGED)


def decoded(pieces: Iterable[bytes]) -> Iterator[str]:
    """Pieces of UTF-8 as text, wherever they were cut.

    Raises:
        UnicodeDecodeError: they are not UTF-8.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    for piece in pieces:
        yield decoder.decode(piece)
    yield decoder.decode(b"", final=True)
