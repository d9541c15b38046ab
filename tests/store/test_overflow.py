"""Large values (ARCHITECTURE.md, Values outside the head)."""

from typing import Any

import pytest

from mcp_baton.exceptions import TaskFinished, TaskNotFound
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.items import Limits
from mcp_baton.tasks.dynamodb.values import pointer_in
from mcp_baton.tasks.record import PROGRESS, NewTask, StepStatus, TaskRecord, TaskStatus
from mcp_baton.tasks.store import Batch
from tests.noise import noise
from tests.sent import Requests
from tests.store.fixture_types import NOT_ON_MOTO, Begin, Store, Stores
from tests.store.steps import completion, result, statuses
from tests.store.test_values import EXACT, are_equal

pytestmark = NOT_ON_MOTO

PENDING, COMPLETED = StepStatus.PENDING, StepStatus.COMPLETED


def outside(task: TaskRecord) -> list[str]:
    """Return the names of the variables and attributes that are stored outside a task's item."""
    assert isinstance(task.source, dict)
    values: dict[str, Any] = {**task.source, **task.source["variables"]["M"]}
    return sorted(name for name, value in values.items() if pointer_in(value))


BIG = noise(600_000)


def test_a_large_result_leaves_the_item_and_comes_back_exactly(
    store: Store, owner: str, begin: Begin, requests: Requests
) -> None:
    task = begin(2)
    requests.take()
    outcome = store.write(task, Batch(steps=(completion(0, BIG), completion(1, "small"))))
    assert requests.take() == ["PutItem", "PutItem", "UpdateItem"]
    assert outcome.oversized == ()
    assert outside(outcome) == ["_workflow.result.s0"]
    assert (result(outcome, 0), result(outcome, 1)) == (BIG, "small")
    requests.take()
    record = store.get(owner, task.task_id)
    assert (statuses(record), result(record, 1), record.version) == (["completed"] * 2, "small", 2)
    assert requests.take() == ["GetItem"]
    assert [result(record, 0), result(record, 0)] == [BIG, BIG]
    assert requests.take() == ["GetItem", "GetItem"]


def test_values_of_one_write_are_one_item_up_to_the_size_of_a_bundle(
    uncompressed_store: Store, begin: Begin, requests: Requests
) -> None:
    values = [letter * size for letter, size in zip("abc", (100_000, 250_000, 200_000), strict=True)]
    task = begin(3)
    requests.take()
    batch = Batch(
        steps=tuple(completion(index, value) for index, value in enumerate(values)), variables={"v": "d" * 240_000}
    )
    outcome = uncompressed_store.write(task, batch)
    # Bundles: 250,000 and a small value, 240,000 and a small value, 200,000. No item exceeds 350,000 bytes.
    assert requests.take() == ["PutItem"] * 3 + ["UpdateItem"]
    assert len(outside(outcome)) == 4
    requests.take()
    assert [result(outcome, index) for index in range(3)] == values
    assert outcome.variables["v"] == "d" * 240_000
    assert requests.take() == ["GetItem"] * 3
    assert outcome.oversized == ()


def test_a_task_is_created_with_large_variables_and_arguments(store: Store, owner: str, requests: Requests) -> None:
    other_text, small = noise(700_000, 1), noise(10_000, 2)
    task = store.create(NewTask(owner, {"large": BIG, "small": small}, arguments={"text": other_text}))
    assert requests.take() == ["PutItem"] * 6
    assert outside(task) == ["arguments", "large", "small"]
    record = store.get(owner, task.task_id)
    assert requests.take() == ["GetItem"]
    assert record.arguments == {"text": other_text}
    assert dict(record.variables) == {"large": BIG, "small": small}
    assert requests.take() == ["GetItem"] * 5


def test_a_creation_over_the_limit_writes_no_value(stores: Stores, owner: str, requests: Requests) -> None:
    store = stores(limits=Limits(max_tasks_per_owner=1))
    store.create(NewTask(owner, {}))
    requests.take()
    with pytest.raises(Exception, match="as many as are allowed"):
        store.create(NewTask(owner, {"large": BIG}))
    assert requests.take() == ["GetItem"]


def test_a_small_result_is_stored_outside_a_full_item(
    store: Store, owner: str, begin: Begin, requests: Requests
) -> None:
    small = noise(4_000)
    task = store.write(begin(), Batch(pauses=({"error": "e" * 407_000},)))
    requests.take()
    record = store.complete(owner, task.task_id, {"small": small})
    assert requests.take() == ["GetItem", "PutItem", "UpdateItem"]
    assert (record.result, outside(record), record.by_client) == ({"small": small}, ["result"], True)


def test_a_refused_completion_writes_no_value(store: Store, owner: str, begin: Begin, requests: Requests) -> None:
    task = begin()
    with pytest.raises(TaskNotFound):
        store.complete("another", task.task_id, {"large": BIG})
    with pytest.raises(TaskNotFound):
        store.complete(owner, "no id", {"large": BIG})
    store.cancel(owner, task.task_id)
    with pytest.raises(TaskFinished) as error_info:
        store.complete(owner, task.task_id, {"large": BIG})
    assert error_info.value.current.status is TaskStatus.CANCELLED
    assert "PutItem" not in requests.take()[1:]


def test_a_list_fetches_no_values(store: Store, owner: str, begin: Begin, requests: Requests) -> None:
    task = begin()
    store.write(task, Batch(steps=(completion(0, BIG),), result={"large": BIG}))
    requests.take()
    [entry] = store.list(owner).tasks
    assert (entry.status, [*entry.variables], entry.result) == (TaskStatus.COMPLETED, [PROGRESS], None)
    assert requests.take() == ["Query"]


@pytest.mark.parametrize("value", EXACT, ids=range(len(EXACT)))
def test_a_value_outside_comes_back_exactly(stores: Stores, owner: str, value: Json) -> None:
    # Compressed and uncompressed: the same text is moved.
    for threshold in (100, 10**9):
        store = stores(limits=Limits(compress_over_bytes=threshold, head_bytes=1_500, values_ms=60_000))
        large: Json = [value, noise(2_000)]
        task = store.create(NewTask(owner, {"variable": large}, arguments={"argument": large}))
        store.write(task, Batch(variables={"written": large}, result={"result": large}))
        record = store.get(owner, task.task_id)
        assert outside(record) == ["arguments", "result", "variable", "written"]
        assert are_equal(record.arguments, {"argument": large})
        assert are_equal([record.variables["variable"], record.variables["written"]], [large, large])
        assert are_equal(record.result, {"result": large})


def test_a_text_that_looks_like_a_pointer_stays_a_value(store: Store, owner: str, requests: Requests) -> None:
    forged_text: Json = "V,other,1,1"
    task = store.create(NewTask(owner, {"forged": forged_text}, arguments={"forged": forged_text}))
    store.complete(owner, task.task_id, {"S": forged_text})
    requests.take()
    record = store.get(owner, task.task_id)
    assert (record.variables["forged"], record.arguments) == (forged_text, {"forged": forged_text})
    assert record.result == {"S": forged_text}
    assert requests.take() == ["GetItem"]


def test_a_head_that_another_write_has_filled_gets_pointers(store: Store, begin: Begin, requests: Requests) -> None:
    task, value = begin(), noise(1_000)
    store.write(task, Batch(pauses=({"error": "e" * 408_600},)))
    requests.take()
    outcome = store.write(task, Batch(variables={"v": value}))
    assert requests.take() == ["UpdateItem", "PutItem", "UpdateItem"]
    assert (outcome.oversized, outside(outcome), outcome.variables["v"]) == ((), ["v"], value)
