"""In which of an item's sets a write's token stands, and for how long."""

import pytest

from mcp_baton.tasks.dynamodb.tokens import MINUTE_MS, first_token, has_token, old_set_at, set_at


@pytest.mark.parametrize("minute", range(6))
def test_the_set_that_is_dropped_is_neither_this_minutes_nor_the_last_ones(minute: int) -> None:
    now_ms = minute * MINUTE_MS + 59_999
    assert old_set_at(now_ms) not in {set_at(now_ms), set_at(now_ms - MINUTE_MS)}
    assert old_set_at(now_ms) == set_at(now_ms - 2 * MINUTE_MS) == set_at(now_ms + MINUTE_MS)


@pytest.mark.parametrize("now_ms", [0, 59_999, 60_000, 179_999])
def test_no_write_of_the_next_minute_drops_a_token(now_ms: int) -> None:
    """Repeats end after half of that."""
    assert all(old_set_at(now_ms + later) != set_at(now_ms) for later in (0, 30_000, 60_000))


def test_a_token_is_found_in_whichever_set_it_is() -> None:
    for now_ms in (0, MINUTE_MS, 2 * MINUTE_MS):
        item = first_token(now_ms, "a")
        assert (has_token(item, "a"), has_token(item, "b")) == (True, False)
    assert not has_token({}, "a")
