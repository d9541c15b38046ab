"""A run's lease on its task: renewals, checks of the task, and their results."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from mcp_baton.exceptions import ClaimLost, StoreUnavailable, TaskNotFound
from mcp_baton.tasks.record import LEASE_MS, Claim, TaskRecord, TaskStanding, TaskStatus
from mcp_baton.workflow.lease import Lease, Superseded, TaskOver, lease_end
from tests.fakes import RecordingStore

TASK = TaskRecord("kim", "t", TaskStatus.WORKING, "", "", 1, 1, {}, claim=Claim("me", LEASE_MS, 2))


@dataclass
class FakeStore(RecordingStore):
    """A store with one task and a clock that a test sets."""

    ms: int = 0
    takes_ms: int = 0
    unread: bool = False
    fails: Exception | None = None
    standing: TaskStanding = field(default_factory=lambda: TaskStanding(TaskStatus.WORKING, TASK.claim))
    store_calls: list[str] = field(default_factory=list)

    def now_ms(self) -> int:
        return self.ms

    def renew(self, task: TaskRecord, claim: Claim) -> TaskRecord:
        self.store_calls.append(f"renew to {claim.until_ms}")
        self.ms += self.takes_ms
        if self.fails:
            raise self.fails
        return replace(task, claim=claim)

    def get(self, _owner: str, _task_id: str) -> TaskRecord:
        self.store_calls.append("get")
        if self.unread:
            raise StoreUnavailable("down")
        return replace(TASK, status=self.standing.status, variables={"by": "another run"})

    def read_status(self, _owner: str, _task_id: str) -> TaskStanding:
        self.store_calls.append("read_status")
        self.ms += self.takes_ms
        if self.fails:
            raise self.fails
        return self.standing


def new_lease(left_ms: Callable[[], int | None] = lambda: None, *, unsure: bool = False) -> tuple[FakeStore, Lease]:
    store = FakeStore(ms=0)
    return store, Lease(store, TASK, left_ms, lambda: store.ms / 1000, unsure=unsure)


@pytest.mark.parametrize(("left_ms", "end"), [(None, 45_100), (60_000, 45_100), (20_000, 20_100), (-1, 100)])
def test_a_lease_ends_with_the_function_at_the_latest(left_ms: int | None, end: int) -> None:
    assert lease_end(FakeStore(ms=100), lambda: left_ms) == end


def test_a_pulse_renews_every_fifteen_seconds() -> None:
    store, lease = new_lease()
    waits = []
    for store.ms in (0, 5_000, 15_000, 29_000, 30_000):
        waits.append(lease.pulse())
    assert store.store_calls == ["renew to 60000", "renew to 75000"]
    assert waits == [15.0, 10.0, 15.0, 1.0, 15.0]


def test_a_released_claim_is_not_renewed() -> None:
    store, lease = new_lease()
    store.ms, lease.released = 60_000, True
    assert 0 < lease.pulse() < math.inf
    assert store.store_calls == []


@pytest.mark.parametrize(("ms", "is_safe"), [(40_000, True), (40_001, False)])
def test_a_claim_is_not_safe_in_its_last_five_seconds(ms: int, is_safe: bool) -> None:
    store, lease = new_lease()
    store.ms = ms
    assert lease.is_safe() is is_safe


@pytest.mark.parametrize("fails", [None, StoreUnavailable("down")], ids=repr)
def test_a_run_checks_its_task_after_two_seconds_and_continues_if_the_store_fails(
    caplog: pytest.LogCaptureFixture, fails: Exception | None
) -> None:
    store, lease = new_lease()
    store.fails = fails
    for store.ms in (1_999, 2_000, 3_999, 4_000):
        assert lease.check() is None
    assert store.store_calls == ["read_status", "read_status"]
    assert ("cannot be read" in caplog.text) == (fails is not None)


@pytest.mark.parametrize(("number", "expected"), [(1, None), (2, None), (3, Superseded())])
def test_an_old_read_is_not_a_takeover(number: int, expected: Superseded | None) -> None:
    store, lease = new_lease()
    store.ms, store.standing = 2_000, TaskStanding(TaskStatus.WORKING, Claim("other", 0, number))
    assert lease.check() == expected


def test_a_check_returns_what_a_pulse_has_found() -> None:
    store, lease = new_lease()
    store.ms, store.fails = 15_000, ClaimLost(TASK)
    lease.pulse()
    assert lease.pulse() == math.inf
    store.fails = None
    assert lease.check() == Superseded()
    store.ms = 60_000
    lease.pulse()
    assert store.store_calls == ["renew to 60000"]


@pytest.mark.parametrize(("unsure", "expected"), [(False, TaskOver(None)), (True, None)])
def test_a_task_that_may_not_exist_is_not_treated_as_deleted(unsure: bool, expected: TaskOver | None) -> None:
    store, lease = new_lease(unsure=unsure)
    store.ms, store.fails = 2_000, TaskNotFound()
    assert lease.check() == expected
    assert lease.is_safe()


@pytest.mark.parametrize("check", [Lease.begin, Lease.is_safe], ids=["a step", "another attempt"])
@pytest.mark.parametrize(("takes_ms", "wait_s"), [(39_000, 15.0), (41_000, math.inf)])
def test_no_tool_begins_after_a_late_renewal(check: Callable[[Lease], object], takes_ms: int, wait_s: float) -> None:
    store, lease = new_lease()
    store.ms, store.takes_ms = 14_000, 1_000
    assert check(lease)
    store.ms, store.takes_ms = 15_000, takes_ms
    assert lease.pulse() == wait_s


def test_a_run_with_an_uncertain_task_starts_nothing_after_its_claim() -> None:
    store, lease = new_lease(unsure=True)
    store.ms, store.fails = LEASE_MS + 1, StoreUnavailable("down")
    assert lease.begin() is None
    store.ms, store.fails = 2 * LEASE_MS, TaskNotFound()
    assert isinstance(lease.begin(), int)


@pytest.mark.parametrize(("unread", "variables"), [(False, {"by": "another run"}), (True, {})])
def test_a_check_returns_a_finished_task_as_it_ended(unread: bool, variables: dict[str, str]) -> None:
    store, lease = new_lease()
    store.ms, store.unread, store.standing = 2_000, unread, TaskStanding(TaskStatus.COMPLETED, TASK.claim)
    assert lease.check() == TaskOver(TaskStatus.COMPLETED)
    assert (lease.task.status, lease.task.variables) == (TaskStatus.COMPLETED, variables)
    assert store.store_calls == ["read_status", "get"]
