"""Variables are decoded when they are read."""

import pytest

from mcp_baton.exceptions import StoreError
from mcp_baton.tasks.dynamodb.values import Variables


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
