"""JSON values as attribute values."""

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
    decode,
    encode_arguments,
    encode_text,
    encode_variable,
    from_native,
    native,
)
from mcp_baton.tasks.texts import from_text, to_text, zipped
from tests.examples import JSON, TEXT


@given(TEXT)
def test_any_text_becomes_valid_utf8_and_comes_back(text: str) -> None:
    stored_text = to_text(text)
    assert stored_text.encode()
    assert from_text(stored_text) == text


@given(TEXT, TEXT)
def test_different_texts_are_stored_differently(left: str, right: str) -> None:
    assert (to_text(left) == to_text(right)) == (left == right)


def test_a_plain_text_is_stored_unchanged() -> None:
    assert to_text("order é 🎉") == "order é 🎉"
    assert from_text(to_text(json.dumps("x"))) == '"x"'


@given(JSON)
@example({'"': '"', '"text"': '"text"', "": "", "é": "é", "\ud800": "\ud800", "!": " "})
def test_native_values_come_back_exactly(value: Json) -> None:
    assert repr(from_native(native({"value": value}))) == repr({"value": value})


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
def test_a_value_has_a_native_form_if_that_is_exact(value: Json, attribute: Attribute) -> None:
    assert native(value) == attribute


def test_a_deeply_nested_value_is_text_inside_a_native_value() -> None:
    value: Json = 1
    for _ in range(60):
        value = [value]
    attribute: Any = native(value)
    assert from_native(attribute) == value
    levels = 0
    while "L" in attribute:
        [attribute], levels = attribute["L"], levels + 1
    assert levels == 16


@given(st.dictionaries(TEXT, JSON, max_size=4))
def test_equal_values_have_equal_forms_for_any_order_of_keys(value: dict[str, Json]) -> None:
    assert native({"in": [value]}, 2) == native({"in": [dict(reversed(value.items()))]}, 2)


@pytest.mark.parametrize("value", [float("nan"), {"a": [object()]}])
def test_a_progress_that_is_not_json_is_refused(value: Any) -> None:
    with pytest.raises(StoreError, match="progress"):
        encode_variable("_workflow.progress", {"value": value}, 0)


@pytest.mark.parametrize(
    ("text", "kind"), [("x" * 10, "S"), ("x" * 11, "S"), ("x" * 200, "B"), ("abcdefghijklmnop", "S")]
)
def test_a_long_text_is_compressed_if_that_is_smaller(text: str, kind: str) -> None:
    assert list(encode_text(text, 10)) == [kind]


@pytest.mark.parametrize(
    "attribute",
    [{"B": b"x"}, {"S": "{"}, {"SS": ["a", "b"]}, {"SS": ["{"]}, {"B": zipped(b"NaN")}, {"B": zlib.compress(b"1")}],
)
def test_a_damaged_value_is_an_error(attribute: Attribute) -> None:
    with pytest.raises(StoreError):
        decode(attribute)


@pytest.mark.parametrize(("length", "kind"), [(90, "M"), (120, "B")])
def test_long_arguments_are_compressed(length: int, kind: str) -> None:
    assert [*encode_arguments({"a": "x" * length}, compress_over=100)] == [kind]
