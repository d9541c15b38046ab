"""The arguments of a continuation as they are kept with its result, in `_workflow.call.<step>` (docs/workflows.md).
Pure."""

from collections.abc import Collection, Mapping
from typing import Final, TypeGuard

from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.tasks.record import CALL_PREFIX
from mcp_baton.workflow.keys import digest
from mcp_baton.workflow.secrets import is_hidden, stored_arguments

CALL_BYTES: Final = 8_192
"""The longest JSON text of arguments that are kept whole, bytes."""

DIGEST: Final = "_workflow.digest"
"""The key that tells a value's stand-in, `{"_workflow.digest": "<hex>", "bytes": N}`, from a value. A value that looks
like a stand-in, or like that of a secret, is kept as its digest, too."""


def kept_call(arguments: JsonObject, hidden: Collection[str] = ()) -> JsonObject:
    """Arguments as they are kept: in the place of the longest ones stands their digest where all take over 8 KB.

    Args:
        arguments: As the client sent them.
        hidden: The names of those that must not be kept.
    """
    whole = stored_arguments(arguments, hidden)
    lengths = {name: _length(value) for name, value in whole.items()}
    reserved = {
        name for name, value in arguments.items() if name not in hidden and (_is_stand_in(value) or is_hidden(value))
    }
    kept = {name: _stand_in(value, lengths[name]) if name in reserved else value for name, value in whole.items()}
    total = _length(kept)
    for name in sorted(whole.keys() - reserved, key=lambda name: (-lengths[name], name)):
        if total <= CALL_BYTES:
            break
        kept[name] = _stand_in(whole[name], lengths[name])
        # A client chooses how many there are: the text of all of them is not made again for each.
        total += _length(kept[name]) - lengths[name]
    return _stand_in(whole, _length(whole)) if total > CALL_BYTES or _is_stand_in(kept) else kept


def shown_call(variables: JsonObject, step: str) -> JsonObject | None:
    """The arguments that are kept with a step's result, to be shown; `None` where there are none.

    Raises:
        StoreError: they cannot be read.
    """
    kept = variables.get(f"{CALL_PREFIX}{step}")
    if not isinstance(kept, Mapping) or _is_stand_in(kept):
        return None
    return {name: _shown(value) for name, value in kept.items()}


def restored(kept: Json, call: JsonObject) -> JsonObject | None:
    """The arguments that were kept; those of which only a digest was kept are taken from a call where that digest is
    equal, and secret ones from the call as it has them.

    `None` where that shows that the two calls differ, or where nothing was kept.
    """
    if not isinstance(kept, Mapping):
        return None
    if _is_stand_in(kept):
        return call if kept[DIGEST] == digest(call) else None
    # Of a secret nothing is known, so that it cannot differ.
    whole: dict[str, Json] = {}
    for name, value in kept.items():
        if is_hidden(value):
            whole |= {name: call[name]} if name in call else {}
        elif not _is_stand_in(value):
            whole[name] = value
        elif name in call and value[DIGEST] == digest(call[name]):
            whole[name] = call[name]
        else:
            return None
    return whole


def _stand_in(value: Json, length: int) -> JsonObject:
    return {DIGEST: digest(value), "bytes": length}


def _is_stand_in(value: Json) -> TypeGuard[JsonObject]:
    return isinstance(value, Mapping) and value.keys() == {DIGEST, "bytes"}


def _shown(value: Json) -> Json:
    if is_hidden(value):
        return "<secret>"
    return f"<{value['bytes']} bytes>" if _is_stand_in(value) else value


def _length(value: Json) -> int:
    return len(dumps(value).encode())
