"""JSON values that mean the same, written alike, so that they can be compared and digested. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from mcp_baton.protocol.json import Json, dumps

DIGEST_CHARACTERS: Final = 32
"""Hex digits of a digest: 128 bits."""

_EXACT: Final = 2**53


def canonical_text(value: Json) -> str:
    """One text for all values that are equal as JSON: keys are sorted, and `30.0` is written as `30`.

    Clients differ in both: JavaScript, for one, has no `30.0`.
    """
    return dumps(_plain(value), sort_keys=True)


def digest(value: Json) -> str:
    """A digest of a value's canonical text, hex. Equal values have equal digests."""
    from hashlib import sha256

    return sha256(canonical_text(value).encode()).hexdigest()[:DIGEST_CHARACTERS]


def _plain(value: Json) -> Json:
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _EXACT else value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value
