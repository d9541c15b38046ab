"""Tokens: every write is applied once, however often it is sent (docs/storage.md, Lost answers). Pure.

A write's token is kept in one of thirteen binary sets of its item, by the minute of its first attempt modulo thirteen,
and the write's condition is that it is not there yet. Each write also drops the set that is farthest from this minute.
So a token outlives its repeats also where another writer's clock is five minutes off, which is as far as AWS takes
signed requests (IAM User Guide, "Troubleshoot signed requests for AWS APIs"). Were the next minute's set dropped, a
clock that is a second behind would do it to tokens of that minute. At most seven minutes' tokens are kept, eight bytes
each, since every write is paid by all of its item.
"""

from mcp_baton.tasks.dynamodb.attributes import Attribute, Item

SETS = tuple(f"w{place}" for place in range(13))
AWAY = len(SETS) // 2
MINUTE_MS = 60_000


def set_at(now_ms: int) -> str:
    """The set that takes the tokens of this minute."""
    return SETS[now_ms // MINUTE_MS % len(SETS)]


def old_set_at(now_ms: int) -> str:
    """The set of seven minutes ago, as far from this minute as one can be."""
    return SETS[(now_ms // MINUTE_MS + AWAY) % len(SETS)]


def stored_token(token: str) -> bytes:
    """A token, which is made of hex digits, as it stands in a set."""
    return bytes.fromhex(token)


def first_token(now_ms: int, token: str) -> Item:
    """What a new item has of the write that creates it."""
    tokens: Attribute = {"BS": [stored_token(token)]}
    return {set_at(now_ms): tokens}


def has_token(item: Item, token: str) -> bool:
    """Whether the write with this token has been applied to the item."""
    stored = stored_token(token)
    return any(stored in map(bytes, item[name]["BS"]) for name in SETS if name in item)
