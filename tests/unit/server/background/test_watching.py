"""A worker's watch over its task: which of a function's reports are written, and when."""

from dataclasses import dataclass, field, replace
from typing import Any, Self

import pytest

from mcp_baton.exceptions import ClaimLost, StoreUnavailable, TaskFinished
from mcp_baton.protocol.json import Json
from mcp_baton.server.background.watching import Watch, status_message
from mcp_baton.tasks.record import LEASE_MS, Claim, TaskRecord, TaskStanding, TaskStatus
from mcp_baton.workflow.lease import Lease
from tests.fakes import Line, RecordingStore

TASK = TaskRecord("kim", "t", TaskStatus.WORKING, "", "", 1, 1, {}, claim=Claim("me", LEASE_MS))


@dataclass
class Kept(RecordingStore):
    """A store with one task, and its jobs; its clock is turned by the test."""

    ms: int = 0
    takes_ms: int = 0
    fails: Exception | None = None
    asked: list[str] = field(default_factory=list)

    @property
    def jobs(self) -> Any:
        return self

    def within(self, _left_ms: object) -> Self:
        return self

    def now_ms(self) -> int:
        return self.ms

    def renew(self, task: TaskRecord, claim: Claim) -> TaskRecord:
        self.asked.append("renew")
        self.ms += self.takes_ms
        return replace(task, claim=claim)

    def extend(self, task: TaskRecord, _ttl_ms: int) -> TaskRecord:
        if isinstance(self.fails, ClaimLost) and not self.asked:
            raise self.fails
        return task

    def read_status(self, _owner: str, _task_id: str) -> TaskStanding:
        self.asked.append("read_status")
        return TaskStanding(TaskStatus.WORKING, TASK.claim)

    def report(self, task: TaskRecord, claim: Claim, message: str) -> TaskRecord:
        self.asked.append(message)
        if self.fails:
            raise self.fails
        return replace(task, claim=claim, status_message=message)


@pytest.fixture
def store() -> Kept:
    return Kept()


@pytest.fixture
def watch(store: Kept) -> Watch:
    made = Watch(Line())
    made.begin(Lease(store, TASK, lambda: None, lambda: store.ms / 1000), store.jobs, lambda: store.ms / 1000)
    return made


def say(watch: Watch, *numbers: int) -> None:
    for number in numbers:
        watch.notify("notifications/progress", {"progressToken": "task", "progress": number})


def test_of_a_burst_the_first_report_is_written_at_once_and_the_last_when_the_second_is_over(
    watch: Watch, store: Kept
) -> None:
    waits = list[float]()
    for store.ms, reports in ((0, (1,)), (100, (2, 3)), (900, (4,)), (1_000, ()), (1_500, ()), (2_000, (5,))):
        say(watch, *reports)
        waits.append(watch.pulse())
    assert store.asked == ["1", "4", "5"]
    assert waits == [2, pytest.approx(0.9), pytest.approx(0.1), 2, 2, 2]


def test_what_is_not_written_when_the_function_ends_is_there_for_its_last_write(watch: Watch, store: Kept) -> None:
    say(watch, 1)
    watch.pulse()
    say(watch, 2, 3)
    watch.pulse()
    assert (store.asked, watch.unwritten) == (["1"], "3")
    watch.write_message()
    assert (store.asked, watch.unwritten) == (["1", "3"], None)
    watch.write_message()
    assert store.asked == ["1", "3"]


def test_a_report_renews_the_claim_and_tells_how_the_task_stands(watch: Watch, store: Kept) -> None:
    for store.ms in range(0, 60_000, 1_500):
        say(watch, store.ms)
        watch.pulse()
    assert "renew" not in store.asked
    assert "read_status" not in store.asked


def test_a_report_that_cannot_be_written_is_tried_again_after_two_seconds(watch: Watch, store: Kept) -> None:
    store.fails = StoreUnavailable("down")
    say(watch, 1)
    for store.ms in (0, 500, 1_999, 2_000):
        assert watch.pulse() > 0
    assert store.asked.count("1") == 2
    store.fails = None
    store.ms = 4_000
    watch.pulse()
    assert store.asked.count("1") == 3
    assert watch.unwritten is None


@pytest.mark.parametrize("error", [ClaimLost(TASK), TaskFinished(replace(TASK, status=TaskStatus.CANCELLED))], ids=repr)
def test_a_report_that_is_refused_ends_the_function(watch: Watch, store: Kept, error: Exception) -> None:
    store.fails = error
    say(watch, 1)
    assert (watch.pulse(), watch.gone) == (0, True)


def test_a_function_ends_whose_task_was_taken_over_when_it_is_to_live_longer(watch: Watch, store: Kept) -> None:
    store.fails = ClaimLost(TASK)
    assert (watch.pulse(), watch.gone) == (0, True)


def test_what_is_logged_is_written_nowhere(watch: Watch, store: Kept) -> None:
    watch.notify("notifications/message", {"level": "info", "data": "x"})
    assert (watch.pulse(), store.asked) == (2, [])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"progress": 3, "total": 10, "message": "pages"}, "3/10: pages"),
        ({"progress": 3.0, "total": 10.5}, "3/10.5"),
        ({"progress": 0.1 + 0.2, "message": "of it"}, "0.3: of it"),
        ({"progress": 1_234_567, "message": ""}, "1234567"),
    ],
)
def test_progress_in_words(params: dict[str, Json], message: str) -> None:
    assert status_message(params) == message


@pytest.mark.parametrize(("begins", "gone"), [(True, True), (False, False)])
def test_a_function_does_not_begin_after_its_claim_and_one_that_runs_is_not_stopped(
    store: Kept, watch: Watch, begins: bool, gone: bool
) -> None:
    if not begins:
        watch.pulse()
    store.ms, store.takes_ms = 15_000, 60_000
    watch.pulse()
    assert (watch.gone, watch.ended) == (gone, False)
