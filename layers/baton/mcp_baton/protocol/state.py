"""`requestState`: the signed state of a multi-round-trip request, which the client sends back in the next round.

The state is bound to the caller, the request and a time: MCP 2026-07-28, basic/patterns/mrtr, Server Requirements. It
is not encrypted: it contains the client's answers and the questions. `hmac` and `hashlib` are imported at first use,
because few servers ask questions, and loading OpenSSL takes milliseconds.
"""

import binascii
import os
from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import Struct

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.json import Json, JsonObject, dumps, loads
from mcp_baton.protocol.jsonrpc import INTERNAL_ERROR
from mcp_baton.settings import Settings

LIFETIME_S: Final = 900
"""The longest time of a round, seconds. People answer the questions."""


type Keys = Callable[[], Iterable[bytes]]
"""`keys()` yields the key that signs, then other accepted keys. Read only what is needed: it may fetch them."""


class ForgedState(Exception):
    """A `requestState` has expired, or was not created for this caller and this request."""


class KeyUnavailable(ProtocolError):
    """The keys are not available. Only requests that need a key fail."""

    def __init__(self) -> None:
        super().__init__(
            INTERNAL_ERROR, "Internal error: the key that signs `requestState` cannot be read; send the request again"
        )


class Seal(Struct, frozen=True):
    """Signs and checks states."""

    keys: Keys
    """Calling it may raise `KeyUnavailable`."""
    is_temporary: bool = False
    """Whether the key was created by this process, so that other processes reject its states."""

    def seal(self, content: JsonObject, binding: str, now_s: int, lifetime_s: int = LIFETIME_S) -> str:
        """Return a signed state, bound to the caller and the request (`binding_of`). `now_s` are epoch seconds. Raises
        `KeyUnavailable` if no key is available."""
        payload = dumps({"content": content, "binding": binding, "expires": now_s + lifetime_s}).encode()
        return f"{to_base64url(payload)}.{to_base64url(_sign(next(iter(self.keys())), payload))}"

    def open(self, state: str, binding: str, now_s: int) -> JsonObject:
        """Return the content of a state.

        Raises:
            ForgedState: the state has expired, or was not created for this caller and request.
            KeyUnavailable: no key is available.
        """
        encoded, _, signature = state.partition(".")
        try:
            payload, expected = from_base64url(encoded), from_base64url(signature)
        except ValueError as error:
            raise ForgedState("it is not of the right form") from error
        from hmac import compare_digest

        if not any(compare_digest(_sign(key, payload), expected) for key in self.keys()):
            raise ForgedState("its signature is wrong")
        document: Any = loads(payload)
        if document["binding"] != binding:
            raise ForgedState("it belongs to another request or another caller")
        if document["expires"] <= now_s:
            raise ForgedState("it has expired")
        content: JsonObject = document["content"]
        return content

    def digest(self, text: str) -> str:
        """Return a digest of a text that only this server can compute, hex. Raises `KeyUnavailable`."""
        return _sign(next(iter(self.keys())), text.encode()).hex()


def binding_of(owner: str | None, method: str, name: Json, arguments: JsonObject, task: Json = None) -> str:
    """Return a digest of the caller, the request and its task. The order of the arguments does not matter."""
    from hashlib import sha256

    return sha256(dumps([owner, method, name, arguments, task], sort_keys=True).encode()).hexdigest()


def _sign(key: bytes, payload: bytes) -> bytes:
    import hmac

    return hmac.digest(key, payload, "sha256")


def to_base64url(data: bytes) -> str:
    """Encode bytes as base64url without padding (RFC 4648, section 5)."""
    return binascii.b2a_base64(data, newline=False).decode().translate(_TO_URL).rstrip("=")


def from_base64url(text: str) -> bytes:
    """Decode a text of `to_base64url`. Each value has exactly one valid text. Raises `ValueError` if the text is
    invalid."""
    padded = text.translate(_FROM_URL) + "=" * (-len(text) % 4)
    data = binascii.a2b_base64(padded, strict_mode=True)
    if to_base64url(data) != text:  # the other alphabet, or unused bits in the last character
        raise ValueError("not canonical base64url")
    return data


_TO_URL = str.maketrans("+/", "-_")
_FROM_URL = str.maketrans("-_", "+/")


def seal_of(settings: Settings, keys: Keys | None = None) -> Seal:
    """Return the seal of a server. Without a configured key, a random one is used, which only this process knows."""
    if keys is not None:
        return Seal(keys)
    previous = () if settings.state_key_previous is None else (settings.state_key_previous,)
    accepted = (settings.state_key or os.urandom(32), *previous)
    return Seal(lambda: accepted, is_temporary=settings.state_key is None)
