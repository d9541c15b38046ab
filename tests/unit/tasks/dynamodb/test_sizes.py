"""The sizes of attribute values and items."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.attributes import Attribute, decode, encode_text, native, text_bytes, text_in
from mcp_baton.tasks.dynamodb.values import at_most, excess, item_size, size
from mcp_baton.tasks.texts import to_text
from tests.examples import JSON, TEXT


@given(st.dictionaries(TEXT, JSON, max_size=4), st.binary(), st.lists(st.binary(), max_size=3))
def test_the_upper_bound_of_a_size_holds(values: dict[str, Json], data: bytes, tokens: Any) -> None:
    item: dict[str, Any] = {to_text(name): native(value) for name, value in values.items()}
    item |= {"data": {"B": data}, "tokens": {"BS": tokens}, "version": {"N": "-1"}, "é": {"S": "中🎉"}}
    assert item_size(item) <= at_most(item)
    large: dict[str, Any] = {"data": {"B": bytes(1_000)}, "tokens": {"BS": [bytes(1_000)]}}
    assert item_size(large) <= at_most(large)


def test_the_excess_of_an_item_is_exact_if_it_is_positive() -> None:
    item: dict[str, Any] = {"a": {"S": "x" * 100}}
    assert excess(item, 90) == 11
    assert excess(item, 101) == 0
    assert excess(item, 1_000_000) <= 0


@pytest.mark.parametrize(
    ("attribute", "size_bytes"),
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
def test_the_size_of_an_attribute_equals_dynamodbs(attribute: Attribute, size_bytes: int) -> None:
    assert size(attribute) == size_bytes


def test_the_size_of_an_item_includes_names() -> None:
    assert item_size({"pk": {"S": "OWNER#é"}, "n": {"N": "1"}}) == 2 + 8 + 1 + 2


@pytest.mark.parametrize(
    "attribute", [encode_text('"é"', 10**9), encode_text('"' + "é" * 999 + '"', 10), native({"a": "é"})]
)
def test_all_forms_of_a_value_have_the_same_text_and_length(attribute: Attribute) -> None:
    text = text_in(attribute)
    assert json.loads(text) == decode(attribute)
    assert text_bytes(attribute) == len(text.encode())
