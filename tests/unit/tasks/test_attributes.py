"""JSON values as attribute values, and what they weigh."""

import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.attributes import (
    Attribute,
    Variables,
    canonical,
    decode,
    encode_text,
    encode_variable,
    from_native,
    from_text,
    item_size,
    native,
    size,
    to_text,
)

any_text = st.text(st.characters(exclude_categories=()))


@given(any_text)
def test_any_text_becomes_one_that_utf8_can_carry_and_comes_back(text: str) -> None:
    stored = to_text(text)
    assert stored.encode()
    assert from_text(stored) == text


@given(any_text, any_text)
def test_different_texts_are_stored_differently(left: str, right: str) -> None:
    assert (to_text(left) == to_text(right)) == (left == right)


def test_a_plain_text_is_stored_as_it_is() -> None:
    assert to_text("order é 🎉") == "order é 🎉"
    assert from_text(to_text(json.dumps("x"))) == '"x"'


@given(st.recursive(st.none() | st.booleans() | st.integers(-(10**38) + 1, 10**38 - 1) | any_text, st.lists))
def test_native_values_come_back(value: Json) -> None:
    assert from_native(native({"value": value})) == {"value": value}


@pytest.mark.parametrize("value", [1.5, 10**38, {"a": [object()]}])
def test_a_progress_that_has_no_native_form_is_refused(value: Any) -> None:
    with pytest.raises(StoreError, match="progress"):
        encode_variable("_workflow.progress", {"value": value}, 0)


@pytest.mark.parametrize(
    ("text", "kind"), [("x" * 10, "S"), ("x" * 11, "S"), ("x" * 200, "B"), ("abcdefghijklmnop", "S")]
)
def test_text_is_compressed_above_the_threshold_where_that_is_smaller(text: str, kind: str) -> None:
    assert list(encode_text(text, 10)) == [kind]


def test_equal_objects_have_one_canonical_text() -> None:
    left: Json = {"b": [{"y": 1.0, "x": None}], "a": "é\ud800"}
    right: Json = {"a": "é\ud800", "b": [{"x": None, "y": 1.0}]}
    assert canonical(left) == canonical(right)
    assert json.loads(canonical(left)) == left


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
    ],
)
def test_an_attribute_weighs_what_dynamodb_counts(attribute: Attribute, expected: int) -> None:
    assert size(attribute) == expected


def test_an_item_weighs_its_names_too() -> None:
    assert item_size({"pk": {"S": "OWNER#é"}, "n": {"N": "1"}}) == 2 + 8 + 1 + 2


@pytest.mark.parametrize("attribute", [{"B": b"x"}, {"S": "{"}, {"SS": ["a"]}, {"B": zlib.compress(b"NaN")}])
def test_a_damaged_value_is_an_error(attribute: Attribute) -> None:
    with pytest.raises(StoreError):
        decode(attribute)


def test_variables_are_decoded_when_they_are_read() -> None:
    variables = Variables({"good": {"S": "[1]"}, "bad": {"S": "{"}, '"\\ud800"': {"S": "1"}})
    assert list(variables) == ["good", "bad", "\ud800"]
    assert "bad" in variables
    assert "worse" not in variables
    assert variables["good"] == [1]
    with pytest.raises(StoreError):
        _ = variables["bad"]


def test_a_value_that_was_read_can_be_changed_without_harm() -> None:
    variables = Variables({"list": {"S": "[1]"}})
    first = variables["list"]
    assert isinstance(first, list)
    first.append(2)
    assert variables == {"list": [1]}
