"""Tokens: every write is applied once, however often it is sent (docs/storage.md, Lost answers). Pure.

A write's token is kept in one of three string sets of its item, by the minute of its first attempt modulo three, and
the write's condition is that it is not there yet. Each write also drops the set of the minute before the last, so that
a token outlives its repeats by far, and at most three minutes' tokens are kept.
"""

from mcp_baton.tasks.dynamodb.attributes import Attribute, Item

SETS = ("w0", "w1", "w2")
MINUTE_MS = 60_000


def set_at(now_ms: int) -> str:
    """The set that takes the tokens of this minute."""
    return SETS[now_ms // MINUTE_MS % len(SETS)]


def old_set_at(now_ms: int) -> str:
    """The set of the minute before the last one, which the next minute's will take the place of."""
    return SETS[(now_ms // MINUTE_MS + 1) % len(SETS)]


def first_token(now_ms: int, token: str) -> Item:
    """What a new item has of the write that creates it."""
    tokens: Attribute = {"SS": [token]}
    return {set_at(now_ms): tokens}


def has_token(item: Item, token: str) -> bool:
    """Whether the write with this token has been applied to the item."""
    return any(token in item[name]["SS"] for name in SETS if name in item)
