"""Deciding again after a lost race."""

from dataclasses import replace

import pytest

from mcp_baton.exceptions import Conflict, StoreUnavailable
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.answers import AnswerStore
from mcp_baton.tasks.record import NewTask, TaskPage, TaskRecord, TaskStatus
from mcp_baton.tasks.recording import FIRST_BACKOFF_S, LONGEST_BACKOFF_S, record_decided
from mcp_baton.tasks.store import Batch, Recorded

TASK = TaskRecord("kim", "t", TaskStatus.WORKING, "", "", 1, 1, 1, {})


class ContestedStore:
    """A store in which somebody else is faster so many times."""

    @property
    def answers(self) -> AnswerStore:
        raise NotImplementedError

    def __init__(self, lost: int, error: Exception | None = None) -> None:
        self._lost = lost
        self._error = error
        self.written: list[tuple[int, Batch]] = []

    def record(self, task: TaskRecord, batch: Batch) -> Recorded:
        self.written.append((task.version, batch))
        if self._error:
            raise self._error
        if len(self.written) <= self._lost:
            raise Conflict(replace(task, version=task.version + 1))
        return Recorded(task)

    def create(self, task: NewTask) -> TaskRecord:
        raise NotImplementedError

    def get(self, owner: str, task_id: str) -> TaskRecord:
        raise NotImplementedError

    def status(self, owner: str, task_id: str) -> TaskStatus:
        raise NotImplementedError

    def list(self, owner: str, cursor: str | None = None) -> TaskPage:
        raise NotImplementedError

    def cancel(self, owner: str, task_id: str) -> TaskRecord:
        raise NotImplementedError

    def complete(self, owner: str, task_id: str, result: JsonObject) -> TaskRecord:
        raise NotImplementedError


def decide(task: TaskRecord) -> Batch:
    return Batch(variables={"version": task.version})


def test_every_attempt_is_decided_on_the_state_that_won() -> None:
    store, slept = ContestedStore(lost=3), list[float]()

    recorded = record_decided(store, TASK, decide, attempts=4, sleep=slept.append)

    assert recorded.task.version == 4
    assert store.written == [(version, Batch(variables={"version": version})) for version in (1, 2, 3, 4)]
    assert len(slept) == 3


def test_attempts_are_bounded_and_the_last_loss_is_reported() -> None:
    store, slept = ContestedStore(lost=3), list[float]()

    with pytest.raises(Conflict) as caught:
        record_decided(store, TASK, decide, attempts=3, sleep=slept.append)

    assert (caught.value.current.version, len(store.written), len(slept)) == (4, 3, 2)


def test_the_waits_have_jitter_and_a_limit() -> None:
    store, slept = ContestedStore(lost=60), list[float]()

    record_decided(store, TASK, decide, attempts=61, sleep=slept.append)

    assert all(0 <= wait <= LONGEST_BACKOFF_S for wait in slept)
    assert slept[0] <= FIRST_BACKOFF_S
    assert len(set(slept)) > 50


def test_another_failure_is_not_tried_again() -> None:
    store, slept = ContestedStore(lost=0, error=StoreUnavailable("down")), list[float]()

    with pytest.raises(StoreUnavailable):
        record_decided(store, TASK, decide, attempts=9, sleep=slept.append)
    assert (len(store.written), slept) == (1, [])


def test_no_attempts_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="attempts"):
        record_decided(ContestedStore(lost=0), TASK, decide, attempts=0)
