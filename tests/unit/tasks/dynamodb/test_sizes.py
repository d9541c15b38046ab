"""What attribute values and items weigh."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.attributes import Attribute, decode, encode_text, native, text_bytes
from mcp_baton.tasks.dynamodb.fetching import text_pieces
from mcp_baton.tasks.dynamodb.values import at_most, excess, item_size, size
from mcp_baton.tasks.texts import to_text
from tests.examples import JSON, TEXT


@given(st.dictionaries(TEXT, JSON, max_size=4), st.binary(), st.lists(st.binary(), max_size=3))
def test_an_item_never_weighs_more_than_is_said_at_once(values: dict[str, Json], data: bytes, tokens: Any) -> None:
    item: dict[str, Any] = {to_text(name): native(value) for name, value in values.items()}
    item |= {"data": {"B": data}, "tokens": {"BS": tokens}, "version": {"N": "-1"}, "é": {"S": "中🎉"}}
    assert item_size(item) <= at_most(item)
    large: dict[str, Any] = {"data": {"B": bytes(1_000)}, "tokens": {"BS": [bytes(1_000)]}}
    assert item_size(large) <= at_most(large)


def test_what_an_item_weighs_too_much_is_told_exactly_and_of_one_that_is_small_only_that_it_is() -> None:
    item: dict[str, Any] = {"a": {"S": "x" * 100}}
    assert excess(item, 90) == 11
    assert excess(item, 101) == 0
    assert excess(item, 1_000_000) <= 0


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ({"S": "é"}, 2),
        ({"S": ""}, 0),
        ({"B": b"123"}, 3),
        ({"BOOL": True}, 1),
        ({"NULL": True}, 1),
        ({"N": "1"}, 2),
        ({"N": "12"}, 2),
        ({"N": "-123"}, 4),
        ({"L": []}, 3),
        ({"L": [{"S": "ab"}, {"S": "c"}]}, 3 + 1 + 2 + 1 + 1),
        ({"M": {}}, 3),
        ({"M": {"é": {"S": "abc"}}}, 3 + 1 + 2 + 3),
        ({"SS": ["1.5", "é"]}, 3 + 2),
        ({"BS": [b"123", b"4567"]}, 3 + 4),
    ],
)
def test_an_attribute_weighs_what_dynamodb_counts(attribute: Attribute, expected: int) -> None:
    assert size(attribute) == expected


def test_an_item_weighs_its_names_too() -> None:
    assert item_size({"pk": {"S": "OWNER#é"}, "n": {"N": "1"}}) == 2 + 8 + 1 + 2


@pytest.mark.parametrize(
    "attribute", [encode_text('"é"', 10**9), encode_text('"' + "é" * 999 + '"', 10), native({"a": "é"})]
)
def test_a_text_is_weighed_and_read_in_pieces_in_whichever_form_it_is(attribute: Attribute) -> None:
    text = "".join(text_pieces(attribute))
    assert json.loads(text) == decode(attribute)
    assert text_bytes(attribute) == len(text.encode())
