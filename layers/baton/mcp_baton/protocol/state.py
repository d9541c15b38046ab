"""`requestState`: what a multi-round-trip request carries from one round to the next, where no one can change it.

It travels through the client, so it is signed, and bound to the caller, to the request and to a time: MCP 2026-07-28,
basic/patterns/mrtr, Server Requirements. It is signed, not encrypted: it holds what the client has said, and what it
was asked. The digests are imported where they are made: few servers ask, and loading OpenSSL's takes milliseconds.
"""

import binascii
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.json import Json, JsonObject, dumps, loads
from mcp_baton.protocol.jsonrpc import INTERNAL_ERROR
from mcp_baton.settings import Settings

LIFETIME_S: Final = 900
"""How long a round may take the client, seconds: people are asked."""


type Keys = Callable[[], Iterable[bytes]]
"""`keys()`: what states are signed with; the first key signs, the others are still accepted.

Called when a key is needed, and read only as far as needed: keys may have to be fetched first.
"""


class ForgedState(Exception):
    """A `requestState` that this server did not make for this caller and this request, or that is too old."""


class KeyUnavailable(ProtocolError):
    """The keys cannot be had now. It answers the request that needed one, and no other."""

    def __init__(self) -> None:
        super().__init__(
            INTERNAL_ERROR, "Internal error: the key that signs `requestState` cannot be read; send the request again"
        )


class Seal(Struct, frozen=True):
    """Signs and checks states.

    Attributes:
        keys: What it signs with. Whoever makes them up may raise `KeyUnavailable`.
        is_temporary: Whether the key was created by this process, so that other processes reject its states.
    """

    keys: Keys
    is_temporary: bool = False

    def seal(self, content: JsonObject, binding: str, now_s: int, lifetime_s: int = LIFETIME_S) -> str:
        """A state.

        Args:
            content: What it is to hold.
            binding: Names the caller and the request, as `binding_of` does.
            now_s: Epoch seconds.
            lifetime_s: How long it can be used, seconds.

        Raises:
            KeyUnavailable: there is no key to sign with now.
        """
        payload = dumps({"content": content, "binding": binding, "expires": now_s + lifetime_s}).encode()
        return f"{to_base64url(payload)}.{to_base64url(_sign(next(iter(self.keys())), payload))}"

    def open(self, state: str, binding: str, now_s: int) -> Mapping[str, Json]:
        """The content of a state.

        Raises:
            ForgedState: it is not a state of this server's, for this caller and request, or it has expired.
            KeyUnavailable: there is no key to check it with now.
        """
        payload = self._verified(state)
        sealed = loads(payload)
        if not isinstance(sealed, Mapping):
            raise ForgedState("it holds no state")
        content, expires = sealed.get("content"), sealed.get("expires")
        if sealed.get("binding") != binding:
            raise ForgedState("it belongs to another request or another caller")
        if not isinstance(expires, int) or expires <= now_s:
            raise ForgedState("it has expired")
        if not isinstance(content, Mapping):
            raise ForgedState("it holds nothing")
        return content

    def _verified(self, state: str) -> bytes:
        encoded, _, signature = state.partition(".")
        try:
            payload, signed = from_base64url(encoded), from_base64url(signature)
        except ValueError as error:
            raise ForgedState("it is not of the right form") from error
        from hmac import compare_digest

        if not any(compare_digest(_sign(key, payload), signed) for key in self.keys()):
            raise ForgedState("its signature is wrong")
        return payload


def binding_of(owner: str | None, method: str, name: str, arguments: JsonObject, task: Json = None) -> str:
    """What a state is bound to: the caller, and a digest of the request and of the task that it names.

    A client may write the same arguments in another order when it sends the call again.
    """
    from hashlib import sha256

    return sha256(dumps([owner, method, name, arguments, task], sort_keys=True).encode()).hexdigest()


def _sign(key: bytes, payload: bytes) -> bytes:
    import hmac

    return hmac.digest(key, payload, "sha256")


def to_base64url(data: bytes) -> str:
    """Bytes as base64url without padding (RFC 4648, section 5)."""
    return binascii.b2a_base64(data, newline=False).decode().translate(_TO_URL).rstrip("=")


def from_base64url(text: str) -> bytes:
    """What `to_base64url` made the text of; no two texts stand for the same.

    Raises:
        ValueError: it made no such text.
    """
    padded = text.translate(_FROM_URL) + "=" * (-len(text) % 4)
    data = binascii.a2b_base64(padded, strict_mode=True)
    if to_base64url(data) != text:  # the other alphabet, or a last character with bits that stand for nothing
        raise ValueError("not as it was written")
    return data


_TO_URL = str.maketrans("+/", "-_")
_FROM_URL = str.maketrans("-_", "+/")


def seal_of(settings: Settings, keys: Keys | None = None) -> Seal:
    """What signs this server's states. A key made here is good for one process, so only for a server of one's own."""
    if keys is not None:
        return Seal(keys)
    known = tuple(key for key in (settings.state_key or os.urandom(32), settings.state_key_previous) if key is not None)
    return Seal(lambda: known, is_temporary=settings.state_key is None)
