"""Data sources: paths, texts with placeholders, and copies."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.protocol.json import Json, dumps
from mcp_baton.tools.templates import as_text, copy_json, fill, fill_json, fill_uri, placeholders
from mcp_baton.workflow.json_values import lookup
from mcp_baton.workflow.sources import constant
from tests.examples import JSON

ORDER: dict[str, Any] = {
    "id": "A-17",
    "note": None,
    "": {"": 1},
    "lines": [{"total": 30.0}, {"total": 4, "tags": []}],
    "0": "a key",
    "by": {"0": "object", "1": {"x": True}},
    "deep": [[[{"a": [1, 2, 3]}]]],
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (None, ORDER),
        ("id", "A-17"),
        ("lines", ORDER["lines"]),
        ("lines.0.total", 30.0),
        ("lines.1.tags", []),
        ("lines.01.total", 4),
        ("0", "a key"),
        ("by.0", "object"),
        ("by.1.x", True),
        ("deep.0.0.0.a.2", 3),
        ("note", None),
        (".", 1),
    ],
)
def test_a_path_finds_its_value(path: str | None, value: Json) -> None:
    assert lookup(ORDER, path) == value


@pytest.mark.parametrize(
    "path",
    [
        "nothing",
        "id.0",
        "id.length",
        "note.x",
        "lines.2",
        "lines.-1",
        "lines.+1",
        "lines.one",
        "lines.1.total.x",
        "lines.²",
        "lines.\u0660",
        "lines.1_0",
        "lines.",
        "lines.99999999999999999999",
        "by.2",
    ],
)
def test_a_path_that_does_not_exist_finds_nothing(path: str) -> None:
    with pytest.raises(KeyError):
        lookup(ORDER, path)


def test_a_list_can_be_the_root() -> None:
    assert lookup([1, [2]], "1.0") == 2
    assert lookup(None, None) is None
    with pytest.raises(KeyError):
        lookup("text", "0")


@given(st.lists(st.text(st.characters(exclude_characters="."), min_size=1), min_size=1, max_size=8), st.integers())
def test_an_objects_keys_are_found_at_any_depth(keys: list[str], leaf: int) -> None:
    value: Any = leaf
    for key in reversed(keys):
        value = {key: value, "other": 0} if key != "other" else {key: value}

    assert lookup(value, ".".join(keys)) == leaf


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Refunded {order}", "Refunded A-17"),
        ("{order}{order}", "A-17A-17"),
        ("{unknown} stays", "{unknown} stays"),
        ("{{order}}", "{A-17}"),
        ("{}", "{}"),
        ("{order", "{order"),
        ('{"json": {order}}', '{"json": A-17}'),
        ("{tricky}", "{order}"),
        ("{a.b}", "dotted"),
    ],
)
def test_placeholders_are_replaced_once_and_unknown_ones_stay(text: str, expected: str) -> None:
    assert fill(text, {"order": "A-17", "tricky": "{order}", "a.b": "dotted"}) == expected


def test_the_names_in_braces_are_found() -> None:
    assert placeholders("docs://{a}/{b}?{a}") == {"a", "b"}
    assert placeholders("plain {} { text }") == {" text "}


@pytest.mark.parametrize(
    ("uri", "value", "expected"),
    [
        ("docs://{v}", "shoes", "docs://shoes"),
        ("docs://{v}", "a/b", "docs://a%2Fb"),
        ("docs://{v}/x", "R&D 100%", "docs://R%26D%20100%25/x"),
        ("docs://x?q={v}", "a#b?", "docs://x?q=a%23b%3F"),
        ("docs://{v}", "-._~", "docs://-._~"),
        ("docs://{v}", "grün", "docs://gr%C3%BCn"),
        ("{v}", "docs://a/b", "docs://a/b"),
        ("{v}/more", "docs://a", "docs://a/more"),
        ("docs://{unknown}", "x", "docs://{unknown}"),
    ],
)
def test_a_value_in_a_uri_is_percent_encoded_unless_it_begins_the_uri(uri: str, value: str, expected: str) -> None:
    assert fill_uri(uri, {"v": value}) == expected


def test_every_string_inside_a_constant_is_filled() -> None:
    template: Json = {"to": ["{a}", {"deep": "{a}-{b}"}], "{a}": 1, "n": None, "t": True, "f": 1.5}

    assert fill_json(template, {"a": "x"}) == {"to": ["x", {"deep": "x-{b}"}], "{a}": 1, "n": None, "t": True, "f": 1.5}


def containers(value: object) -> list[int]:
    """Return the identities of every list and object in a value."""
    if isinstance(value, dict):
        return [id(value), *(identity for item in value.values() for identity in containers(item))]
    if isinstance(value, list):
        return [id(value), *(identity for item in value for identity in containers(item))]
    return []


@given(JSON)
def test_a_copy_is_equal_and_shares_no_container(value: Any) -> None:
    copy = copy_json(value)

    assert repr(copy) == repr(value)
    assert not set(containers(copy)) & set(containers(value))


def test_a_constant_is_a_copy() -> None:
    value = {"tags": ["a"]}
    source = constant(value)

    value["tags"].append("b")

    assert source.value == {"tags": ["a"]}


def test_a_tuple_is_a_list_in_json() -> None:
    assert constant(("a", ("b",))).value == ["a", ["b"]]


@given(JSON)
def test_strings_stay_as_they_are_in_texts_and_other_values_become_json(value: Any) -> None:
    assert as_text(value) == (value if isinstance(value, str) else dumps(value))
