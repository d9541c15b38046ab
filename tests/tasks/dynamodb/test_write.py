"""Which values of a write stay in the task's head, leave it, or are replaced by a note; and pointers."""

from typing import Any, cast

import pytest

from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item, encode_text, native
from mcp_baton.tasks.dynamodb.heads import MAX_INLINE_BYTES, fit_new, head_bytes, head_room, is_fitting, values_in
from mcp_baton.tasks.dynamodb.items import Limits, new_item
from mcp_baton.tasks.dynamodb.outside import (
    BUNDLE_BYTES,
    Mover,
    Part,
    make_bundles,
    piece_key,
)
from mcp_baton.tasks.dynamodb.values import item_size, pointer_in
from mcp_baton.tasks.dynamodb.write import Write
from mcp_baton.tasks.record import PROGRESS, NewTask
from mcp_baton.tasks.store import Batch

PLAIN = Limits(compress_over_bytes=10**9)


def task_item(steps: int = 1, **variables: Any) -> Item:
    step_list: list[Json] = [{"name": f"s{number}", "status": "pending"} for number in range(steps)]
    progress: Json = {"goal": "flow", "steps": step_list, "schemaVersion": 1}
    return new_item(NewTask("owner", {PROGRESS: progress, **variables}), "0" * 37, 0, PLAIN)


class FakeTable:
    """A table that counts the values that are written to it."""

    value_count = 0

    def monotonic(self) -> float:
        return 0.0

    def put_value(self, _item: Item) -> None:
        self.value_count += 1


def mover(table: FakeTable, item: Item) -> Mover:
    return Mover(cast("Any", table), "owner", "task", item, 1000.0)


def write_of(item: Item, batch: Batch) -> Write:
    return Write(item, batch, PLAIN, lambda: 0.0)


def names_outside(write: Write) -> set[str]:
    variables = write.head()["variables"]["M"]
    return {name for name, value in variables.items() if pointer_in(value)}


@pytest.mark.parametrize(("steps", "name_bytes"), [(0, 0), (1, 2), (100, 190 + 100)])
def test_the_bound_of_a_head_depends_only_on_its_steps_and_its_names(steps: int, name_bytes: int) -> None:
    assert head_bytes(task_item(steps, large="x" * 9_000), 8_192) == 8_192 + 180 * steps + 5 * name_bytes + 115


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
def test_small_values_leave_the_head_together_if_later_writes_would_pay_for_many(batch: Batch, stays: bool) -> None:
    item, table = task_item(kept="k" * 1000), FakeTable()
    write = write_of(item, batch)
    assert write.fits is stays
    write.fit(mover(table, item))
    assert (table.value_count == 0) is stays
    assert names_outside(write) == (set() if stays or batch.result else {"a", "kept"})


def test_a_value_smaller_than_the_note_stays() -> None:
    assert write_of(task_item(), Batch(variables={"a": "x" * 20})).leave_out_largest() is False
    assert write_of(task_item(), Batch()).leave_out_largest() is False


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
    assert is_fitting(item, head_room(item, PLAIN), values_in(item), {}) is is_unchanged
    fit = fit_new(item, PLAIN, mover(FakeTable(), item).move)
    assert (fit == item) is is_unchanged
    assert item_size(fit) < 1_000 + MAX_INLINE_BYTES + 600


NAME = "Zk3q_-8yTn0aAbBcCdDeEf"


@pytest.mark.parametrize(
    "attribute",
    [
        encode_text('"V,x,1,1"', 10**9),
        {"B": b"V,x,1,1"},
        native({"V": 1}),
        *(encode_text(text, 10**9) for text in ("true", "false", "null", "-1", "[]", "{}")),
    ],
)
def test_other_attributes_are_not_pointers(attribute: Attribute) -> None:
    assert pointer_in(attribute) is None


OWNERS = ["kim", "Kim", "a", "a#b", "#", "", '"', "lone \ud800", "o" * 5_000]


def test_different_owners_tasks_and_bundles_have_different_keys() -> None:
    tasks, bundles = ["0" * 34, "1" * 34], [NAME, NAME[::-1]]
    places = [
        (owner, task, bundle, piece) for owner in OWNERS for task in tasks for bundle in bundles for piece in (0, 1)
    ]
    keys = {piece_key(*place)["pk"]["S"] for place in places}
    assert len(keys) == len(places)
    assert {len(key.encode()) for key in keys} == {len("VALUE#") + 32 + 1 + 34 + 1 + 22 + 1 + 1}


def test_bundles_are_filled_up_to_the_size_of_an_item() -> None:
    sizes = {"a": 100_000, "b": 200_000, "c": 120_000, "d": BUNDLE_BYTES + 1, "e": 10, "f": 10}
    bundles = make_bundles([Part((name,), size, name.encode() * size) for name, size in sizes.items()])
    assert [["".join(part.path) for part in bundle.parts] for bundle in bundles] == [["d"], ["b", "c"], ["a", "e", "f"]]
    for bundle in bundles:
        assert len(bundle.data) <= BUNDLE_BYTES or len(bundle.parts) == 1
        for part, pointer in bundle.pointers():
            assert bundle.data[pointer.offset : pointer.offset + pointer.stored_bytes] == part.data
