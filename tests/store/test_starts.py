"""The starts of calls: one of several equal calls stores its start (ARCHITECTURE.md, Items)."""

from functools import partial

import pytest

from mcp_baton.tasks.record import NewTask
from mcp_baton.tasks.store import Start
from tests.store.conftest import Clock
from tests.store.fixture_types import Rounds, Store, Threads
from tests.store.steps import call_at_once

CALLERS = 8
HOUR_MS = 3_600_000


def start(store: Store, task_id: str, *, lasts_ms: int = 45_000) -> Start:
    now_ms = store.now_ms()
    return Start(task_id, now_ms, now_ms + lasts_ms)


@pytest.mark.parametrize("is_repetition", [False, True], ids=["a new start", "a replaced start"])
def test_one_of_eight_equal_calls_at_once_stores_its_start(
    store: Store, owner: str, threads: Threads, rounds: Rounds, is_repetition: bool
) -> None:
    for number in rounds(25 if is_repetition else 200):
        first = start(store, "first") if is_repetition else None
        if first:
            assert store.starts.begin(owner, f"{owner}-{number}", first, None) is None
        starts = [start(store, f"task-{number}-{caller}") for caller in range(CALLERS)]
        calls = [partial(store.starts.begin, owner, f"{owner}-{number}", own, first) for own in starts]
        found = call_at_once(threads, calls, ())
        winners = [own for own, other in zip(starts, found, strict=True) if other is None]
        assert len(winners) == 1
        assert [other for other in found if other is not None] == winners * (CALLERS - 1)


def test_a_start_is_kept_as_long_as_a_task_created_late_and_extended(store: Store, owner: str, clock: Clock) -> None:
    first = start(store, store.new_task_id())
    assert store.starts.begin(owner, owner, first, None) is None
    clock.ms = first.until_ms - 1
    task = store.create(NewTask(owner, {}, ttl_ms=store.limits.max_ttl_ms, task_id=first.task_id))
    clock.ms += task.ttl_ms - 1_000
    assert store.get(owner, first.task_id).task_id == first.task_id
    assert store.starts.begin(owner, owner, start(store, "second"), None) == first


def test_a_start_that_was_forgotten_blocks_no_call(store: Store, owner: str) -> None:
    first, second = start(store, "first"), start(store, "second")
    assert store.starts.begin(owner, owner, first, None) is None
    store.starts.forget(owner, second)
    assert store.starts.begin(owner, owner, second, None) == first
    store.starts.forget(owner, first)
    assert store.starts.begin(owner, owner, second, None) is None


def test_a_start_that_replaces_an_event_is_not_confirmed(store: Store, owner: str) -> None:
    first = Start("first", 1, store.now_ms() + HOUR_MS, call="a")
    assert store.starts.begin(owner, owner, first, None) is None
    store.starts.confirm(owner, first)
    second = Start("second", 2, store.now_ms() + HOUR_MS, call="a")
    found = store.starts.begin(owner, owner, second, None)
    assert found is not None
    assert (found.task_id, found.created) == ("first", True)
    assert store.starts.begin(owner, owner, second, found) is None
    found = store.starts.begin(owner, owner, first, None)
    assert found is not None
    assert (found.task_id, found.created) == ("second", False)
