"""Telemetry of the store: durations, lost races and failures of requests."""

import pytest

from mcp_baton.exceptions import Conflict, StoreUnavailable, TaskFinished
from mcp_baton.stores import DynamoDBStore
from mcp_baton.tasks.dynamodb.table import LazyClient, TaskTable
from mcp_baton.tasks.record import StepStatus
from mcp_baton.tasks.store import Batch, StepWrite
from mcp_baton.telemetry import STORE_CONFLICTS, STORE_ERRORS, STORE_LATENCY, Collector
from tests.store.conftest import Engine
from tests.store.fixture_types import ON_MEMORY, Begin, Store, Stores

pytestmark = ON_MEMORY

BATCH = Batch(steps=(StepWrite(0, "s0", StepStatus.PENDING, StepStatus.COMPLETED, 1),))


@pytest.fixture
def collector() -> Collector:
    return Collector()


@pytest.fixture
def timed_store(stores: Stores, collector: Collector) -> Store:
    return stores(telemetry=collector)


def metric_names(collector: Collector) -> list[tuple[str, str]]:
    return [(measurement.metric.name, measurement.of) for measurement in collector.take().measurements]


def test_each_request_is_timed_under_its_name(
    timed_store: Store, collector: Collector, begin: Begin, owner: str
) -> None:
    timed_store.write(timed_store.get(owner, begin().task_id), BATCH)
    timed_store.list(owner)
    notes = collector.take()
    assert [measurement.of for measurement in notes.measurements] == ["GetItem", "UpdateItem", "Query"]
    assert all(measurement.metric is STORE_LATENCY and measurement.value > 0 for measurement in notes.measurements)
    assert [span.details["operation"] for span in notes.spans] == ["GetItem", "UpdateItem", "Query"]


def test_a_lost_race_is_counted_but_is_not_an_error(timed_store: Store, collector: Collector, begin: Begin) -> None:
    task = begin()
    timed_store.write(task, BATCH)
    collector.take()
    with pytest.raises(Conflict):
        timed_store.write(task, BATCH)
    assert metric_names(collector) == [(STORE_LATENCY.name, "UpdateItem"), (STORE_CONFLICTS.name, "")]


def test_a_write_to_an_ended_task_is_not_counted_as_a_lost_race(
    timed_store: Store, collector: Collector, begin: Begin, owner: str
) -> None:
    task = begin()
    timed_store.cancel(owner, task.task_id)
    collector.take()
    with pytest.raises(TaskFinished):
        timed_store.write(task, BATCH)
    notes = collector.take()
    assert [(entry.metric, entry.of) for entry in notes.measurements] == [(STORE_LATENCY, "UpdateItem")]
    # A failed condition is a response, not a failure of the request.
    assert [span.failed for span in notes.spans] == [False]


def test_a_refusal_of_dynamodb_is_counted(collector: Collector, engine: Engine, owner: str) -> None:
    store = DynamoDBStore(TaskTable("no-such-table", LazyClient(lambda: engine.client), collector))
    with pytest.raises(StoreUnavailable):
        store.list(owner)
    notes = collector.take()
    assert [measurement.metric for measurement in notes.measurements] == [STORE_LATENCY, STORE_ERRORS]
    assert [span.failed for span in notes.spans] == [True]
