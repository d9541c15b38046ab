"""DynamoDB's limits: 400 KB for an item, 4 KB for an expression (docs/storage.md)."""

import random

import pytest

from mcp_baton.exceptions import Conflict, StoreError
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.values import item_size
from mcp_baton.tasks.record import PROGRESS, StepStatus, TaskRecord, TaskStatus
from mcp_baton.tasks.store import Batch
from tests.sent import Requests
from tests.store.fixture_types import ON_MEMORY, Begin, Store
from tests.store.steps import completion, statuses

PENDING, COMPLETED = StepStatus.PENDING, StepStatus.COMPLETED


def noise(size: int) -> str:
    """Return text that compresses to about half, so that it is stored compressed."""
    return random.Random(size).randbytes(size // 2).hex()


def fill_item(store: Store, task: TaskRecord, size: int) -> TaskRecord:
    """Fill a task's item to this size, less a few bytes, with its pause reason: values would leave it."""
    text = "e" * (size - bytes_of(task) - 90)
    return store.write(task, Batch(pauses=({"type": "toolError", "error": text},)))


def bytes_of(task: TaskRecord) -> int:
    assert isinstance(task.source, dict)
    return item_size(task.source)


def test_a_full_item_still_accepts_progress(uncompressed_store: Store, begin: Begin) -> None:
    task = fill_item(uncompressed_store, begin(2), 405_000)
    outcome = uncompressed_store.write(task, Batch(steps=(completion(0, "r"), completion(1, "r"))))
    assert outcome.oversized == ()
    assert (statuses(outcome), bytes_of(outcome) > 404_000) == (["completed", "completed"], True)


def test_a_refused_write_changes_nothing(store: Store, owner: str, begin: Begin) -> None:
    task = begin(2)
    pause = ({"type": "toolError", "error": "e" * 420_000},)
    with pytest.raises(StoreError, match="full"):
        store.write(task, Batch(steps=(completion(1, {}),), pauses=pause))
    assert store.get(owner, task.task_id) == task


def test_an_item_of_the_computed_maximum_size_is_accepted(store: Store, begin: Begin) -> None:
    """An item that nearly has the maximum size is accepted. Values are then stored outside."""
    full_task = fill_item(store, begin(4), 409_500)
    assert 409_300 < bytes_of(full_task) <= 409_600
    outcome = store.write(full_task, Batch(variables={"a": noise(2_000)}))
    assert (outcome.oversized, outcome.variables["a"]) == ((), noise(2_000))


@pytest.mark.parametrize("steps", [60, 101])
def test_many_steps_with_long_names_are_one_request(store: Store, begin: Begin, requests: Requests, steps: int) -> None:
    task = begin(steps)
    requests.sent.clear()
    writes = tuple(completion(index, {"index": index}, f"{index:0200}") for index in range(steps))
    batch = Batch(
        steps=writes,
        variables={f"{'v' * 200}{index}": index for index in range(50)},
        pauses=({"type": "toolError"},),
        removed=frozenset({"gone"}),
        result={"completed": True},
    )
    changed_task = store.write(task, batch)
    assert requests.sent == ["UpdateItem"]
    assert changed_task.status is TaskStatus.COMPLETED
    assert statuses(changed_task) == ["completed"] * steps
    assert all(changed_task.variables[f"_workflow.result.{write.name}"] == write.result for write in writes)
    assert changed_task.variables["v" * 200 + "49"] == 49


def test_a_batch_with_many_steps_requires_the_whole_progress(store: Store, begin: Begin) -> None:
    task = begin(120)
    winner = store.write(task, Batch(steps=(completion(119, "first"),)))
    batch = Batch(steps=tuple(completion(index, "later") for index in range(110)))
    with pytest.raises(Conflict) as conflict:
        store.write(task, batch)
    assert conflict.value.current == winner
    assert statuses(store.write(winner, batch)) == ["completed"] * 110 + ["pending"] * 9 + ["completed"]


def test_replacing_the_progress_requires_the_one_that_was_read(store: Store, begin: Begin) -> None:
    task = begin(2)
    steps: list[Json] = [{"name": name, "tool": "work", "status": "pending"} for name in ("new", "s0", "s1")]
    replacement = Batch(
        steps=(completion(1, "r"),), variables={PROGRESS: {"goal": "flow: again", "steps": steps, "schemaVersion": 1}}
    )
    assert statuses(store.write(task, replacement)) == ["pending", "completed", "pending"]
    with pytest.raises(Conflict):
        store.write(task, replacement)


@ON_MEMORY
def test_a_batch_with_more_values_than_one_expression_can_name_is_refused(
    store: Store, owner: str, begin: Begin, requests: Requests
) -> None:
    task = begin()
    requests.sent.clear()
    with pytest.raises(StoreError, match="4096"):
        store.write(task, Batch(variables={str(index): index for index in range(500)}))
    assert requests.sent == []


@ON_MEMORY
def test_a_step_that_the_task_does_not_have_is_refused(store: Store, begin: Begin) -> None:
    with pytest.raises(StoreError, match="no step"):
        store.write(begin(1), Batch(steps=(completion(1, "r"),)))
