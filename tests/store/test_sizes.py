"""DynamoDB's limits: 400 KB for an item, 4 KB for an expression (docs/storage.md)."""

import random
from itertools import count

import pytest

from mcp_baton.exceptions import Conflict, StoreError
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.items import Limits
from mcp_baton.tasks.dynamodb.values import item_size
from mcp_baton.tasks.record import PROGRESS, StepStatus, TaskRecord, TaskStatus
from mcp_baton.tasks.store import Batch, SetPause
from tests.sent import Requests
from tests.store.given import BUT_EMBEDDED, ON_MEMORY, Begin, Store, Stores
from tests.store.steps import done, result, statuses

PENDING, COMPLETED = StepStatus.PENDING, StepStatus.COMPLETED


def noise(size: int) -> str:
    """Return text that compresses to about half, so that it is stored compressed."""
    return random.Random(size).randbytes(size // 2).hex()


@pytest.fixture
def plain(stores: Stores) -> Store:
    """A store that compresses nothing."""
    return stores(limits=Limits(compress_over_bytes=10**9))


def filled(store: Store, task: TaskRecord, size: int) -> TaskRecord:
    """Fill a task's item to nearly this size with small variables."""
    names = (f"v{number:03}" for number in count())
    while (room := size - bytes_of(task)) > 60:
        lengths = [4_000] * min(room // 4_010, 40) or [room - 40]
        task = store.write(task, Batch(variables={next(names): "x" * length for length in lengths})).task
    return task


def bytes_of(task: TaskRecord) -> int:
    assert isinstance(task.source, dict)
    return item_size(task.source)


def test_a_full_item_still_accepts_progress_and_pause_reason(plain: Store, begin: Begin) -> None:
    task = filled(plain, begin(2), 399_800)
    pause = SetPause({"type": "toolError", "error": "e" * 900})
    written = plain.write(task, Batch(steps=(done(0, "r"), done(1, "r")), pause=pause))
    assert written.oversized == ()
    assert (statuses(written.task), bytes_of(written.task) > 400_000) == (["completed", "completed"], True)


def test_a_refused_write_changes_nothing(stores: Stores, owner: str, begin: Begin) -> None:
    store = stores(limits=Limits(compress_over_bytes=10**9, item_bytes=10**9))
    task = filled(store, begin(2), 300_000)
    pause = SetPause({"type": "toolError", "error": "e" * 200_000})
    with pytest.raises(StoreError, match="full"):
        store.write(task, Batch(steps=(done(1, {}),), pause=pause))
    assert store.get(owner, task.task_id) == task


@BUT_EMBEDDED
def test_compressed_values_count_as_they_are_stored(store: Store, owner: str, begin: Begin) -> None:
    values = [noise(120_000) for _ in range(5)]
    written = store.write(begin(5), Batch(steps=tuple(done(i, value) for i, value in enumerate(values))))
    assert written.oversized == ()
    assert [result(store.get(owner, written.task.task_id), index) for index in range(5)] == values


def test_an_item_of_the_computed_maximum_size_is_accepted(stores: Stores, owner: str, begin: Begin) -> None:
    """An item that nearly has the maximum size is accepted. Then a slightly larger value is stored outside."""
    unlimited = stores(limits=Limits(compress_over_bytes=10**9, item_bytes=10**9))
    full = filled(unlimited, begin(4), 409_600)
    assert 409_500 < bytes_of(full) <= 409_600
    over = unlimited.write(full, Batch(variables={"v000": "x" * 4_090})).task
    assert bytes_of(over) < 409_600 - 3_900


@pytest.mark.parametrize("steps", [60, 101])
def test_many_steps_with_long_names_are_one_request(store: Store, begin: Begin, requests: Requests, steps: int) -> None:
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
    written = store.write(task, batch).task
    assert requests.sent == ["UpdateItem"]
    assert written.status is TaskStatus.COMPLETED
    assert statuses(written) == ["completed"] * steps
    assert all(written.variables[f"_workflow.result.{write.name}"] == write.result for write in writes)
    assert written.variables["v" * 200 + "49"] == 49


def test_a_batch_with_many_steps_requires_the_whole_progress(store: Store, begin: Begin) -> None:
    task = begin(120)
    winner = store.write(task, Batch(steps=(done(119, "first"),))).task
    batch = Batch(steps=tuple(done(index, "later") for index in range(110)))
    with pytest.raises(Conflict) as conflict:
        store.write(task, batch)
    assert conflict.value.current == winner
    written = store.write(winner, batch).task
    assert statuses(written) == ["completed"] * 110 + ["pending"] * 9 + ["completed"]


def test_replacing_the_progress_requires_the_one_that_was_read(store: Store, begin: Begin) -> None:
    task = begin(2)
    steps: list[Json] = [{"name": name, "tool": "work", "status": "pending"} for name in ("new", "s0", "s1")]
    replaced = Batch(
        steps=(done(1, "r"),), variables={PROGRESS: {"goal": "flow: again", "steps": steps, "schemaVersion": 1}}
    )
    written = store.write(task, replaced).task
    assert statuses(written) == ["pending", "completed", "pending"]
    with pytest.raises(Conflict):
        store.write(task, replaced)


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
        store.write(begin(1), Batch(steps=(done(1, "r"),)))
