"""Which values of a write stay in the task's head, leave it, or are replaced by a note."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from mcp_baton.exceptions import StoreUnavailable, ValueNotKept
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item, decode
from mcp_baton.tasks.dynamodb.items import Limits, head_bytes, new_item
from mcp_baton.tasks.dynamodb.outside import Mover
from mcp_baton.tasks.dynamodb.read import Fetcher
from mcp_baton.tasks.dynamodb.values import Variables, item_size, pointer_in
from mcp_baton.tasks.dynamodb.write import MAX_INLINE_BYTES, RESULT_ROOM_BYTES, Write, fit_new, fits_new
from mcp_baton.tasks.record import PROGRESS, NewTask, StepStatus
from mcp_baton.tasks.store import Batch, StepWrite
from mcp_baton.tasks.texts import to_text

PENDING, COMPLETED = StepStatus.PENDING, StepStatus.COMPLETED
PLAIN = Limits(compress_over_bytes=10**9)


def task_item(steps: int = 1, **variables: Any) -> Item:
    step_list: list[Json] = [{"name": f"s{number}", "status": "pending"} for number in range(steps)]
    progress: Json = {"goal": "flow", "steps": step_list, "schemaVersion": 1}
    return new_item(NewTask("owner", {PROGRESS: progress, **variables}), "0" * 37, 0, PLAIN)


@dataclass(slots=True)
class FakeTable:
    """A table with limited room."""

    room: int = 100
    items: dict[str, Item] = field(default_factory=dict)
    request_count: int = 0
    now_s: float = 0.0

    def monotonic(self) -> float:
        self.now_s += 0.001
        return self.now_s

    def put_value(self, item: Item) -> None:
        """Store an item."""
        self.request_count += 1
        if len(self.items) >= self.room:
            raise StoreUnavailable("no room")
        self.items[item["pk"]["S"]] = item

    def get(self, key: Any, *, consistent: bool = True) -> Any:
        """Return a stored item, which only a consistent read finds."""
        return self.items.get(key["pk"]["S"]) if consistent else None


def mover(table: FakeTable, item: Item) -> Mover:
    return Mover(cast("Any", table), "owner", "task", item, 1000.0)


def write_of(item: Item, batch: Batch, limits: Limits = PLAIN) -> Write:
    return Write(item, batch, limits, lambda: 0.0)


def fitted(item: Item, batch: Batch, table: FakeTable | None = None, limits: Limits = PLAIN) -> Write:
    """Return the write after values have left the head."""
    write = write_of(item, batch, limits)
    write.fit(mover(table or FakeTable(room=0), item))
    return write


def values(table: FakeTable, variables: Mapping[str, Attribute]) -> dict[str, Json]:
    return dict(Variables(variables, lambda: Fetcher(cast("Any", table), "owner", "task")))


def names_outside(write: Write) -> set[str]:
    variables = write.head()["variables"]["M"]
    return {name for name, value in variables.items() if pointer_in(value)}


def test_the_head_after_a_batch_counts_what_it_replaces_and_removes() -> None:
    item = task_item(kept="k" * 100, replaced="r" * 100, removed="x" * 100)
    write = write_of(item, Batch(variables={"replaced": "new"}, removed=frozenset({"removed"})))
    assert item_size(write.head()) == item_size(item) - 97 - (len("removed") + 102 + 1)
    assert write.excess(0) == item_size(write.head()) + 64


def test_the_head_after_a_batch_counts_a_new_definition_and_message() -> None:
    sizes = [
        write_of(task_item(), batch).excess(0)
        for batch in (Batch(definition="x", message="y"), Batch(definition="x" * 900, message="y" * 500))
    ]
    assert sizes[1] - sizes[0] == 899 + 499


@pytest.mark.parametrize(("steps", "name_bytes"), [(0, 0), (1, 2), (100, 190 + 100)])
def test_the_bound_of_a_head_depends_only_on_its_steps_and_its_names(steps: int, name_bytes: int) -> None:
    assert head_bytes(task_item(steps, large="x" * 9_000), 8_192) == 8_192 + 180 * steps + 5 * name_bytes + 115


def test_large_values_leave_the_head_in_one_bundle() -> None:
    item, table = task_item(), FakeTable()
    write = fitted(item, Batch(variables={"a": "x" * 9_000, "b": "y" * 5_000, "c": "z" * 1_000}), table)
    assert (names_outside(write), write.oversized, len(table.items)) == ({"a", "b"}, (), 1)
    assert values(table, write.variables) == {"a": "x" * 9_000, "b": "y" * 5_000, "c": "z" * 1_000}


@pytest.mark.parametrize(
    ("batch", "stays"),
    [
        (Batch(variables={"a": "x" * 500}), True),
        (Batch(variables={"a": "x" * 600}), False),
        (Batch(variables={"a": "x" * 500}, removed=frozenset({"kept"})), True),
        (Batch(variables={"kept": "x" * 1_500}), True),
        (Batch(variables={"a": "x" * 600}, result={"completed": True}), True),
        (Batch(result={"r": "x" * 4_000}), True),
        (Batch(result={"r": "x" * 4_096}), False),
        (Batch(pauses=({"error": "e" * 5000},)), True),
    ],
    ids=[
        *("few bytes", "too many bytes", "a removal", "a replacement", "the last write", "a result", "a large result"),
        "a pause reason",
    ],
)
def test_small_values_leave_the_head_together_if_later_writes_would_be_charged_for_many(
    batch: Batch, stays: bool
) -> None:
    item, table = task_item(kept="k" * 1000), FakeTable()
    assert write_of(item, batch).fits is stays
    write = fitted(item, batch, table)
    assert (table.request_count == 0) is stays
    assert names_outside(write) == (set() if stays or batch.result else {"a", "kept"})


def test_stored_values_are_moved_only_if_they_are_the_ones_that_were_read() -> None:
    item, table = task_item(kept="k" * 1000, tiny="t" * 20), FakeTable()
    write = fitted(item, Batch(variables={"a": "x" * 600}), table)
    assert set(write.moved) == {("variables", "kept")}
    update = write.update("0" * 37, 1_000, ("00", 1_000))
    [placeholder] = [name for name, value in update.values.items() if value == item["variables"]["M"]["kept"]]
    kept = f"{update.name('variables')}.{update.name('kept')}"
    assert f"{kept}={placeholder}" in update.conditions
    assert any(setting.startswith(f"{kept}=:") for setting in update.settings)
    assert values(table, write.head()["variables"]["M"])["kept"] == "k" * 1000


def test_a_head_that_would_exceed_its_bound_loses_values_even_at_its_end() -> None:
    values_stored: dict[str, Any] = {f"v{number}": "v" * 900 for number in range(12)}
    item, table = task_item(1, **values_stored), FakeTable()
    write = fitted(item, Batch(result={"completed": True}), table)
    assert len(write.moved) == 12
    assert write.excess() <= 0
    assert item_size(write.head()) <= head_bytes(item, 8_192) - RESULT_ROOM_BYTES


def test_if_values_cannot_be_moved_notes_replace_the_largest() -> None:
    item = task_item()
    batch = Batch(variables={"a": "x" * 1000, "b": "y" * 3000, "c": "z" * 2000})
    limits = Limits(compress_over_bytes=10**9, item_bytes=item_size(item) + 3500)
    write = fitted(item, batch, limits=limits)
    assert write.oversized == ("b",)
    with pytest.raises(ValueNotKept, match="result of 3002 bytes could not be written outside the task's item"):
        decode(write.variables["b"])
    limits = Limits(compress_over_bytes=10**9, item_bytes=item_size(item) + 1800)
    assert fitted(item, batch, limits=limits).oversized == ("b", "c")
    assert fitted(item, batch).oversized == ()


def test_values_over_the_limit_are_not_stored() -> None:
    item, table = task_item(), FakeTable()
    write = fitted(item, Batch(variables={"a": "x" * 1_900_000, "b": "y" * 1_899_998}), table)
    assert (write.oversized, names_outside(write)) == (("a",), {"b"})
    with pytest.raises(ValueNotKept, match="exceeds the task's size limit"):
        decode(write.variables["a"])


def test_progress_and_pause_reason_stay_but_a_result_may_become_a_pointer() -> None:
    item, table = task_item(), FakeTable()
    batch = Batch(
        steps=(StepWrite(0, "s0", PENDING, COMPLETED, "small"),),
        pauses=({"error": "e" * 5000},),
        variables={PROGRESS: {"goal": "g" * 5000, "steps": [{"name": "s0", "status": "pending"}], "schemaVersion": 1}},
        result={"large": "r" * 5000},
    )
    write = fitted(item, batch, table)
    assert names_outside(write) == set()
    assert write.result is not None
    assert values(table, {"result": write.result}) == {"result": {"large": "r" * 5000}}


def test_a_value_smaller_than_the_note_stays() -> None:
    assert write_of(task_item(), Batch(variables={"a": "x" * 20})).leave_out_largest() is False
    assert write_of(task_item(), Batch()).leave_out_largest() is False


def test_pointers_notes_and_tiny_values_do_not_move() -> None:
    item, table = task_item(), FakeTable()
    first = fitted(item, Batch(variables={"a": "x" * 5_000, "b": "y" * 30, "c": "z" * 1_900_000}), table)
    stored = first.head()
    requests = table.request_count
    write = fitted(stored, Batch(variables={"d": "d" * 1_600}), table)
    assert (set(write.moved), names_outside(write), table.request_count) == (set(), {"a", "d"}, requests + 1)


def test_values_are_kept_as_long_as_the_others_of_the_task() -> None:
    item = task_item()
    expires_s = int(item["expires_at"]["N"])
    assert mover(FakeTable(), item).kept_until_s == expires_s + 86_400
    assert mover(FakeTable(), {**item, "kept_until": {"N": "77"}}).kept_until_s == 77


@pytest.mark.parametrize(
    ("variables", "arguments", "is_unchanged"),
    [
        ({"a": "x" * 1_000}, {"b": "y" * 200}, True),
        ({"a": "x" * 4_095}, {}, False),
        ({"a": "x" * 1_000}, {"b": "y" * 600}, False),
        ({}, {"b": "y" * 4_096}, False),
    ],
    ids=["small values", "a large variable", "many bytes", "a large argument"],
)
def test_a_new_task_with_few_bytes_is_written_unchanged(
    variables: dict[str, Json], arguments: dict[str, Json], is_unchanged: bool
) -> None:
    progress: Json = {"goal": "g" * 1_000, "steps": [], "schemaVersion": 1}
    task = NewTask("owner", {PROGRESS: progress, **variables}, arguments=arguments)
    item = new_item(task, "0" * 37, 0, PLAIN)
    table = FakeTable()
    assert fits_new(item, PLAIN) is is_unchanged
    fit = fit_new(item, PLAIN, mover(table, item).move)
    assert (fit == item) is is_unchanged
    assert item_size(fit) < 1_000 + MAX_INLINE_BYTES + 600


def test_oversized_names_are_decoded() -> None:
    item, name = task_item(), '"quoted" \ud800'
    write = write_of(item, Batch(variables={name: "x" * 3_000}, removed=frozenset({'"gone"'})))
    assert set(write.variables) == {to_text(name)}
    assert write.leave_out_largest()
    assert write.oversized == (name,)
    removals = write.update("0" * 37, 1_000, ("00", 1_000))
    assert to_text('"gone"') in removals.names.values()
