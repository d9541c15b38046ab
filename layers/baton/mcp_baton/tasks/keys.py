"""Idempotency keys: they show an external API that a call is repeated (docs/workflows.md)."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.tasks.ids import text_digest

KEY_DIGEST_CHARS: Final = 32
"""Hex digits of a digest: 128 bits."""

_EXACT: Final = 2**53


def canonical_text(value: Json) -> str:
    """One text for all values that are equal as JSON: keys are sorted, and `30.0` is written as `30`, as JavaScript
    does.
    """
    return dumps(_plain(value), sort_keys=True)


def digest(value: Json) -> str:
    """The digest of a value's canonical text, hex. Equal values have equal digests."""
    return text_digest(canonical_text(value))[:KEY_DIGEST_CHARS]


def _plain(value: Json) -> Json:
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _EXACT else value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


type Key = Callable[[], str]
"""Returns the key of a call, always the same 32 hex digits."""


def own_key() -> Key:
    """The key of a call that belongs to no step. No other call has it."""
    return made_once(lambda: os.urandom(KEY_DIGEST_CHARS // 2).hex())


def step_key(task_id: str, step: str, arguments: Callable[[], JsonObject]) -> Key:
    """The key of every call of a task's step that has these arguments."""
    return made_once(lambda: digest([task_id, step, arguments()]))


def made_once[Made](make: Callable[[], Made]) -> Callable[[], Made]:
    """A function that makes something on its first call, and returns the same again. Thread-safe. Most requests never
    call it, and to make a `functools.cache` takes twenty times as long."""
    made: list[Made] = []

    def get() -> Made:
        if not made:
            made.append(make())
        return made[0]  # of two threads, the first one's

    return get


def digest_of(value: Json) -> str:
    """The SHA-256 digest of a value's canonical JSON, hex. Equal values have equal digests."""
    return text_digest(canonical_text(value))
