"""The sizes of attribute values and items, and when variables are decoded."""

import json

import pytest

from mcp_baton.exceptions import StoreError
from mcp_baton.tasks.dynamodb.attributes import Attribute, decode, encode_text, native, text_bytes, text_in
from mcp_baton.tasks.dynamodb.values import Variables, item_size, size


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


def test_variables_are_decoded_when_they_are_read() -> None:
    variables = Variables({"good": {"S": "[1]"}, "bad": {"S": "{"}, '"\\ud800"': {"S": "1"}})
    assert list(variables) == ["good", "bad", "\ud800"]
    assert "bad" in variables
    assert "worse" not in variables
    assert variables["good"] == [1]
    with pytest.raises(StoreError):
        _ = variables["bad"]


def test_changing_a_read_value_does_not_change_the_stored_one() -> None:
    variables = Variables({"list": {"S": "[1]"}})
    value = variables["list"]
    assert isinstance(value, list)
    value.append(2)
    assert variables == {"list": [1]}
