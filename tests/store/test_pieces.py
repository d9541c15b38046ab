"""Large values in items of their own, with missing and damaged pieces (docs/storage.md)."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from mcp_baton.exceptions import StoreUnavailable, TooLarge, ValueLost
from mcp_baton.tasks.dynamodb.items import Limits
from mcp_baton.tasks.dynamodb.outside import piece_key
from mcp_baton.tasks.dynamodb.values import pointer_in
from mcp_baton.tasks.record import NewTask, TaskRecord
from mcp_baton.tasks.store import Batch
from mcp_baton.tasks.values import text_of
from tests.hanging import Hang, values_in
from tests.noise import noise
from tests.sent import Requests
from tests.store.conftest import Engine
from tests.store.fixture_types import ON_MEMORY, Begin, Store, Stores
from tests.store.steps import completion, hook, note, result
from tests.store.test_overflow import BIG, outside
from tests.support.throttling import Virtual

LARGEST = noise(2_400_000, 7)
"""A value nearly as long as can be stored: 1,814,000 bytes when compressed."""
TOO_LONG = noise(2_600_000, 7)
"""A value that is too long: 1,966,000 bytes when compressed."""


def pieces(engine: Engine, task: TaskRecord, name: str) -> list[dict[str, Any]]:
    assert isinstance(task.source, dict)
    pointer = pointer_in(task.source["variables"]["M"][name])
    assert pointer is not None
    count = -(-pointer.bundle_bytes // 350_000)
    keys = [piece_key(task.owner, task.task_id, pointer.bundle, piece) for piece in range(count)]
    assert all(value_item(engine, key) for key in keys)
    return keys


def value_item(engine: Engine, key: dict[str, Any]) -> dict[str, Any]:
    return engine.client.get_item(TableName="tasks", Key=key, ConsistentRead=True)["Item"]


def at_each(engine: Engine, operation: str, handler: Callable[..., object]) -> AbstractContextManager[None]:
    return hook(engine.client, f"before-send.dynamodb.{operation}", handler)


def fail(**_: object) -> None:
    raise StoreUnavailable("down")


def test_a_long_value_is_stored_in_pieces(
    store: Store, engine: Engine, owner: str, begin: Begin, requests: Requests
) -> None:
    task = begin(2)
    requests.take()
    outcome = store.write(task, Batch(steps=(completion(0, LARGEST), completion(1, "small"))))
    assert outcome.oversized == ()
    assert requests.take() == ["PutItem"] * 6 + ["UpdateItem"]
    record = store.get(owner, task.task_id)
    assert result(record, 1) == "small"
    assert requests.take() == ["GetItem"]
    assert result(record, 0) == LARGEST
    assert set(requests.take()) == {"GetItem"}
    assert text_of(record, "_workflow.result.s0") == f'"{LARGEST}"'
    assert (
        max(len(value_item(engine, key)["data"]["B"]) for key in pieces(engine, record, "_workflow.result.s0"))
        <= 350_000
    )


@ON_MEMORY
@pytest.mark.parametrize("long_text", [TOO_LONG, "x" * 6_000_001], ids=["stored", "text"])
def test_a_note_replaces_a_value_that_is_too_long(store: Store, owner: str, begin: Begin, long_text: str) -> None:
    task = begin(2)
    outcome = store.write(task, Batch(steps=(completion(0, long_text), completion(1, "small"))))
    assert outcome.oversized == ("_workflow.result.s0",)
    assert [result(outcome, index) for index in range(2)] == [note(long_text), "small"]
    with pytest.raises(TooLarge):
        store.complete(owner, task.task_id, {"text": long_text})


@ON_MEMORY
@pytest.mark.parametrize("index", [0, 1])
def test_a_lost_piece_loses_only_its_value(store: Store, engine: Engine, owner: str, begin: Begin, index: int) -> None:
    task, other_text = begin(2), noise(600_000, 5)
    task = store.write(task, Batch(steps=(completion(0, BIG), completion(1, other_text))))
    engine.client.delete_item(TableName="tasks", Key=pieces(engine, task, "_workflow.result.s0")[index])
    record = store.get(owner, task.task_id)
    with pytest.raises(ValueLost, match=f"piece {index + 1} is missing"):
        result(record, 0)
    with pytest.raises(ValueLost):
        text_of(record, "_workflow.result.s0")
    assert result(record, 1) == other_text
    assert result(store.write(record, Batch(steps=())), 1) == other_text


@ON_MEMORY
@pytest.mark.parametrize("content", [b"", b"something else"])
def test_a_changed_piece_is_a_lost_value(store: Store, engine: Engine, begin: Begin, content: bytes) -> None:
    task = store.write(begin(), Batch(steps=(completion(0, BIG),)))
    key = pieces(engine, task, "_workflow.result.s0")[1]
    engine.client.put_item(TableName="tasks", Item={**key, "data": {"B": content}})
    with pytest.raises(ValueLost, match="damaged"):
        result(task, 0)
    with pytest.raises(ValueLost, match="damaged"):
        text_of(task, "_workflow.result.s0")


@ON_MEMORY
def test_missing_pieces_are_read_consistently(store: Store, engine: Engine, begin: Begin, requests: Requests) -> None:
    task = store.write(begin(), Batch(variables={"v": noise(6_000)}))
    [key] = pieces(engine, task, "v")
    item, consistent_reads = value_item(engine, key), list[bool]()
    engine.client.delete_item(TableName="tasks", Key=key)

    def restore(request: Any, **_: object) -> None:
        consistent_reads.append(b'"ConsistentRead": true' in request.body)
        if consistent_reads[-1]:
            engine.client.put_item(TableName="tasks", Item=item)

    with at_each(engine, "GetItem", restore):
        assert task.variables["v"] == noise(6_000)
    assert consistent_reads == [False, True]


@ON_MEMORY
def test_a_value_that_cannot_be_written_outside_stays_if_there_is_room(
    store: Store, engine: Engine, owner: str, begin: Begin
) -> None:
    task, value = begin(), noise(20_000)
    with at_each(engine, "PutItem", fail):
        outcome = store.write(task, Batch(steps=(completion(0, value),)))
        with pytest.raises(StoreUnavailable):
            store.complete(owner, task.task_id, {"large": BIG})
    assert (outcome.oversized, outside(outcome), result(outcome, 0)) == ((), [], value)


@ON_MEMORY
@pytest.mark.parametrize("limit_s", [1.0, 1_000.0])
def test_a_hanging_table_does_not_extend_a_write(stores: Stores, engine: Engine, begin: Begin, limit_s: float) -> None:
    task, time, ends = begin(2), Virtual(), list[tuple[float, TaskRecord]]()
    store = stores(limits=Limits(values_ms=200), monotonic=time.monotonic, sleep=time.sleep)
    hang = Hang(time, limit_s)

    def write() -> None:
        outcome = store.write(task, Batch(steps=(completion(0, BIG), completion(1, "small"))))
        ends.append((time.s, outcome))

    time.begin(0.0, write)
    with values_in(time), hang.of(engine.client, "dynamodb.PutItem"):
        time.run()
    [(end_s, outcome)] = ends
    assert 0.2 <= end_s < 0.21
    assert len(hang.began_s) == 2
    assert outcome.oversized == ("_workflow.result.s0",)
    assert [result(outcome, index) for index in range(2)] == [note(BIG), "small"]


@pytest.mark.parametrize("owners", [("a#b", "a"), ("a", "a#b"), ("o" * 1_900, "o" * 1_901), ("kim", "Kim")])
def test_a_copied_pointer_reads_no_other_owners_items(store: Store, engine: Engine, owners: tuple[str, str]) -> None:
    their_task = store.create(NewTask(owners[0], {"secret": BIG}))
    own_task = store.create(NewTask(owners[1], {"secret": "mine"}))
    assert isinstance(their_task.source, dict)
    assert isinstance(own_task.source, dict)
    engine.client.put_item(TableName="tasks", Item={**own_task.source, "variables": their_task.source["variables"]})
    record = store.get(owners[1], own_task.task_id)
    assert outside(record) == ["secret"]
    with pytest.raises(ValueLost, match="missing"):
        _ = record.variables["secret"]
    assert their_task.variables["secret"] == BIG
