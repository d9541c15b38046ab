"""JSON is written and read without loss."""

import json
import math

import pytest
from hypothesis import given

from mcp_baton.protocol.json import dumps, dumps_spaced, is_deeper_than, loads
from tests.examples import JSON
from tests.noise import nest


def is_same(left: object, right: object) -> bool:
    """Return whether two values are equal in value and type at every level: `1`, `1.0` and `True` differ."""
    return repr(left) == repr(right)


@given(JSON)
def test_a_value_keeps_its_value_and_type_in_a_round_trip(value: object) -> None:
    assert is_same(loads(dumps(value)), value)
    assert is_same(loads(dumps(value).encode()), value)
    assert is_same(loads(dumps_spaced(value)), value)


@pytest.mark.parametrize("value", [2**60 + 1, -(2**200), 10**400, 30.0, -0.0, 1e-320, 0.1 + 0.2, "", [], {}, None])
def test_values_that_other_libraries_change_are_kept(value: object) -> None:
    assert is_same(loads(dumps({"value": [value]})), {"value": [value]})


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("write", [dumps, dumps_spaced])
def test_numbers_that_json_does_not_have_are_not_written(write: object, number: float) -> None:
    assert callable(write)
    with pytest.raises(ValueError, match="JSON compliant"):
        write({"deep": [number]})


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a":-Infinity}', "nan"])
def test_numbers_that_json_does_not_have_are_not_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"not JSON|Expecting value"):
        loads(text)


@pytest.mark.parametrize("text", ["1e999", "-1e999", '{"amount": [1e400]}', "9" * 5_000])
def test_a_number_too_large_for_python_is_refused_without_advice_for_programmers(text: str) -> None:
    with pytest.raises(ValueError, match=r"1e|^a number has too many digits$"):
        loads(text)


def test_a_python_object_that_is_not_json_is_not_written() -> None:
    with pytest.raises(TypeError):
        dumps({"set": {1}})


def test_text_is_written_without_escapes() -> None:
    assert dumps({"a": ["é", 1, None]}) == '{"a":["é",1,null]}'
    assert dumps_spaced({"a": ["é", 1, None]}) == '{"a": ["é", 1, null]}'


def test_lone_surrogates_are_escaped() -> None:
    assert dumps("é\ud800").encode() == '"é\\ud800"'.encode()


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, "[" * 200_000 + "]" * 200_000])
def test_a_text_nested_too_deep_for_python_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"nested too deep|Expecting"):
        loads(text)


def test_a_value_nested_too_deep_for_python_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="nested too deep"):
        dumps(nest(200_000))


@pytest.mark.parametrize("innermost", [None, [], {}, "text", [[]]])
def test_levels_are_counted_in_containers(innermost: object) -> None:
    inner_levels = 0 if not isinstance(innermost, list | dict) else 2 if innermost else 1
    value = loads(json.dumps(nest(30, innermost)))

    assert not is_deeper_than(value, 30 + inner_levels)
    assert is_deeper_than(value, 29 + inner_levels)


def test_a_wide_value_is_not_deep() -> None:
    assert not is_deeper_than([[] for _ in range(1000)], 2)
    assert is_deeper_than([*([] for _ in range(1000)), [[]]], 2)
    assert not is_deeper_than("[[[[", 0)
