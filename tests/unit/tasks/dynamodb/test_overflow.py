"""Pointers, the objects behind them, and how long those are kept."""

import pytest

from mcp_baton.tasks.dynamodb.attributes import Attribute, decode, encode_text, native
from mcp_baton.tasks.dynamodb.overflow import (
    DAY_MS,
    LONGEST_TTL_MS,
    Pointer,
    folder_of,
    new_key,
    object_of,
    pointer_in,
    pointer_to,
    retention_days,
)


@pytest.mark.parametrize(
    ("ttl_ms", "days"),
    [
        (1, 2),
        (DAY_MS, 2),
        (DAY_MS + 1, 8),
        (7 * DAY_MS, 8),
        (7 * DAY_MS + 1, 31),
        (30 * DAY_MS, 31),
        (30 * DAY_MS + 1, 366),
        (LONGEST_TTL_MS, 366),
    ],
)
def test_an_object_is_kept_for_at_least_a_day_more_than_its_tasks_lifetime(ttl_ms: int, days: int) -> None:
    assert retention_days(ttl_ms) == days
    assert days * DAY_MS >= ttl_ms + DAY_MS


def test_a_pointer_is_read_as_it_was_written() -> None:
    pointer = Pointer("2d/owner/task/name", 600_002, "ab" * 32)

    assert pointer_in(pointer.attribute()) == pointer


@pytest.mark.parametrize(
    "attribute",
    [
        {"S": '{"object":"k","bytes":1,"sha256":""}'},
        {"B": b"k"},
        native({"object": "k", "bytes": 1}),
        native({"object": "k", "bytes": "1", "sha256": ""}),
        native({"object": "k", "bytes": 1, "sha256": "", "steps": []}),
        native({"goal": "g", "steps": [], "schemaVersion": 1}),
    ],
)
def test_nothing_else_is_a_pointer(attribute: Attribute) -> None:
    assert pointer_in(attribute) is None


@pytest.mark.parametrize("threshold", [10, 10**9], ids=["compressed", "plain"])
def test_an_object_holds_the_text_compressed_and_its_pointer_describes_it(threshold: int) -> None:
    value = encode_text('"' + "é" * 1000 + '"', threshold)

    data = object_of(value)
    pointer = pointer_to("2d/key", value, data)

    assert decode({"B": data}) == "é" * 1000
    assert (pointer.key, pointer.text_bytes) == ("2d/key", 2002)
    assert pointer.describes(data)
    assert not pointer.describes(data + b"\0")


def test_an_object_holds_a_native_values_text() -> None:
    assert decode({"B": object_of(native({"amount": 30.0}))}) == {"amount": 30.0}


def test_each_key_is_another_and_lies_in_its_tasks_folder() -> None:
    folder = folder_of("kim", "t1")

    keys = {new_key(folder, DAY_MS) for _ in range(100)}

    assert len(keys) == 100
    assert {key.rpartition("/")[0] for key in keys} == {f"2d/{folder}".rstrip("/")}
    assert len({folder, folder_of("kim", "t2"), folder_of("Kim", "t1"), folder_of("lone \ud800", "t1")}) == 4
