"""What happens at DynamoDB's limits: 400 KB an item, 4 KB an expression (docs/storage.md)."""

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from mcp_baton.exceptions import Conflict, StoreError
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.attributes import item_size
from mcp_baton.tasks.dynamodb.items import Limits
from mcp_baton.tasks.dynamodb.store import DynamoDBTaskStore
from mcp_baton.tasks.record import PROGRESS, NewTask, StepStatus, TaskRecord, TaskStatus
from mcp_baton.tasks.store import Batch, SetPause, StepWrite

if TYPE_CHECKING:
    from tests.store.conftest import Requests

PENDING, COMPLETED = StepStatus.PENDING, StepStatus.COMPLETED


def noise(size: int) -> str:
    """Text that compresses to about half, so that it is stored compressed."""
    return random.Random(size).randbytes(size // 2).hex()


def done(index: int, result: Json, name: str | None = None) -> StepWrite:
    return StepWrite(index, name or f"s{index}", PENDING, COMPLETED, result)


def note(value: str) -> Json:
    return {"error": f"result of {len(value) + 2} bytes exceeds the task's size limit"}


def result(task: TaskRecord, index: int) -> Json:
    return task.variables[f"_workflow.result.s{index}"]


def statuses(task: TaskRecord) -> list[str]:
    progress = task.variables[PROGRESS]
    assert isinstance(progress, dict)
    return [step["status"] for step in progress["steps"]]


@pytest.fixture
def plain(stores: Callable[..., DynamoDBTaskStore]) -> DynamoDBTaskStore:
    """A store that compresses nothing."""
    return stores(limits=Limits(compress_over_bytes=10**9))


def test_one_large_result_costs_neither_the_others_nor_the_progress(
    plain: DynamoDBTaskStore, owner: str, begin: Callable[..., TaskRecord], requests: "Requests"
) -> None:
    task = begin(3)
    requests.sent.clear()
    huge, middle = "x" * 500_000, "y" * 300_000
    batch = Batch(steps=(done(0, middle), done(1, huge), done(2, "small")), pause=SetPause({"type": "x"}))
    recorded = plain.record(task, batch)
    assert requests.sent == ["UpdateItem"]
    assert recorded.oversized == ("_workflow.result.s1",)
    assert [result(recorded.task, index) for index in range(3)] == [middle, note(huge), "small"]
    assert statuses(recorded.task) == ["completed"] * 3
    assert recorded.task == plain.get(owner, task.task_id)


def test_of_several_large_results_the_largest_give_way_until_the_rest_fits(
    plain: DynamoDBTaskStore, begin: Callable[..., TaskRecord]
) -> None:
    sizes = [100_000, 250_000, 200_000, 240_000]
    values = ["x" * size for size in sizes]
    batch = Batch(steps=tuple(done(i, value) for i, value in enumerate(values[:3])), variables={"v": values[3]})
    recorded = plain.record(begin(3), batch)
    assert recorded.oversized == ("_workflow.result.s1", "v")
    assert result(recorded.task, 0) == values[0]
    assert result(recorded.task, 1) == note(values[1])
    assert result(recorded.task, 2) == values[2]
    assert recorded.task.variables["v"] == note(values[3])


def test_a_continuation_onto_a_nearly_full_item_keeps_what_is_there(
    plain: DynamoDBTaskStore, begin: Callable[..., TaskRecord]
) -> None:
    first, second = "x" * 395_000, "y" * 10_000
    task = plain.record(begin(2), Batch(steps=(done(0, first),))).task
    recorded = plain.record(task, Batch(steps=(done(1, second),)))
    assert recorded.oversized == ("_workflow.result.s1",)
    assert (result(recorded.task, 0), result(recorded.task, 1)) == (first, note(second))
    assert statuses(recorded.task) == ["completed", "completed"]


def test_an_item_filled_to_its_limit_still_takes_progress_and_pause_reason(
    plain: DynamoDBTaskStore, begin: Callable[..., TaskRecord]
) -> None:
    task = begin(2)
    assert isinstance(task.source, dict)
    filler = "x" * (400_000 - item_size(task.source) - 200)
    task = plain.record(task, Batch(steps=(done(0, filler),))).task
    recorded = plain.record(
        task, Batch(steps=(done(1, "r"),), pause=SetPause({"type": "toolError", "error": "e" * 900}))
    )
    assert recorded.oversized == ()
    assert (statuses(recorded.task), result(recorded.task, 0)) == (["completed", "completed"], filler)


def test_two_writers_who_are_too_large_together_cost_the_later_its_value_only(
    plain: DynamoDBTaskStore, begin: Callable[..., TaskRecord], requests: "Requests"
) -> None:
    task = begin(3)
    first, second, small = "x" * 300_000, "y" * 200_000, "z" * 1000
    plain.record(task, Batch(steps=(done(0, first),)))
    requests.sent.clear()
    recorded = plain.record(task, Batch(steps=(done(1, second), done(2, small))))
    assert requests.sent == ["UpdateItem", "UpdateItem"]
    assert recorded.oversized == ("_workflow.result.s1",)
    assert [result(recorded.task, index) for index in range(3)] == [first, note(second), small]


def test_a_refused_write_leaves_nothing_behind(
    stores: Callable[..., DynamoDBTaskStore], owner: str, begin: Callable[..., TaskRecord]
) -> None:
    store = stores(limits=Limits(compress_over_bytes=10**9, item_bytes=10**9))
    task = store.record(begin(2), Batch(steps=(done(0, "x" * 300_000),))).task
    pause = SetPause({"type": "toolError", "error": "e" * 200_000})
    with pytest.raises(StoreError, match="full"):
        store.record(task, Batch(steps=(done(1, {}),), pause=pause))
    assert store.get(owner, task.task_id) == task


def test_a_final_result_that_does_not_fit_is_refused(
    plain: DynamoDBTaskStore, owner: str, begin: Callable[..., TaskRecord]
) -> None:
    task = begin()
    with pytest.raises(StoreError, match="fit"):
        plain.complete(owner, task.task_id, {"large": "x" * 450_000})
    assert plain.get(owner, task.task_id) == task


def test_a_task_that_begins_too_large_is_refused(plain: DynamoDBTaskStore, owner: str) -> None:
    with pytest.raises(StoreError, match="too large"):
        plain.create(NewTask(owner, {}, arguments={"large": "x" * 450_000}))
    assert plain.list(owner).tasks == ()


def test_compressed_values_count_as_they_are_stored(
    store: DynamoDBTaskStore, owner: str, begin: Callable[..., TaskRecord]
) -> None:
    values = [noise(120_000) for _ in range(5)]
    recorded = store.record(begin(5), Batch(steps=tuple(done(i, value) for i, value in enumerate(values))))
    assert recorded.oversized == ()
    assert [result(store.get(owner, recorded.task.task_id), index) for index in range(5)] == values


def test_the_computed_size_is_no_less_than_the_engines(
    stores: Callable[..., DynamoDBTaskStore], owner: str, begin: Callable[..., TaskRecord]
) -> None:
    """An item that the computation puts at DynamoDB's limit is taken; a little more is not."""
    unlimited = stores(limits=Limits(compress_over_bytes=10**9, item_bytes=10**9))
    task = unlimited.record(begin(4), Batch(variables={"filler": ""})).task
    assert isinstance(task.source, dict)
    room = 409_600 - item_size(task.source)
    with pytest.raises(StoreError):
        unlimited.complete(owner, task.task_id, {"r": "x" * (room + 60)})
    full = unlimited.record(task, Batch(variables={"filler": "x" * (room - 40)})).task
    assert isinstance(full.source, dict)
    assert 409_500 < item_size(full.source) <= 409_600


@pytest.mark.parametrize("steps", [60, 100, 101, 150])
def test_many_steps_with_long_names_are_one_request(
    store: DynamoDBTaskStore, begin: Callable[..., TaskRecord], requests: "Requests", steps: int
) -> None:
    task = begin(steps)
    requests.sent.clear()
    writes = tuple(done(index, {"index": index}, f"{index:0200}") for index in range(steps))
    batch = Batch(
        steps=writes,
        variables={f"{'v' * 200}{index}": index for index in range(50)},
        pause=SetPause({"type": "toolError"}),
        removed=frozenset({"gone"}),
        result={"completed": True},
    )
    written = store.record(task, batch).task
    assert requests.sent == ["UpdateItem"]
    assert written.status is TaskStatus.COMPLETED
    assert statuses(written) == ["completed"] * steps
    assert all(written.variables[f"_workflow.result.{write.name}"] == write.result for write in writes)
    assert written.variables["v" * 200 + "49"] == 49


def test_a_batch_written_in_one_piece_is_guarded_as_one(
    store: DynamoDBTaskStore, begin: Callable[..., TaskRecord]
) -> None:
    task = begin(120)
    winner = store.record(task, Batch(steps=(done(119, "first"),))).task
    batch = Batch(steps=tuple(done(index, "later") for index in range(110)))
    with pytest.raises(Conflict) as conflict:
        store.record(task, batch)
    assert conflict.value.current == winner
    written = store.record(winner, batch).task
    assert statuses(written) == ["completed"] * 110 + ["pending"] * 9 + ["completed"]


def test_a_progress_replaced_as_a_whole_must_be_the_one_that_was_read(
    store: DynamoDBTaskStore, begin: Callable[..., TaskRecord]
) -> None:
    task = begin(2)
    steps: list[Json] = [{"name": name, "tool": "work", "status": "pending"} for name in ("new", "s0", "s1")]
    replaced = Batch(
        steps=(done(1, "r"),), variables={PROGRESS: {"goal": "flow: again", "steps": steps, "schemaVersion": 1}}
    )
    written = store.record(task, replaced).task
    assert statuses(written) == ["pending", "completed", "pending"]
    with pytest.raises(Conflict):
        store.record(task, replaced)


def test_a_batch_of_more_values_than_one_expression_names_is_refused(
    store: DynamoDBTaskStore, owner: str, begin: Callable[..., TaskRecord], requests: "Requests"
) -> None:
    task = begin()
    requests.sent.clear()
    with pytest.raises(StoreError, match="4096"):
        store.record(task, Batch(variables={str(index): index for index in range(500)}))
    assert requests.sent == []


def test_a_step_that_the_task_does_not_have_is_refused(
    store: DynamoDBTaskStore, begin: Callable[..., TaskRecord]
) -> None:
    with pytest.raises(StoreError, match="no step"):
        store.record(begin(1), Batch(steps=(done(1, "r"),)))
