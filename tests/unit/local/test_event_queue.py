"""The queue in front of local workers: retries as Lambda makes them. No clock goes here but the test's."""

import logging
from dataclasses import dataclass

import pytest

from mcp_baton.exceptions import NotDispatched
from mcp_baton.local.workers.event_queue import Delivery, EventQueue, Retries, next_attempt_s
from mcp_baton.protocol.json import JsonObject

EVENT: JsonObject = {"batonTask": {"owner": "kim", "taskId": "t1", "dispatch": 1}}


@dataclass
class Time:
    """Seconds, which the test sets."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


def taken(queue: EventQueue) -> Delivery:
    delivery = queue.take()
    assert delivery is not None
    return delivery


@pytest.mark.parametrize(("attempt", "due_s"), [(1, 160.0), (2, 220.0), (3, None)])
def test_a_failed_delivery_is_retried_after_one_minute_and_after_two(attempt: int, due_s: float | None) -> None:
    assert next_attempt_s(Delivery(EVENT, "r", 90.0, attempt), Retries(), 100.0) == due_s


@pytest.mark.parametrize(("age_s", "due_s"), [(3540.0, 3600.0), (3541.0, None)])
def test_an_event_that_would_be_too_old_is_not_retried(age_s: float, due_s: float | None) -> None:
    assert next_attempt_s(Delivery(EVENT, "r", 0.0), Retries(), age_s) == due_s


def test_events_are_delivered_in_order() -> None:
    queue = EventQueue(Retries(), Time())
    queue.put({"number": 1})
    queue.put({"number": 2})
    assert [taken(queue).event, taken(queue).event] == [{"number": 1}, {"number": 2}]


def test_a_retry_has_the_same_id_and_waits_for_its_time() -> None:
    time = Time()
    queue = EventQueue(Retries(), time)
    queue.put(EVENT)
    first = taken(queue)
    queue.failed(first, "it raised")
    queue.put({"number": 2})
    assert taken(queue).event == {"number": 2}
    time.now_s += 60
    again = taken(queue)
    assert (again.event, again.request_id, again.attempt) == (EVENT, first.request_id, 2)


def test_an_event_is_discarded_and_logged_after_three_attempts(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    queue = EventQueue(Retries(), time)
    queue.put(EVENT)
    for _ in range(3):
        queue.failed(taken(queue), "it raised")
        time.now_s += 120
    [error] = [record for record in caplog.records if record.levelno == logging.ERROR]
    said = error.getMessage()
    assert "discarded after 3 attempts (it raised)" in said
    assert '{"batonTask":{"owner":"kim","taskId":"t1","dispatch":1}}' in said
    assert queue.close() == 0


def test_an_event_that_waited_too_long_is_discarded(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    queue = EventQueue(Retries(max_age_s=60), time)
    queue.put(EVENT)
    time.now_s += 61
    queue.put({"number": 2})
    assert taken(queue).event == {"number": 2}
    assert "it is older than 60 s" in caplog.text


def test_a_closed_queue_accepts_and_delivers_nothing() -> None:
    queue = EventQueue(Retries(), Time())
    queue.put(EVENT)
    failed = taken(queue)
    queue.put({"number": 2})
    assert queue.close() == 1
    assert queue.take() is None
    queue.failed(failed, "it was killed")
    with pytest.raises(NotDispatched):
        queue.put(EVENT)
