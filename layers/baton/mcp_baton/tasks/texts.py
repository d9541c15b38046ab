"""JSON texts as they are stored: compressed if they are long, and decompressed with a limit (docs/storage.md, Budgets).

A compressed text is a gzip stream (RFC 1952). Its last four bytes are the length of the text. So the length is known
without decompressing. It is verified when the text is decompressed.
"""

import json
import zlib
from collections.abc import Callable
from typing import Final

from mcp_baton.exceptions import ValueLost, ValueTooLarge

QUOTE_MARK: Final = '"'
"""The first character of a string that is stored as its JSON text. `from_text` returns others unchanged."""


def to_text(text: str) -> str:
    """A string in a form that DynamoDB accepts as a key, a map's key or a string.

    DynamoDB accepts no lone surrogates and no empty keys in maps. Such a string is stored as its JSON text, which
    begins with a quotation mark. So is a string that begins with a quotation mark. Others are stored unchanged.
    """
    if text and not text.startswith(QUOTE_MARK) and (text.isascii() or not _has_surrogates(text)):
        return text
    return json.dumps(text)


def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def from_text(text: str) -> str:
    """The string that `to_text` was given."""
    return str(json.loads(text)) if text.startswith(QUOTE_MARK) else text


def within_bytes(text: str, limit: int) -> str:
    """A text that takes at most so many bytes as it is stored. An ellipsis replaces the rest."""
    while len(to_text(text).encode()) > limit:
        text = text[: len(text) * 3 // 4] + "…"
    return text


MAX_OWNER_BYTES: Final = 2_000
"""The longest owner as stored. A partition key of DynamoDB has 2,048 bytes, and contains more than the owner."""

MAX_VALUE_BYTES: Final = 6_000_000
"""The longest JSON text that is read back, bytes. A request's body has the same limit."""

MAX_STORED_BYTES: Final = 1_900_000
"""The longest value as it is stored, which is mostly compressed, bytes. Writing it takes 1,860 write units."""

ZIPPED_AT_ONCE_BYTES: Final = 262_144
"""How much is compressed before the time is checked again, bytes."""

_GZIP = 31  # zlib's number for a gzip stream with the largest window
_MAGIC = b"\x1f\x8b"
_LENGTH_BYTES = 4
_DAMAGED = "its zip is damaged"


def zipped(text: bytes) -> bytes:
    return zlib.compress(text, wbits=_GZIP)


class ZipWithin:
    """Compresses texts until a time limit for all of them. Further texts stay uncompressed."""

    def __init__(self, seconds: float, monotonic: Callable[[], float]) -> None:
        self._remaining_s = seconds
        self._monotonic = monotonic

    def __call__(self, text: bytes) -> bytes:
        start_s = self._monotonic()
        zipper, pieces = zlib.compressobj(wbits=_GZIP), list[bytes]()
        try:
            for offset in range(0, len(text), ZIPPED_AT_ONCE_BYTES):
                if self._monotonic() - start_s > self._remaining_s:
                    return text
                pieces.append(zipper.compress(text[offset : offset + ZIPPED_AT_ONCE_BYTES]))
        finally:
            self._remaining_s -= self._monotonic() - start_s
        return b"".join((*pieces, zipper.flush()))


def is_zipped(data: bytes) -> bool:
    """Whether bytes are a gzip stream. No JSON text begins like one."""
    return data.startswith(_MAGIC)


def zipped_length(data: bytes) -> int:
    """The length of the text in a gzip stream, as the stream states it, bytes; of other data its own length."""
    return int.from_bytes(data[-_LENGTH_BYTES:], "little") if is_zipped(data) else len(data)


def check_readable(text_bytes: int) -> None:
    if text_bytes > MAX_VALUE_BYTES:
        raise ValueTooLarge(text_bytes, MAX_VALUE_BYTES)


def unzipped(data: bytes) -> bytes:
    """The text in a gzip stream. Raises `ValueLost` if it is damaged, `ValueTooLarge` if it states more than is
    read."""
    length = zipped_length(data)
    check_readable(length)
    unzip = zlib.decompressobj(_GZIP)
    try:
        text = unzip.decompress(data, length + 1)
    except zlib.error as error:
        raise ValueLost(length, _DAMAGED) from error
    if not unzip.eof or unzip.unused_data or len(text) != length:
        raise ValueLost(length, _DAMAGED)
    return text
