"""Deciding a write again after a lost race."""

import pytest
from msgspec.structs import replace

from mcp_baton.exceptions import Conflict, StoreUnavailable
from mcp_baton.tasks.record import TaskRecord, TaskStatus
from mcp_baton.tasks.store import FIRST_BACKOFF_S, MAX_BACKOFF_S, Batch, write_decided
from tests.fakes import RecordingStore, ScriptedHost

TASK = TaskRecord("kim", "t", TaskStatus.WORKING, "", "", 1, 1, {})


def contested(lost_races: int) -> RecordingStore:
    """Return a store in which another writer wins the first `lost` races."""
    conflicts = {number: Conflict(replace(TASK, version=TASK.version + number)) for number in range(1, lost_races + 1)}
    return RecordingStore(None, ScriptedHost(), conflicts)


def decide(task: TaskRecord) -> Batch:
    return Batch(variables={"version": task.version})


def test_every_attempt_is_decided_on_the_current_state() -> None:
    store, slept = contested(lost_races=3), list[float]()

    result = write_decided(store, TASK, decide, attempts=4, sleep=slept.append)

    assert result.version == 4
    assert store.versions == [1, 2, 3, 4]
    assert store.batches == [Batch(variables={"version": version}) for version in (1, 2, 3, 4)]
    assert len(slept) == 3


def test_all_attempts_have_the_same_token() -> None:
    token = ("0a", 5)
    store = RecordingStore(None, ScriptedHost(), {1: Conflict(TASK, token)})

    write_decided(store, TASK, decide, attempts=2, sleep=lambda _: None)

    assert [batch.token for batch in store.batches] == [None, token]


def test_attempts_are_limited_and_the_last_conflict_is_raised() -> None:
    store, slept = contested(lost_races=3), list[float]()

    with pytest.raises(Conflict) as error_info:
        write_decided(store, TASK, decide, attempts=3, sleep=slept.append)

    assert (error_info.value.current.version, len(store.batches), len(slept)) == (4, 3, 2)


def test_the_waits_have_jitter_and_a_limit() -> None:
    store, slept = contested(lost_races=60), list[float]()

    write_decided(store, TASK, decide, attempts=61, sleep=slept.append)

    assert all(0 <= wait <= MAX_BACKOFF_S for wait in slept)
    assert slept[0] <= FIRST_BACKOFF_S
    assert len(set(slept)) > 50


def test_other_errors_are_not_retried() -> None:
    store, slept = RecordingStore(None, ScriptedHost(), {1: StoreUnavailable("down")}), list[float]()

    with pytest.raises(StoreUnavailable):
        write_decided(store, TASK, decide, attempts=9, sleep=slept.append)
    assert (len(store.batches), slept) == (1, [])


def test_zero_attempts_are_refused() -> None:
    with pytest.raises(ValueError, match="attempts"):
        write_decided(contested(lost_races=0), TASK, decide, attempts=0)
