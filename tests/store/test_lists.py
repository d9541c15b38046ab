"""The results of a list's elements: records, chunks and races (ARCHITECTURE.md, Lists)."""

from typing import Any

import pytest

from mcp_baton.exceptions import Conflict, StoreUnavailable, ValueLost, ValueNotKept
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.items import Limits
from mcp_baton.tasks.dynamodb.lists import ListRecord, numbers_in, numbers_text, record_in
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.tasks.store import Batch, ListResult, ListWrite
from mcp_baton.tasks.values import elements_digest, list_in
from tests.noise import noise
from tests.sent import Requests
from tests.store.conftest import TABLE, Clock, Engine
from tests.store.fixture_types import ON_MEMORY, Begin, MakeClaim, Store, Stores
from tests.store.steps import completion, result
from tests.store.test_prolonging import DAY_MS, renew_claim, start_job
from tests.store.test_sizes import bytes_of
from tests.value_items import ValueItems

ITEMS, ELEMENTS = "_workflow.items.s0", "_workflow.elements.s0"


def write(store: Store, task: TaskRecord, results: dict[int, Json], total: int = 3, **options: Any) -> TaskRecord:
    """Write results of the list of step `s0`. The first write also stores the elements."""
    elements = list(range(total)) if ITEMS not in task.variables else None
    batch = Batch(lists={"s0": ListWrite(total, results, elements)}, same_version=True, **options)
    return store.write(task, batch)


def record_of(task: TaskRecord) -> ListRecord:
    assert isinstance(task.source, dict)
    record = record_in(task.source["variables"]["M"][ITEMS])
    assert record is not None
    return record


def test_small_results_stay_in_the_head(store: Store, owner: str, begin: Begin, requests: Requests) -> None:
    task = begin()
    requests.take()
    task = write(store, write(store, task, {1: "b"}), {0: None})
    assert requests.take() == ["UpdateItem"] * 2
    task = store.get(owner, task.task_id)
    assert (task.variables[ITEMS], task.variables[ELEMENTS]) == ([None, "b", None], [0, 1, 2])
    stored = list_in(task.variables, "s0")
    assert stored is not None
    assert (stored.total, sorted(stored.done), stored.digest) == (3, [0, 1], elements_digest([0, 1, 2]))


def test_results_are_written_once_and_read_with_one_query(
    store: Store, owner: str, begin: Begin, requests: Requests
) -> None:
    task, values = begin(), [noise(900, index) for index in range(12)]
    for index in range(0, 12, 2):
        requests.take()
        task = write(store, task, {index: values[index], index + 1: values[index + 1]}, total=12)
        assert requests.take() == ["PutItem", "UpdateItem"]
        assert bytes_of(task) < 1_200
    assert record_of(task).chunks == tuple(range(6))
    task = store.get(owner, task.task_id)
    requests.take()
    assert task.variables[ITEMS] == values
    assert task.variables[ITEMS] == values
    assert requests.take() == ["Query"]


def test_a_completed_list_becomes_the_result_without_a_copy(
    store: Store, owner: str, begin: Begin, requests: Requests
) -> None:
    task, values = begin(), [noise(3_000, index) for index in range(3)]
    task = write(store, task, {0: values[0], 1: values[1]})
    requests.take()
    removed = frozenset({ITEMS, ELEMENTS})
    task = write(store, task, {2: values[2]}, steps=(completion(0, ListResult()),), removed=removed)
    assert requests.take() == ["PutItem", "UpdateItem"]
    task = store.get(owner, task.task_id)
    assert result(task, 0) == values
    assert not removed & task.variables.keys()


def test_a_completed_list_of_small_results_is_a_plain_value(store: Store, begin: Begin) -> None:
    task = write(store, begin(), {0: "a", 1: "b"})
    removed = frozenset({ITEMS, ELEMENTS})
    task = write(store, task, {2: "c"}, steps=(completion(0, ListResult()),), removed=removed)
    assert isinstance(task.source, dict)
    assert task.source["variables"]["M"]["_workflow.result.s0"] == {"S": '["a","b","c"]'}


