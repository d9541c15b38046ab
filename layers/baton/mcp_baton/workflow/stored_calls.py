"""The arguments of a continuation as they are stored with its result, in `_workflow.call.<step>`. Pure."""

from collections.abc import Collection, Mapping
from typing import Final, TypeGuard

from mcp_baton.protocol.json import Json, JsonObject, json_size
from mcp_baton.tasks.keys import digest
from mcp_baton.tasks.record import CALL_PREFIX
from mcp_baton.tools.secrets import is_hidden, stored_arguments

MAX_STORED_CALL_BYTES: Final = 8_192
"""The longest JSON text of arguments that are stored whole, bytes."""

DIGEST: Final = "_workflow.digest"
"""The key of a digest that is stored instead of a value: `{"_workflow.digest": "<hex>", "bytes": N}`. A value that
looks like a digest, or like a hidden secret, is stored as a digest, too."""


def stored_call(arguments: JsonObject, hidden: Collection[str] = ()) -> JsonObject:
    """The arguments as they are stored. If they take over 8 KB, the longest ones are replaced by their digests.

    Args:
        hidden: The names of those that must not be stored.
    """
    values = stored_arguments(arguments, hidden)
    lengths = {name: json_size(value) for name, value in values.items()}
    reserved = {
        name
        for name, value in arguments.items()
        if name not in hidden and (_is_digest_entry(value) or is_hidden(value))
    }
    call = {name: _digest_entry(value, lengths[name]) if name in reserved else value for name, value in values.items()}
    total = json_size(call)
    for name in sorted(values.keys() - reserved, key=lambda name: (-lengths[name], name)):
        if total <= MAX_STORED_CALL_BYTES:
            break
        call[name] = _digest_entry(values[name], lengths[name])
        # A client chooses how many arguments there are, so do not encode all of them again for each.
        total += json_size(call[name]) - lengths[name]
    return _digest_entry(values, json_size(values)) if total > MAX_STORED_CALL_BYTES or _is_digest_entry(call) else call


def shown_call(variables: JsonObject, step: str) -> JsonObject | None:
    """The stored arguments of a step's call, for display; `None` if there are none.

    Raises:
        StoreError: they cannot be read.
    """
    call = variables.get(f"{CALL_PREFIX}{step}")
    if not isinstance(call, Mapping) or _is_digest_entry(call):
        return None
    return {name: _shown_value(value) for name, value in call.items()}


def restore_call(stored_value: Json, call: JsonObject) -> JsonObject | None:
    """The stored arguments, completed by those of a call: secrets, and values whose stored digest is equal.

    Returns:
        `None` if the calls differ, or if nothing was stored.
    """
    if not isinstance(stored_value, Mapping):
        return None
    if _is_digest_entry(stored_value):
        return call if stored_value[DIGEST] == digest(call) else None
    # A secret is not stored, so it cannot differ.
    arguments: dict[str, Json] = {}
    for name, value in stored_value.items():
        if is_hidden(value):
            arguments |= {name: call[name]} if name in call else {}
        elif not _is_digest_entry(value):
            arguments[name] = value
        elif name in call and value[DIGEST] == digest(call[name]):
            arguments[name] = call[name]
        else:
            return None
    return arguments


def hidden_names(stored_value: Json) -> frozenset[str]:
    """The names of the arguments of a stored call whose values were not stored."""
    if not isinstance(stored_value, Mapping) or _is_digest_entry(stored_value):
        return frozenset()
    return frozenset(name for name, value in stored_value.items() if is_hidden(value))


def _digest_entry(value: Json, length: int) -> JsonObject:
    return {DIGEST: digest(value), "bytes": length}


def _is_digest_entry(value: Json) -> TypeGuard[JsonObject]:
    return isinstance(value, Mapping) and value.keys() == {DIGEST, "bytes"}


def _shown_value(value: Json) -> Json:
    if is_hidden(value):
        return "<secret>"
    return f"<{value['bytes']} bytes>" if _is_digest_entry(value) else value
