"""Reading values outside the items (ARCHITECTURE.md, Values outside the head)."""

import pytest

from mcp_baton.exceptions import TaskNotFound, ValueLost
from mcp_baton.tasks.dynamodb.items import Limits
from mcp_baton.tasks.dynamodb.values import pointer_in
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.tasks.store import Batch
from mcp_baton.tasks.values import read_ahead
from tests.hanging import Hang, values_in
from tests.noise import noise
from tests.sent import Requests
from tests.store.conftest import AfterRead, Clock, Engine
from tests.store.fixture_types import ON_MEMORY, Begin, Store, Stores
from tests.store.steps import completion, result
from tests.store.test_overflow import BIG
from tests.store.test_pieces import pieces, value_item
from tests.support.throttling import Virtual

pytestmark = ON_MEMORY


def bundle_bytes(task: TaskRecord, name: str) -> int:
    assert isinstance(task.source, dict)
    pointer = pointer_in(task.source["variables"]["M"][name])
    assert pointer is not None
    return pointer.bundle_bytes


def test_reading_ahead_has_a_memory_limit(
    store: Store, begin: Begin, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = begin(4)
    for index in range(4):
        task = store.write(task, Batch(steps=(completion(index, noise(6_000, index)),)))
    names = [f"_workflow.result.s{index}" for index in range(4)]
    limit = sum(bundle_bytes(task, name) for name in names[:2]) + 1
    monkeypatch.setattr("mcp_baton.tasks.dynamodb.read.CACHE_BYTES", limit)
    requests.take()
    read_ahead(task.variables, names)
    assert requests.take() == ["GetItem"] * 2
    assert [result(task, index) for index in (0, 1)] == [noise(6_000, index) for index in (0, 1)]
    assert requests.take() == []
    assert [result(task, 2) for _ in range(2)] == [noise(6_000, 2)] * 2
    assert requests.take() == ["GetItem"] * 2


def test_a_task_that_expires_just_after_it_was_read_is_found(
    store: Store, begin: Begin, clock: Clock, after_read: AfterRead
) -> None:
    task = begin(ttl_ms=60_000)
    after_read.run = lambda: setattr(clock, "ms", clock.ms + 61_000)
    # A worker may have extended it meanwhile.
    assert store.get(task.owner, task.task_id).task_id == task.task_id
    with pytest.raises(TaskNotFound):
        store.get(task.owner, task.task_id)


def test_a_piece_of_the_same_length_with_another_text_is_a_lost_value(
    stores: Stores, engine: Engine, begin: Begin
) -> None:
    store = stores(limits=Limits(compress_over_bytes=10**9, values_ms=60_000))
    task = store.write(begin(), Batch(steps=(completion(0, BIG),)))
    key = pieces(engine, task, "_workflow.result.s0")[1]
    data = value_item(engine, key)["data"]["B"]
    engine.client.put_item(TableName="tasks", Item={**key, "data": {"B": b"x" * (len(data) - 1) + b'"'}})
    with pytest.raises(ValueLost, match="damaged"):
        result(task, 0)


def test_values_leave_time_for_the_item_if_little_is_left(stores: Stores, engine: Engine, begin: Begin) -> None:
    task, time, end_times = begin(), Virtual(), list[float]()
    store = stores(limits=Limits(), monotonic=time.monotonic, sleep=time.sleep)
    store = store.within(lambda: 3_000 - int(time.s * 1000))

    def write() -> None:
        store.write(task, Batch(steps=(completion(0, BIG),)))
        end_times.append(time.s)

    time.begin(0.0, write)
    with values_in(time), Hang(time, 1_000.0).of(engine.client, "dynamodb.PutItem"):
        time.run()
    assert [round(seconds, 1) for seconds in end_times] == [0.5]