def test_of_two_writers_of_one_chunk_the_second_takes_another_number(
    store: Store, owner: str, begin: Begin, requests: Requests
) -> None:
    first = write(store, begin(), {0: noise(3_000)})
    winner = write(store, first, {1: noise(3_000, 1)})
    requests.take()
    with pytest.raises(Conflict):
        write(store, first, {2: noise(3_000, 2)})
    assert requests.take() == ["PutItem", "PutItem", "UpdateItem"]
    task = write(store, winner, {2: noise(3_000, 3)})
    assert record_of(task).chunks == (0, 1, 3)
    assert store.get(owner, task.task_id).variables[ITEMS] == [noise(3_000, seed) for seed in (0, 1, 3)]


def test_a_result_of_several_pieces_is_joined(store: Store, owner: str, begin: Begin) -> None:
    values: list[Json] = [noise(600_000, 1), "small", noise(600_000, 2)]
    task = write(store, begin(), dict(enumerate(values)))
    assert store.get(owner, task.task_id).variables[ITEMS] == values


def test_results_of_other_elements_do_not_count_any_more(store: Store, begin: Begin) -> None:
    task = write(store, begin(), {0: noise(3_000), 1: "b"})
    lists = {"s0": ListWrite(4, {2: "c"}, ["x", 1, "y", "z"], dropped=frozenset({0}))}
    task = store.write(task, Batch(lists=lists, same_version=True))
    assert task.variables[ITEMS] == [None, "b", "c", None]
    assert task.variables[ELEMENTS] == ["x", 1, "y", "z"]


@ON_MEMORY
def test_a_lost_chunk_loses_the_results_and_nothing_else(store: Store, engine: Engine, begin: Begin) -> None:
    task = write(store, begin(), {0: noise(3_000)})
    values = ValueItems(engine.client, TABLE)
    [key] = [key for key in values.keys if key["pk"]["S"].endswith(f"#{record_of(task).id}")]
    values.expire(key)
    with pytest.raises(ValueLost, match="a part of the list is missing"):
        _ = task.variables[ITEMS]
    assert task.variables[ELEMENTS] == [0, 1, 2]
    stored = list_in(task.variables, "s0")
    assert stored is not None
    assert stored.done == {0}


@ON_MEMORY
def test_a_chunk_that_cannot_be_written_stays_in_the_head(store: Store, engine: Engine, begin: Begin) -> None:
    with ValueItems(engine.client, TABLE).refusing("PutItem"):
        task = write(store, begin(), {0: noise(3_000)})
    assert (record_of(task).chunks, task.variables[ITEMS]) == ((), [noise(3_000), None, None])
    task = write(store, task, {1: "b"})
    assert (len(record_of(task).chunks), task.variables[ITEMS]) == (1, [noise(3_000), "b", None])


@ON_MEMORY
def test_a_list_that_is_too_long_to_be_read_is_replaced_by_a_note(store: Store, begin: Begin) -> None:
    task = begin()
    batch = Batch(lists={"s0": ListWrite(2, {0: "x" * 3_000_000, 1: "x" * 3_000_000}, [0, 1])}, same_version=True)
    outcome = store.write(task, batch)
    assert outcome.oversized == (ITEMS,)
    with pytest.raises(ValueNotKept, match="exceeds the task's size limit"):
        _ = outcome.variables[ITEMS]


@ON_MEMORY
def test_chunks_outlive_an_extended_task(
    stores: Stores, engine: Engine, owner: str, worker: MakeClaim, clock: Clock
) -> None:
    store = stores(limits=Limits(max_ttl_ms=30 * DAY_MS, values_ms=60_000))
    task = start_job(store, owner, worker("a"))
    task = write(store, task, {0: noise(3_000), 1: noise(600_000)})
    task = store.jobs.extend(renew_claim(store, task, clock), 20 * DAY_MS)
    assert isinstance(task.source, dict)
    values = ValueItems(engine.client, TABLE)
    keys = [key for key in values.keys if key["pk"]["S"].endswith(f"#{record_of(task).id}")]
    assert len(keys) == 2
    for key in keys:
        assert int(values.item(key)["expires_at"]["N"]) > int(task.source["expires_at"]["N"])
    with ValueItems(engine.client, TABLE).refusing("Query"), pytest.raises(StoreUnavailable):
        _ = store.get(owner, task.task_id).variables[ITEMS]


@pytest.mark.parametrize("numbers", [[], [0], [0, 1, 2], [0, 2, 3, 9], list(range(1_000))])
def test_ranges_are_read_back(numbers: list[int]) -> None:
    assert numbers_in(numbers_text(numbers)) == numbers
