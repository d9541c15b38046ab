"""What `JobMonitor` writes of a function's reports, and when."""

from dataclasses import dataclass, field
from typing import Any, Self

import pytest
from msgspec.structs import replace

from mcp_baton.background.job import JobMonitor, status_message
from mcp_baton.exceptions import ClaimLost, StoreUnavailable, TaskFinished
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.record import LEASE_MS, Claim, TaskRecord, TaskStanding, TaskStatus
from mcp_baton.workflow.lease import Lease
from tests.fakes import RecordingStore

TASK = TaskRecord("kim", "t", TaskStatus.WORKING, "", "", 1, 1, {}, claim=Claim("me", LEASE_MS))


@dataclass
class FakeStore(RecordingStore):
    """A store with one job and a clock that a test sets."""

    ms: int = 0
    takes_ms: int = 0
    fails: Exception | None = None
    store_calls: list[str] = field(default_factory=list)

    @property
    def jobs(self) -> Any:
        return self

    @property
    def approvals(self) -> Any:
        return self

    def within(self, _left_ms: object) -> Self:
        return self

    def now_ms(self) -> int:
        return self.ms

    def renew(self, task: TaskRecord, claim: Claim) -> TaskRecord:
        self.store_calls.append("renew")
        self.ms += self.takes_ms
        return replace(task, claim=claim)

    def extend(self, task: TaskRecord, _ttl_ms: int) -> TaskRecord:
        if isinstance(self.fails, ClaimLost) and not self.store_calls:
            raise self.fails
        return task

    def read_status(self, _owner: str, _task_id: str) -> TaskStanding:
        self.store_calls.append("read_status")
        return TaskStanding(TaskStatus.WORKING, TASK.claim)

    def report(self, task: TaskRecord, claim: Claim, message: str) -> TaskRecord:
        self.store_calls.append(message)
        if self.fails:
            raise self.fails
        return replace(task, claim=claim, status_message=message)


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def monitor(store: FakeStore) -> JobMonitor:
    def clock() -> float:
        return store.ms / 1000

    return JobMonitor(Lease(store, TASK, lambda: None, clock), store.jobs, clock)


def say(monitor: JobMonitor, *numbers: int) -> None:
    for number in numbers:
        monitor.notify("notifications/progress", {"progressToken": "task", "progress": number})


def test_a_bursts_first_report_is_written_at_once_and_its_last_after_a_second(
    monitor: JobMonitor, store: FakeStore
) -> None:
    waits = list[float]()
    for store.ms, reports in ((0, (1,)), (100, (2, 3)), (900, (4,)), (1_000, ()), (1_500, ()), (2_000, (5,))):
        say(monitor, *reports)
        waits.append(monitor.pulse())
    assert store.store_calls == ["1", "4", "5"]
    assert waits == [2, pytest.approx(0.9), pytest.approx(0.1), 2, 2, 2]


def test_an_unwritten_message_is_in_the_last_write(monitor: JobMonitor, store: FakeStore) -> None:
    say(monitor, 1)
    monitor.pulse()
    say(monitor, 2, 3)
    monitor.pulse()
    assert (store.store_calls, monitor.unwritten) == (["1"], "3")
    monitor.write_message()
    assert (store.store_calls, monitor.unwritten) == (["1", "3"], None)
    monitor.write_message()
    assert store.store_calls == ["1", "3"]


def test_a_report_that_cannot_be_written_is_retried_after_two_seconds(monitor: JobMonitor, store: FakeStore) -> None:
    store.fails = StoreUnavailable("down")
    say(monitor, 1)
    for store.ms in (0, 500, 1_999, 2_000):
        assert monitor.pulse() > 0
    assert store.store_calls.count("1") == 2
    store.fails = None
    store.ms = 4_000
    monitor.pulse()
    assert store.store_calls.count("1") == 3
    assert monitor.unwritten is None


@pytest.mark.parametrize("error", [ClaimLost(TASK), TaskFinished(replace(TASK, status=TaskStatus.CANCELLED))], ids=repr)
def test_a_refused_report_ends_the_function(monitor: JobMonitor, store: FakeStore, error: Exception) -> None:
    store.fails = error
    say(monitor, 1)
    assert (monitor.pulse(), monitor.gone) == (0, True)


def test_a_function_ends_if_an_extension_finds_the_task_taken_over(monitor: JobMonitor, store: FakeStore) -> None:
    store.fails = ClaimLost(TASK)
    assert (monitor.pulse(), monitor.gone) == (0, True)


def test_log_notifications_are_not_stored(monitor: JobMonitor, store: FakeStore) -> None:
    monitor.notify("notifications/message", {"level": "info", "data": "x"})
    assert (monitor.pulse(), store.store_calls) == (2, [])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"progress": 3, "total": 10, "message": "pages"}, "3/10: pages"),
        ({"progress": 3.0, "total": 10.5}, "3/10.5"),
        ({"progress": 0.1 + 0.2, "message": "of it"}, "0.3: of it"),
        ({"progress": 1_234_567, "message": ""}, "1234567"),
    ],
)
def test_a_progress_notification_becomes_a_status_message(params: dict[str, Json], message: str) -> None:
    assert status_message(params) == message


@pytest.mark.parametrize(("is_first_pulse", "is_gone"), [(True, True), (False, False)])
def test_a_function_does_not_begin_after_its_claim_but_a_running_one_continues(
    store: FakeStore, monitor: JobMonitor, is_first_pulse: bool, is_gone: bool
) -> None:
    if not is_first_pulse:
        monitor.pulse()
    store.ms, store.takes_ms = 15_000, 60_000
    monitor.pulse()
    assert (monitor.gone, monitor.ended) == (is_gone, False)
