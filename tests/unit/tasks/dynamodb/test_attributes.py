"""JSON values as attribute values, and what they weigh."""

import json
import zlib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.attributes import (
    Attribute,
    at_most,
    decode,
    encode_text,
    encode_variable,
    excess,
    from_native,
    item_size,
    native,
    size,
    text_bytes,
    text_pieces,
)
from mcp_baton.tasks.dynamodb.values import Variables
from mcp_baton.tasks.texts import from_text, to_text, zipped

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


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
)


@given(any_json)
@example({'"': '"', '"text"': '"text"', "": "", "é": "é", "\ud800": "\ud800", "!": " "})
def test_native_values_come_back_exactly(value: Json) -> None:
    assert repr(from_native(native({"value": value}))) == repr({"value": value})


@given(st.dictionaries(any_text, any_json, max_size=4), st.binary(), st.lists(st.binary(), max_size=3))
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
    ("value", "attribute"),
    [
        ("A-17", {"S": "A-17"}),
        (30, {"N": "30"}),
        (30.0, {"SS": ["30.0"]}),
        (-(10**38) + 1, {"N": "-" + "9" * 38}),
        (10**38, {"SS": ["1" + "0" * 38]}),
        ({"a": [None, True]}, {"M": {"a": {"L": [{"NULL": True}, {"BOOL": True}]}}}),
    ],
)
def test_a_value_has_dynamodbs_own_form_where_that_is_exact(value: Json, attribute: Attribute) -> None:
    assert native(value) == attribute


def test_what_is_nested_too_deep_for_an_item_is_text_inside_a_native_value() -> None:
    value: Json = 1
    for _ in range(60):
        value = [value]
    made: Any = native(value)
    assert from_native(made) == value
    levels = 0
    while "L" in made:
        [made], levels = made["L"], levels + 1
    assert levels == 16


@given(st.dictionaries(any_text, any_json, max_size=4))
def test_equal_values_have_equal_forms_whatever_the_order_of_their_keys(value: dict[str, Json]) -> None:
    assert native({"in": [value]}, 2) == native({"in": [dict(reversed(value.items()))]}, 2)


@pytest.mark.parametrize("value", [float("nan"), {"a": [object()]}])
def test_a_progress_that_is_not_json_is_refused(value: Any) -> None:
    with pytest.raises(StoreError, match="progress"):
        encode_variable("_workflow.progress", {"value": value}, 0)


@pytest.mark.parametrize(
    ("text", "kind"), [("x" * 10, "S"), ("x" * 11, "S"), ("x" * 200, "B"), ("abcdefghijklmnop", "S")]
)
def test_text_is_compressed_above_the_threshold_where_that_is_smaller(text: str, kind: str) -> None:
    assert list(encode_text(text, 10)) == [kind]


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
        ({"SS": ["1.5"]}, 3 + 1 + 3),
    ],
)
def test_an_attribute_weighs_what_dynamodb_counts(attribute: Attribute, expected: int) -> None:
    assert size(attribute) == expected


def test_an_item_weighs_its_names_too() -> None:
    assert item_size({"pk": {"S": "OWNER#é"}, "n": {"N": "1"}}) == 2 + 8 + 1 + 2


@pytest.mark.parametrize(
    "attribute",
    [{"B": b"x"}, {"S": "{"}, {"SS": ["a", "b"]}, {"SS": ["{"]}, {"B": zipped(b"NaN")}, {"B": zlib.compress(b"1")}],
)
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


@pytest.mark.parametrize(
    "attribute", [encode_text('"é"', 10**9), encode_text('"' + "é" * 999 + '"', 10), native({"a": "é"})]
)
def test_a_text_is_weighed_and_read_in_pieces_in_whichever_form_it_is(attribute: Attribute) -> None:
    text = "".join(text_pieces(attribute))
    assert json.loads(text) == decode(attribute)
    assert text_bytes(attribute) == len(text.encode())
