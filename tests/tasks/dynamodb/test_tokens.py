"""The sets of an item that hold the tokens of writes, and when they are dropped."""

from collections import Counter

import pytest

from mcp_baton.tasks.dynamodb.expressions import TOKEN_SET_MS, first_token, old_set_at, set_at
from mcp_baton.tasks.dynamodb.table import has_token


@pytest.mark.parametrize("minute", range(30))
def test_the_dropped_set_is_fifteen_minutes_old(minute: int) -> None:
    now_ms = minute * TOKEN_SET_MS + 59_999
    assert old_set_at(now_ms) not in {set_at(now_ms - ago * TOKEN_SET_MS) for ago in range(15)}
    assert old_set_at(now_ms) == set_at(now_ms - 15 * TOKEN_SET_MS) == set_at(now_ms + 14 * TOKEN_SET_MS)


@pytest.mark.parametrize("ahead", [-10, -9, -5, -1, 0, 1, 5, 9, 10])
@pytest.mark.parametrize("now_ms", [0, 59_999])
def test_a_clock_that_differs_by_ten_minutes_drops_no_needed_token(now_ms: int, ahead: int) -> None:
    """One clock is five minutes fast, the other five minutes slow. A write's token may be up to a minute old."""
    now_ms += 60 * TOKEN_SET_MS
    first_set, second_set = set_at(now_ms), set_at(now_ms + ahead * TOKEN_SET_MS)
    for later_ms in (-60_000, -30_000, 0, 30_000, 60_000):
        assert old_set_at(now_ms + later_ms + ahead * TOKEN_SET_MS) != first_set
        assert old_set_at(now_ms + later_ms) != second_set


@pytest.mark.parametrize("now_ms", [0, 59_999, 60_000, 179_999])
def test_a_token_is_kept_through_the_next_minute(now_ms: int) -> None:
    """Retries end after 30 seconds."""
    assert all(old_set_at(now_ms + later) != set_at(now_ms) for later in (0, 30_000, 60_000))


@pytest.mark.parametrize("minutes", [1, 2, 5, 10, 13, 15, 20, 29, 30, 58, 60, 61, 120, 1_440])
def test_regular_writes_drop_all_old_sets(minutes: int) -> None:
    token_counts = Counter[str]()
    for write in range(10_000):
        now_ms = write * minutes * 60_000
        token_counts.pop(old_set_at(now_ms), None)
        token_counts[set_at(now_ms)] += 1
    assert token_counts.total() < 1_000


def test_a_token_is_found_in_any_set() -> None:
    for now_ms in (0, TOKEN_SET_MS, 2 * TOKEN_SET_MS):
        item = first_token(now_ms, "aa")
        assert (has_token(item, "aa"), has_token(item, "bb")) == (True, False)
    assert not has_token({}, "aa")
