"""Where a write's values cost least: in the task's head, in items of their own, or in S3 (docs/storage.md, Sizes).

A write of an item is paid by the item's whole size, so a value in the head is paid again with each write that follows.
A value outside is paid once, but for its pointer, and each request for it adds the time that the function waits.

Costs are counted in write units of DynamoDB (on demand, 1,024 bytes). Prices of us-east-1, of which only the ratios
matter: $0.625 a million write units, $0.125 a million read units, $5 a million `PutObject`, $0.40 a million
`GetObject`, Lambda on arm64 $0.0000133334 a GB-second (https://aws.amazon.com/dynamodb/pricing/on-demand/,
https://aws.amazon.com/s3/pricing/, https://aws.amazon.com/lambda/pricing/).
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final

WRITE_BYTES: Final = 1_024
READ_BYTES: Final = 4_096
READ_UNIT: Final = 0.2
"""What a read unit costs, in write units: an eventually consistent read takes half of one, a consistent one a whole."""

ITEM_WAIT: Final = 0.053
"""5 ms of a function with 512 MB, in write units: what it costs to wait for a request to DynamoDB."""

PUT_OBJECT: Final = 8.27
"""A `PutObject` and the 25 ms for which the function waits, in write units."""

GET_OBJECT: Final = 0.91
"""A `GetObject` and the 25 ms for which the function waits, in write units."""

ITEM_OVERHEAD_BYTES: Final = 140
"""What an item of its own weighs besides the value: its key, its expiry and the names of its attributes."""

POINTER_BYTES: Final = 46
"""What stands in the head for a value outside, about."""

BUNDLE_BYTES: Final = 350_000
"""Values of one write are kept together up to this many bytes; also the largest piece of a longer one."""


class Place(Enum):
    """Where values are."""

    HEAD = "the task's item"
    ITEMS = "items of their own"
    BUCKET = "the bucket"


def cheapest(sizes: Sequence[int], writes_to_come: int, *, bucket: bool) -> Place:
    """Where the values of one write cost least, all of them together.

    Args:
        sizes: What each value takes as it is stored, bytes.
        writes_to_come: How many more writes of the head are expected. Each comes with a consistent read of it, and the
            values themselves are read once.
        bucket: Whether there is one.
    """
    if not sizes:
        return Place.HEAD
    costs = {Place.HEAD: in_head(sum(sizes), writes_to_come), Place.ITEMS: in_items(sizes, writes_to_come)}
    if bucket:
        costs[Place.BUCKET] = in_bucket(sizes, writes_to_come)
    return min(costs, key=lambda place: costs[place])


def cheapest_outside(sizes: Sequence[int], *, bucket: bool) -> Place:
    """Where values cost least that have to leave the head."""
    return Place.BUCKET if bucket and in_bucket(sizes, 0) < in_items(sizes, 0) else Place.ITEMS


def in_head(stored_bytes: int, writes_to_come: int) -> float:
    """What so many bytes of the head cost: written now and with each later write, and read before it.

    Counted without rounding: what one value adds to a head crosses the next unit in proportion to its size.
    """
    return stored_bytes * ((1 + writes_to_come) / WRITE_BYTES + writes_to_come * READ_UNIT / READ_BYTES)


def in_items(sizes: Sequence[int], writes_to_come: int) -> float:
    """What it costs to keep values in items of their own: one for each `BUNDLE_BYTES`, written and read once."""
    items = -(-sum(sizes) // BUNDLE_BYTES)
    stored = sum(sizes) + items * ITEM_OVERHEAD_BYTES
    once = -(-stored // WRITE_BYTES) + -(-stored // READ_BYTES) * READ_UNIT / 2 + 2 * items * ITEM_WAIT
    return once + in_head(len(sizes) * POINTER_BYTES, writes_to_come)


def in_bucket(sizes: Sequence[int], writes_to_come: int) -> float:
    """What it costs to keep values in S3: an object for each `BUNDLE_BYTES`, written and read once."""
    objects = -(-sum(sizes) // BUNDLE_BYTES)
    return objects * (PUT_OBJECT + GET_OBJECT) + in_head(len(sizes) * POINTER_BYTES, writes_to_come)
