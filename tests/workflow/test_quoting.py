"""Quoting of external values in an assistant's message."""

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given

from mcp_baton.tools.quoting import encoded_uri, is_long, one_line, quoted_error
from tests.examples import JSON


@given(JSON)
def test_a_quoted_value_is_one_visible_line_of_json(value: Any) -> None:
    line = one_line(value)

    assert len(line.splitlines()) == 1
    assert {unicodedata.category(character) for character in line} & {"Cc", "Zl", "Zp", "Cs"} == set()
    assert repr(json.loads(line)) == repr(value)


@pytest.mark.parametrize("character", ["\u200b", "\u200d", "\u202e", "\u2069", "\u00ad", "\ufeff", "\U000e0041"])
def test_invisible_characters_are_escaped(character: str) -> None:
    assert character not in one_line({character: character})
    assert json.loads(one_line(character)) == character


@pytest.mark.parametrize(
    ("value", "long"),
    [
        ("x" * 498, False),
        ("x" * 499, True),
        ("\n" * 249, False),
        ("\n" * 250, True),
        ("\u2028" * 83, False),
        ("\u2028" * 84, True),
        (["x" * 495, 1], True),
        (None, False),
    ],
)
def test_the_length_of_a_value_is_measured_as_json(value: Any, long: bool) -> None:
    assert is_long(value) is long


@pytest.mark.parametrize(("length", "shortened"), [(500, "e" * 500), (501, "e" * 500 + " …")])
def test_an_error_is_shortened_to_five_hundred_characters(length: int, shortened: str) -> None:
    assert quoted_error("e" * length) == f'"{shortened}"'


@pytest.mark.parametrize(
    ("uri", "encoded"),
    [
        ("docs://a/b?c=d&e[0]=%20#f", "docs://a/b?c=d&e[0]=%20#f"),
        ("docs://a b\n{c}", "docs://a%20b%0A%7Bc%7D"),
        ("docs://für\u2028x", "docs://f%C3%BCr%E2%80%A8x"),
        ("docs://\ud800", "docs://?"),
    ],
)
def test_a_uri_keeps_its_reserved_characters_and_encodes_all_others(uri: str, encoded: str) -> None:
    assert encoded_uri(uri) == encoded
