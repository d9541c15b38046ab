"""When two calls of one tool mean the same."""

from typing import Any

import pytest

from mcp_baton.workflow.plan import Comparison


def equal(one: Any, other: Any) -> bool:
    return Comparison({"value": one}, dict).equals({"value": other})


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (False, 0), (True, 1.0), (1, "1"), (0, None), ("a", "b"), (1, 2)]
)
def test_values_that_differ_as_json_make_another_call(one: Any, other: Any) -> None:
    assert not equal(one, other)


@pytest.mark.parametrize(
    ("one", "other"), [(30, 30.0), (True, True), ("a", "a"), (7, 7), ({"a": 1, "b": 2.0}, {"b": 2, "a": 1})]
)
def test_values_that_are_equal_as_json_make_the_same_call(one: Any, other: Any) -> None:
    assert equal(one, other)
