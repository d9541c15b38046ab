"""Where values cost least, held against DynamoDB's prices."""

import pytest

from mcp_baton.tasks.dynamodb.placing import (
    BUNDLE_BYTES,
    ITEM_OVERHEAD_BYTES,
    POINTER_BYTES,
    Place,
    cheapest,
    cheapest_outside,
)
from mcp_baton.tasks.dynamodb.pointers import Pointer, piece_key
from mcp_baton.tasks.dynamodb.values import item_size, size
from mcp_baton.tasks.ids import LENGTH

WRITE, READ = 0.625e-6, 0.125e-6
PUT, GET = 5e-6, 0.4e-6
MEMORY_GB, GB_SECOND = 0.5, 0.0000133334
"""Dollars in us-east-1: a write unit, a read unit, a `PutObject`, a `GetObject`, a GB-second of Lambda on arm64."""


def waiting(ms: float) -> float:
    return ms / 1000 * MEMORY_GB * GB_SECOND


def inline(stored: int, later: int) -> float:
    """Dollars for so many bytes of a head: written, and then read and written again so many times."""
    return stored / 1024 * WRITE * (1 + later) + stored / 4096 * READ * later


def own_item(stored: int, later: int) -> float:
    """Dollars for a value in an item of its own: written and read once, each in 5 ms."""
    whole = stored + ITEM_OVERHEAD_BYTES
    once = -(-whole // 1024) * WRITE + -(-whole // 4096) * READ / 2
    return once + 2 * waiting(5) + inline(POINTER_BYTES, later)


def in_s3(later: int) -> float:
    return PUT + GET + 2 * waiting(25) + inline(POINTER_BYTES, later)


SIZES = [*range(50, 3_000, 7), *range(3_000, 100_000, 501)]


@pytest.mark.parametrize("later", [0, 1, 2, 3, 10, 50])
@pytest.mark.parametrize("bucket", [False, True])
def test_a_value_is_where_the_prices_say(later: int, bucket: bool) -> None:
    for stored in SIZES:
        dollars = {Place.HEAD: inline(stored, later), Place.ITEMS: own_item(stored, later)}
        if bucket:
            dollars[Place.BUCKET] = in_s3(later)
        chosen = cheapest([stored], later, bucket=bucket)
        # The constants are rounded to three figures.
        assert dollars[chosen] <= 1.002 * min(dollars.values()), (stored, dollars, chosen)


@pytest.mark.parametrize(("later", "smallest", "largest"), [(1, 600, 1_200), (3, 300, 400), (10, 120, 160)])
def test_the_break_even_falls_with_the_writes_that_follow(later: int, smallest: int, largest: int) -> None:
    """An item of its own costs about 900 bytes of later writes: rounding, its key, reading it, two requests."""
    always = max(stored for stored in SIZES if cheapest([stored], later, bucket=False) is Place.HEAD) + 7
    first = min(stored for stored in SIZES if cheapest([stored], later, bucket=False) is Place.ITEMS)
    assert smallest <= first <= always <= largest


def test_nothing_leaves_the_head_for_an_item_when_nothing_follows() -> None:
    assert {cheapest([stored], 0, bucket=False) for stored in SIZES} == {Place.HEAD}


def test_s3_is_cheaper_than_an_item_from_eight_kilobytes_on() -> None:
    smallest = min(stored for stored in SIZES if cheapest_outside([stored], bucket=True) is Place.BUCKET)
    assert 7_500 <= smallest <= 9_000
    assert cheapest_outside([300_000], bucket=False) is Place.ITEMS


def test_values_of_one_write_are_weighed_together() -> None:
    assert cheapest([3_000], 3, bucket=True) is Place.ITEMS
    assert cheapest([3_000] * 5, 3, bucket=True) is Place.BUCKET
    assert cheapest([500], 1, bucket=False) is Place.HEAD
    assert cheapest([500, 500, 500], 1, bucket=False) is Place.ITEMS
    assert cheapest([], 10, bucket=True) is Place.HEAD


def test_the_overheads_are_what_an_item_and_a_pointer_weigh() -> None:
    key = piece_key("kim", "0" * LENGTH, "x" * 22, 0)
    pointer = Pointer("x" * 22, 600_000, 450_000, 450_000, until_s=1_800_000_000).attribute()
    assert item_size({**key, "expires_at": {"N": "1800000000"}, "data": {"B": b""}}) <= ITEM_OVERHEAD_BYTES
    assert 30 <= size(pointer) <= POINTER_BYTES
    assert BUNDLE_BYTES + ITEM_OVERHEAD_BYTES < 400_000
