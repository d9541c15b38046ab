"""What gives way when an item is too large."""

from dataclasses import dataclass, field
from hashlib import sha256

import pytest

from mcp_baton.exceptions import StoreUnavailable
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.attributes import Item, decode, item_size
from mcp_baton.tasks.dynamodb.changes import fitted, lighter, plan, size_after, without_largest
from mcp_baton.tasks.dynamodb.items import Limits, new_item
from mcp_baton.tasks.dynamodb.offload import Fetcher, Mover
from mcp_baton.tasks.dynamodb.pointers import pointer_in
from mcp_baton.tasks.record import PROGRESS, NewTask, StepStatus
from mcp_baton.tasks.store import Batch, SetPause, StepWrite

PENDING, COMPLETED = StepStatus.PENDING, StepStatus.COMPLETED


def stored(**variables: str) -> Item:
    progress: Json = {"goal": "flow", "steps": [{"name": "s0", "status": "pending"}], "schemaVersion": 1}
    return new_item(NewTask("owner", {PROGRESS: progress, **variables}), "0" * 34, 0, Limits())


@dataclass(slots=True)
class Shelf:
    """An object store that takes as many objects as it has room for."""

    room: int = 100
    objects: dict[str, bytes] = field(default_factory=dict)
    asked: int = 0

    def put(self, key: str, data: bytes, digest: bytes) -> None:
        """Keep an object."""
        assert sha256(data).digest() == digest
        self.asked += 1
        if len(self.objects) >= self.room:
            raise StoreUnavailable("no room")
        self.objects[key] = data

    def get(self, key: str, most: int) -> bytes:
        """An object that was kept."""
        assert len(self.objects[key]) <= most
        return self.objects[key]


def nowhere() -> Mover:
    return Mover(None, "owner", "task", 1000)


def mover(shelf: Shelf) -> Mover:
    return Mover(shelf, "owner", "task", 1000)


def test_the_size_after_a_batch_counts_what_it_replaces_and_removes() -> None:
    item = stored(kept="k" * 100, replaced="r" * 100, removed="x" * 100)
    before = item_size(item)
    batch = Batch(variables={"replaced": "new"}, removed=frozenset({"removed"}))
    after = size_after(item, plan(item, batch, 8192))
    assert after == before - 97 - (len("removed") + 102 + 1) + 64


def test_the_size_after_a_batch_counts_a_new_definition() -> None:
    item = stored()
    sizes = [size_after(item, plan(item, Batch(definition=text), 8192)) for text in ("x", "x" * 900)]
    assert sizes[1] - sizes[0] == 899


def test_the_largest_value_gives_way_first_and_only_as_many_as_must() -> None:
    item = stored()
    batch = Batch(variables={"a": "x" * 1000, "b": "y" * 3000, "c": "z" * 2000})
    changes = plan(item, batch, 8192)
    fit = fitted(item, changes, item_size(item) + 3500, nowhere())
    assert fit.oversized == ("b",)
    assert decode(fit.variables["b"]) == {"error": "result of 3002 bytes exceeds the task's size limit"}
    assert fitted(item, changes, item_size(item) + 1800, nowhere()).oversized == ("b", "c")
    assert fitted(item, changes, item_size(item) + 9000, nowhere()) == changes


def test_a_compressed_value_is_reported_with_its_own_length() -> None:
    item = stored()
    fit = fitted(item, plan(item, Batch(variables={"a": "x" * 500_000}), 8192), 500, nowhere())
    assert decode(fit.variables["a"]) == {"error": "result of 500002 bytes exceeds the task's size limit"}


def test_progress_and_pause_never_give_way_and_a_final_result_only_to_a_pointer() -> None:
    item = stored()
    batch = Batch(
        steps=(StepWrite(0, "s0", PENDING, COMPLETED, "small"),),
        pause=SetPause({"error": "e" * 5000}),
        variables={PROGRESS: {"goal": "g" * 5000, "steps": [{"name": "s0", "status": "pending"}], "schemaVersion": 1}},
        result={"large": "r" * 5000},
    )
    changes = plan(item, batch, 8192)
    assert fitted(item, changes, 100, nowhere()) == changes
    shelf = Shelf()
    moved = fitted(item, changes, 100, mover(shelf))
    assert moved.variables == changes.variables
    assert moved.result is not None
    assert Fetcher(shelf, "owner", "task").value(moved.result) == {"large": "r" * 5000}


def test_a_value_smaller_than_the_note_stays() -> None:
    item = stored()
    assert without_largest(plan(item, Batch(variables={"a": "x" * 20}), 8192)) is None
    assert without_largest(plan(item, Batch(), 8192)) is None


def test_values_move_largest_first_and_only_as_many_as_must() -> None:
    item, shelf = stored(), Shelf()
    changes = plan(item, Batch(variables={"a": "x" * 1000, "b": "y" * 3000, "c": "z" * 2000}), 8192)
    fit = fitted(item, changes, item_size(item) + 3500, mover(shelf))
    assert fit.oversized == ()
    assert {name for name, value in fit.variables.items() if pointer_in(value)} == {"b"}
    fit = fitted(item, changes, item_size(item) + 1800, mover(shelf))
    assert {name for name, value in fit.variables.items() if pointer_in(value)} == {"b", "c"}
    values = {name: Fetcher(shelf, "owner", "task").value(value) for name, value in fit.variables.items()}
    assert values == {"a": "x" * 1000, "b": "y" * 3000, "c": "z" * 2000}


def test_once_a_value_could_not_be_moved_the_rest_of_the_write_is_noted_and_what_has_moved_stays() -> None:
    item, shelf = stored(), Shelf(room=1)
    changes = plan(item, Batch(variables={"a": "x" * 1000, "b": "y" * 3000, "c": "z" * 2000}), 8192)
    fit = fitted(item, changes, item_size(item) + 400, mover(shelf))
    assert fit.oversized == ("c", "a")
    assert shelf.asked == 2
    assert Fetcher(shelf, "owner", "task").value(fit.variables["b"]) == "y" * 3000


def test_a_result_that_cannot_be_moved_stays_and_variables_are_noted() -> None:
    item = stored()
    changes = plan(item, Batch(variables={"a": "x" * 1000}, result={"large": "r" * 5000}), 8192)
    fit = fitted(item, changes, item_size(item) + 5200, mover(Shelf(room=0)))
    assert (fit.oversized, fit.result) == (("a",), changes.result)


def test_nothing_moves_twice_and_nothing_that_a_pointer_would_outweigh() -> None:
    item, shelf = stored(), Shelf()
    changes = plan(item, Batch(variables={"a": "x" * 1000, "b": "y" * 150}, result={"large": "r" * 5000}), 8192)
    fit = fitted(item, changes, 1, mover(shelf))
    assert len(shelf.objects) == 2
    assert (fit.oversized, fit.variables["b"]) == ((), changes.variables["b"])
    assert lighter(fit, mover(shelf)) is None
    noted = without_largest(fit)
    assert noted is not None
    assert noted.oversized == ("b",)


def test_without_an_object_store_no_folder_is_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    worked_out = list[str]()
    monkeypatch.setattr("mcp_baton.tasks.dynamodb.offload.folder_of", lambda owner, _task_id: worked_out.append(owner))

    assert Mover(None, "owner", "task", 1000).move({"S": "value"}) is None
    assert worked_out == []
