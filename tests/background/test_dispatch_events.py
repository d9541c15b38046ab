"""Dispatching events to workers: what is counted, and what a poll does if the task changes meanwhile."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec import structs

from mcp_baton.exceptions import NotDispatched, StoreUnavailable, TaskFinished, TaskNotFound
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.record import Claim, Job, JobSpec, TaskRecord, TaskStatus
from mcp_baton.telemetry import DISPATCHES_FAILED, TASKS_DISPATCHED, TASKS_GIVEN_UP, WAKE_UP_DELAY, Collector, Metric
from mcp_baton.workflow.dispatching import dispatch, redispatch_at_poll
from mcp_baton.workflow.request import Request
from tests.fakes import request_of

TASK = TaskRecord(
    "kim",
    "t",
    TaskStatus.WORKING,
    "",
    "",
    1,
    1,
    {},
    job=Job(JobSpec("report", "r"), due_ms=10, dispatches=1, allowed=3),
)
ENDED = structs.replace(TASK, status=TaskStatus.COMPLETED)


@dataclass
class FakeServices:
    """A store and a dispatcher whose results and clock a test sets."""

    ms: int = 11
    dispatch_outcome: TaskRecord | Exception | None = None
    refuses: bool = False
    events: list[JsonObject] = field(default_factory=list)
    store_calls: list[str] = field(default_factory=list)
    collector: Collector = field(default_factory=Collector)

    @property
    def jobs(self) -> Any:
        return self

    @property
    def approvals(self) -> Any:
        return self

    def now_ms(self) -> int:
        return self.ms

    def dispatch_again(self, _task: TaskRecord) -> TaskRecord | None:
        self.store_calls.append("dispatch again")
        if isinstance(self.dispatch_outcome, Exception):
            raise self.dispatch_outcome
        return self.dispatch_outcome

    def give_up(self, task: TaskRecord, _error: JsonObject) -> TaskRecord | None:
        self.store_calls.append("give up")
        return structs.replace(task, status=TaskStatus.FAILED)

    def dispatch(self, event: JsonObject) -> None:
        if self.refuses:
            raise NotDispatched("no")
        self.events.append(event)

    def request(self) -> Request:
        return request_of("tasks/get", {}, store=self, telemetry=self.collector, dispatcher=self)

    @property
    def taken_metrics(self) -> list[Metric]:
        return [measurement.metric for measurement in self.collector.take().measurements]


@pytest.fixture
def fake() -> FakeServices:
    return FakeServices()


def test_accepted_and_refused_events_are_counted(fake: FakeServices) -> None:
    assert dispatch(fake.request().services, TASK)
    fake.refuses = True
    assert not dispatch(fake.request().services, TASK)
    assert fake.events == [{"batonTask": {"owner": "kim", "taskId": "t", "dispatch": 1}}]
    assert fake.taken_metrics == [TASKS_DISPATCHED, DISPATCHES_FAILED]


@pytest.mark.parametrize(
    ("task", "store_calls"),
    [
        (TASK, ["dispatch again"]),
        (structs.replace(TASK, claim=Claim("w", 10, 1)), ["dispatch again"]),
        (structs.replace(TASK, claim=Claim("w", 11, 1)), []),
        (structs.replace(TASK, claim=Claim("w", 0, 3)), ["give up"]),
        (structs.replace(TASK, claim=Claim("w", 11, 3)), []),
        (structs.replace(TASK, job=structs.replace(TASK.job, due_ms=11)), []),  # type: ignore[type-var]
        # The store knows whether it waits for something else, too.
        (structs.replace(TASK, status=TaskStatus.INPUT_REQUIRED), ["dispatch again"]),
        (ENDED, []),
        (structs.replace(TASK, job=None), []),
    ],
    ids=["due", "killed", "claimed", "used up", "last attempt claimed", "not due", "asks", "ended", "no job"],
)
def test_a_poll_does_what_a_task_needs(fake: FakeServices, task: TaskRecord, store_calls: list[str]) -> None:
    redispatch_at_poll(fake.request(), task)
    assert fake.store_calls == store_calls


def test_a_poll_sends_the_stored_dispatch_number(fake: FakeServices) -> None:
    job = TASK.job
    assert job
    fake.dispatch_outcome = structs.replace(TASK, job=structs.replace(job, dispatches=2))
    assert redispatch_at_poll(fake.request(), TASK) is fake.dispatch_outcome
    assert fake.events == [{"batonTask": {"owner": "kim", "taskId": "t", "dispatch": 2}}]


@pytest.mark.parametrize(
    ("dispatch_outcome", "result"),
    [(None, TASK), (StoreUnavailable("down"), TASK), (TaskFinished(ENDED), ENDED)],
    ids=["another poll was first", "the store does not answer", "the task has ended"],
)
def test_a_poll_that_may_not_dispatch_sends_nothing_and_shows_the_known_task(
    fake: FakeServices, dispatch_outcome: Exception | None, result: TaskRecord
) -> None:
    fake.dispatch_outcome = dispatch_outcome
    assert redispatch_at_poll(fake.request(), TASK) is result
    assert fake.events == []


def test_a_task_that_expires_during_a_poll_is_not_found(fake: FakeServices) -> None:
    fake.dispatch_outcome = TaskNotFound()
    with pytest.raises(TaskNotFound):
        redispatch_at_poll(fake.request(), TASK)


def test_tasks_that_are_given_up_are_counted(fake: FakeServices) -> None:
    assert redispatch_at_poll(fake.request(), structs.replace(TASK, claim=Claim("w", 0, 3))).status is TaskStatus.FAILED
    assert fake.taken_metrics == [TASKS_GIVEN_UP, WAKE_UP_DELAY]


@pytest.mark.parametrize(
    ("claim", "delay_ms"),
    [
        (None, 11),
        (Claim("w", 0, 1), 11),
        (Claim("w", 5, 1), 11),
        (Claim("w", 15, 1), 6),
        (Claim("w", 18, 3), 3),
        (Claim("w", 0, 3), 0),
    ],
    ids=[
        "never claimed",
        "released",
        "killed early",
        "killed late",
        "killed in the last attempt",
        "released after the last attempt",
    ],
)
def test_the_delay_of_a_wake_up_is_measured(fake: FakeServices, claim: Claim | None, delay_ms: int) -> None:
    fake.ms, fake.dispatch_outcome = 21, structs.replace(TASK)
    redispatch_at_poll(fake.request(), structs.replace(TASK, claim=claim))
    delays = [note.value for note in fake.collector.take().measurements if note.metric is WAKE_UP_DELAY]
    assert delays == [delay_ms]
