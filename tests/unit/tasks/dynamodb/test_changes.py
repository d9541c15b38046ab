"""Which values of a write stay in the task's item, are stored outside, or are replaced by a note."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from mcp_baton.exceptions import StoreUnavailable, ValueNotKept
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item, decode
from mcp_baton.tasks.dynamodb.changes import Changes, excess_after, fits, plan, size_after
from mcp_baton.tasks.dynamodb.items import Limits, fits_in_item, new_item
from mcp_baton.tasks.dynamodb.outside import Fetcher, Mover, without_largest
from mcp_baton.tasks.dynamodb.values import Variables, item_size, pointer_in
from mcp_baton.tasks.record import PROGRESS, NewTask, StepStatus
from mcp_baton.tasks.store import Batch, SetPause, StepWrite
from mcp_baton.tasks.texts import to_text

PENDING, COMPLETED = StepStatus.PENDING, StepStatus.COMPLETED
PLAIN = 10**9


def task_item(**variables: str) -> Item:
    progress: Json = {"goal": "flow", "steps": [{"name": "s0", "status": "pending"}], "schemaVersion": 1}
    return new_item(NewTask("owner", {PROGRESS: progress, **variables}), "0" * 34, 0, Limits())


@dataclass(slots=True)
class FakeStorage:
    """A table with limited room."""

    room: int = 100
    items: dict[str, Item] = field(default_factory=dict)
    request_count: int = 0
    now_s: float = 0.0

    def clock_ms(self) -> int:
        return 1_000

    def monotonic(self) -> float:
        self.now_s += 0.001
        return self.now_s

    def put_value(self, item: Item) -> None:
        """Store an item."""
        self._count_request()
        self.items[item["pk"]["S"]] = item

    def get(self, key: Any, *, consistent: bool = True) -> Any:
        """Return a stored item, which only a consistent read finds."""
        return self.items.get(key["pk"]["S"]) if consistent else None

    def _count_request(self) -> None:
        self.request_count += 1
        if len(self.items) >= self.room:
            raise StoreUnavailable("no room")


def mover(storage: FakeStorage) -> Mover:
    return Mover(cast("Any", storage), "owner", "task", 1, 1000.0)


def nowhere() -> Mover:
    return mover(FakeStorage(room=0))


def values(storage: FakeStorage, variables: Mapping[str, Attribute]) -> dict[str, Json]:
    return dict(Variables(variables, lambda: Fetcher(cast("Any", storage), "owner", "task")))


def names_outside(changes: Changes) -> set[str]:
    return {name for name, value in changes.variables.items() if pointer_in(value)}


def test_the_size_after_a_batch_counts_what_it_replaces_and_removes() -> None:
    item = task_item(kept="k" * 100, replaced="r" * 100, removed="x" * 100)
    size_before = item_size(item)
    batch = Batch(variables={"replaced": "new"}, removed=frozenset({"removed"}))
    new_size = size_after(item, plan(item, batch, PLAIN))
    assert new_size == size_before - 97 - (len("removed") + 102 + 1) + 64


def test_the_excess_after_a_batch_is_exact_if_it_is_positive() -> None:
    item = task_item(kept="k" * 100)
    for batch in (Batch(variables={'"' * 90: "x"}, definition="y" * 90), Batch(result={"z": "z" * 90})):
        changes = plan(item, batch, PLAIN)
        new_size = size_after(item, changes)
        assert [excess_after(item, changes, new_size + difference) for difference in (-1, 0)] == [1, 0]
        assert excess_after(item, changes, 400_000) <= 0


def test_the_size_after_a_batch_counts_a_new_definition() -> None:
    item = task_item()
    sizes = [size_after(item, plan(item, Batch(definition=text), PLAIN)) for text in ("x", "x" * 900)]
    assert sizes[1] - sizes[0] == 899


def test_if_values_cannot_be_moved_notes_replace_the_largest() -> None:
    item = task_item()
    batch = Batch(variables={"a": "x" * 1000, "b": "y" * 3000, "c": "z" * 2000})
    changes = plan(item, batch, PLAIN)
    fit = nowhere().fit(item, changes, item_size(item) + 3500)
    assert fit.oversized == ("b",)
    with pytest.raises(ValueNotKept, match="result of 3002 bytes could not be written outside the task's item"):
        decode(fit.variables["b"])
    assert nowhere().fit(item, changes, item_size(item) + 1800).oversized == ("b", "c")
    assert nowhere().fit(item, changes, item_size(item) + 9000) == changes


def test_progress_and_pause_reason_stay_but_a_result_may_become_a_pointer() -> None:
    item = task_item()
    batch = Batch(
        steps=(StepWrite(0, "s0", PENDING, COMPLETED, "small"),),
        pause=SetPause({"error": "e" * 5000}),
        variables={PROGRESS: {"goal": "g" * 5000, "steps": [{"name": "s0", "status": "pending"}], "schemaVersion": 1}},
        result={"large": "r" * 5000},
    )
    changes = plan(item, batch, PLAIN)
    assert nowhere().fit(item, changes, 100) == changes
    storage = FakeStorage()
    moved_changes = mover(storage).fit(item, changes, 100)
    assert moved_changes.variables == changes.variables
    assert moved_changes.result is not None
    assert values(storage, {"result": moved_changes.result}) == {"result": {"large": "r" * 5000}}


def test_a_value_smaller_than_the_note_stays() -> None:
    item = task_item()
    assert without_largest(plan(item, Batch(variables={"a": "x" * 20}), PLAIN)) is None
    assert without_largest(plan(item, Batch(), PLAIN)) is None


def test_values_that_do_not_fit_move_largest_first() -> None:
    item, storage = task_item(), FakeStorage()
    changes = plan(item, Batch(variables={"a": "x" * 1000, "b": "y" * 3000, "c": "z" * 2000}), PLAIN)
    fit = mover(storage).fit(item, changes, item_size(item) + 3500)
    assert (fit.oversized, names_outside(fit)) == ((), {"b"})
    fit = mover(storage).fit(item, changes, item_size(item) + 1800)
    assert names_outside(fit) == {"b", "c"}
    assert values(storage, fit.variables) == {"a": "x" * 1000, "b": "y" * 3000, "c": "z" * 2000}


def test_values_of_more_than_4096_bytes_leave_the_item_in_one_bundle() -> None:
    item, storage = task_item(), FakeStorage()
    changes = plan(item, Batch(variables={"a": "x" * 9_000, "b": "y" * 4_095, "c": "z" * 4_094}), PLAIN)
    fit = mover(storage).fit(item, changes, 400_000)
    assert (names_outside(fit), fit.oversized, len(storage.items)) == ({"a", "b"}, (), 1)


def test_pointers_and_tiny_values_do_not_move() -> None:
    item, storage = task_item(), FakeStorage()
    changes = plan(item, Batch(variables={"a": "x" * 1000, "b": "y" * 30}, result={"large": "r" * 5000}), PLAIN)
    fit = mover(storage).fit(item, changes, 1)
    assert (names_outside(fit), fit.oversized, fit.variables["b"]) == ({"a"}, (), changes.variables["b"])
    assert mover(storage).shrink(fit) is None


@pytest.mark.parametrize(
    ("batch", "stays"),
    [
        (Batch(variables={"a": "x" * 4_094, "b": "y" * 4_094}), True),
        (Batch(variables={"a": "x" * 4_095}), False),
        (Batch(result={"r": "x" * 4_096}), False),
        (Batch(pause=SetPause({"error": "e" * 5000})), True),
        (Batch(removed=frozenset({"kept"})), True),
    ],
    ids=["small values", "a large one", "a large result", "a pause reason", "a removal"],
)
def test_only_large_values_leave_the_item(batch: Batch, stays: bool) -> None:
    item, storage = task_item(kept="k" * 1000), FakeStorage()
    changes = plan(item, batch, PLAIN)
    assert fits(item, changes, 400_000) is stays
    assert (mover(storage).fit(item, changes, 400_000) == changes) is stays
    assert (storage.request_count == 0) is stays


def test_a_write_that_fills_the_item_does_not_fit() -> None:
    item = task_item(kept="k" * 1000)
    changes = plan(item, Batch(variables={"a": "x"}), PLAIN)
    new_size = size_after(item, changes)
    assert fits(item, changes, new_size)
    assert not fits(item, changes, new_size - 1)


@pytest.mark.parametrize(
    ("variables", "arguments", "limit", "is_unchanged"),
    [
        ({"a": "x" * 4_094}, {"b": "y" * 200}, 400_000, True),
        ({"a": "x" * 4_095}, {}, 400_000, False),
        ({}, {"b": "y" * 4_096}, 400_000, False),
        ({"a": "x" * 200}, {"b": "y" * 200}, 400, False),
    ],
    ids=["small values", "a large variable", "a large argument", "a small item"],
)
def test_a_new_task_with_small_values_is_written_unchanged(
    variables: dict[str, Json], arguments: dict[str, Json], limit: int, is_unchanged: bool
) -> None:
    progress: Json = {"goal": "g" * 1_000, "steps": [], "schemaVersion": 1}
    task = NewTask("owner", {PROGRESS: progress, **variables}, arguments=arguments)
    item, storage = new_item(task, "0" * 34, 0, Limits(compress_over_bytes=10**9)), FakeStorage()
    assert fits_in_item(item, limit) is is_unchanged
    assert mover(storage).fit_new(item, 400_000) == item or not is_unchanged


def test_oversized_names_are_decoded() -> None:
    item, name = task_item(), '"quoted" \ud800'
    changes = plan(item, Batch(variables={name: "x" * 3_000}, removed=frozenset({'"gone"'})), PLAIN)
    assert (set(changes.variables), set(changes.removed)) == ({to_text(name)}, {to_text('"gone"')})
    assert nowhere().fit(item, changes, item_size(item) + 500).oversized == (name,)
