"""Pointers, and the keys made from them."""

import pytest

from mcp_baton.tasks.dynamodb.attributes import Attribute, encode_text, native
from mcp_baton.tasks.dynamodb.outside import (
    BUNDLE_BYTES,
    Part,
    make_bundles,
    piece_key,
)
from mcp_baton.tasks.dynamodb.values import pointer_in

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
