"""What gives way when an item is too large."""

from mcp_baton.protocol.json import Json
from mcp_baton.tasks.attributes import Item, decode, item_size
from mcp_baton.tasks.changes import fitted, plan, size_after, without_largest
from mcp_baton.tasks.items import Limits, new_item
from mcp_baton.tasks.record import PROGRESS, NewTask, StepStatus
from mcp_baton.tasks.store import Batch, SetPause, StepWrite

PENDING, COMPLETED = StepStatus.PENDING, StepStatus.COMPLETED


def stored(**variables: str) -> Item:
    progress: Json = {"goal": "flow", "steps": [{"name": "s0", "status": "pending"}], "schemaVersion": 1}
    return new_item(NewTask("owner", {PROGRESS: progress, **variables}), "0" * 34, 0, Limits())


def test_the_size_after_a_batch_counts_what_it_replaces_and_removes() -> None:
    item = stored(kept="k" * 100, replaced="r" * 100, removed="x" * 100)
    before = item_size(item)
    batch = Batch(variables={"replaced": "new"}, removed=frozenset({"removed"}))
    after = size_after(item, plan(item, batch, 8192))
    assert after == before - 97 - (len("removed") + 102 + 1) + 64


def test_the_largest_value_gives_way_first_and_only_as_many_as_must() -> None:
    item = stored()
    batch = Batch(variables={"a": "x" * 1000, "b": "y" * 3000, "c": "z" * 2000})
    changes = plan(item, batch, 8192)
    fit = fitted(item, changes, item_size(item) + 3500)
    assert fit.oversized == ("b",)
    assert decode(fit.variables["b"]) == {"error": "result of 3002 bytes exceeds the task's size limit"}
    assert fitted(item, changes, item_size(item) + 1800).oversized == ("b", "c")
    assert fitted(item, changes, item_size(item) + 9000) == changes


def test_a_compressed_value_is_reported_with_its_own_length() -> None:
    item = stored()
    fit = fitted(item, plan(item, Batch(variables={"a": "x" * 500_000}), 8192), 500)
    assert decode(fit.variables["a"]) == {"error": "result of 500002 bytes exceeds the task's size limit"}


def test_progress_pause_and_final_result_never_give_way() -> None:
    item = stored()
    batch = Batch(
        steps=(StepWrite(0, "s0", PENDING, COMPLETED, "small"),),
        pause=SetPause({"error": "e" * 5000}),
        variables={PROGRESS: {"goal": "g" * 5000, "steps": [{"name": "s0", "status": "pending"}], "schemaVersion": 1}},
        result={"large": "r" * 5000},
    )
    changes = plan(item, batch, 8192)
    assert fitted(item, changes, 100) == changes


def test_a_value_smaller_than_the_note_stays() -> None:
    item = stored()
    assert without_largest(plan(item, Batch(variables={"a": "x" * 20}), 8192)) is None
    assert without_largest(plan(item, Batch(), 8192)) is None
