"""Task variables as a tool sees them."""

import math
from collections.abc import Callable
from typing import Any, cast

import pytest

from mcp_baton.exceptions import Abandoned
from mcp_baton.tasks.variables import MAX_VARIABLES_CHANGED, TaskVariables


def test_stored_variables_can_be_read_and_are_not_written_again() -> None:
    variables = TaskVariables({"a": 1, "_workflow.progress": {}})

    assert (variables["a"], variables.get("b"), "b" in variables, list(variables)) == (
        1,
        None,
        False,
        [*"a", "_workflow.progress"],
    )
    assert (variables.changed, variables.removed, len(variables)) == ({}, frozenset(), 2)


def test_changes_are_seen_and_collected() -> None:
    variables = TaskVariables({"a": 1, "b": 2, "c": 3, "d": 4})

    variables["a"] = [1]
    variables["new"] = None
    del variables["b"]
    # A removed variable can be set again. Setting and removing a variable has no effect unless it is stored.
    del variables["c"]
    variables["c"] = 4
    for name in ("gone", "d"):
        variables[name] = 2
        del variables[name]

    assert dict(variables) == {"a": [1], "c": 4, "new": None}
    assert (variables.changed, variables.removed) == ({"a": [1], "new": None, "c": 4}, frozenset("bd"))
    assert len(variables) == 3


def test_a_missing_variable_cannot_be_removed() -> None:
    variables = TaskVariables({"a": 1})
    del variables["a"]

    for name in ("a", "b"):
        with pytest.raises(KeyError):
            del variables[name]
        with pytest.raises(KeyError):
            variables[name]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "_workflow.",
        "_workflow.progress",
        "_workflow.result.a",
        "io.modelcontextprotocol/related-task",
        cast("str", 7),
        "n" * 256,
    ],
)
def test_reserved_empty_and_long_names_are_refused(name: str) -> None:
    variables = TaskVariables({"_workflow.progress": {}})

    with pytest.raises(ValueError, match="name"):
        variables[name] = 1
    with pytest.raises(ValueError, match="name"):
        del variables[name]
    assert (variables.changed, variables.removed) == ({}, frozenset())


@pytest.mark.parametrize(
    "value",
    [math.nan, {"a": [math.inf]}, {1, 2}, object(), b"x", {("a",): 1}],
    ids=["NaN", "infinity", "set", "object", "bytes", "tuple as a key"],
)
def test_a_value_that_is_not_json_is_refused_with_its_name(value: Any) -> None:
    variables = TaskVariables({})

    with pytest.raises(ValueError, match="'a'"):
        variables["a"] = value
    assert variables.changed == {}


def test_a_value_nested_too_deep_is_refused() -> None:
    value: Any = 1
    for _ in range(2_000):
        value = [value]

    with pytest.raises(ValueError, match="deep"):
        TaskVariables({})["a"] = value


@pytest.mark.parametrize("value", [2**60 + 1, 30.0, -0.0, "", [], {}, None, True, "\ud800", {"a": [1, {"b": "é"}]}])
def test_a_value_is_kept_exactly(value: Any) -> None:
    variables = TaskVariables({})

    variables["a"] = value

    assert (repr(variables["a"]), repr(variables.changed["a"])) == (repr(value), repr(value))


def test_changing_a_value_after_setting_it_has_no_effect() -> None:
    variables = TaskVariables({})
    value: Any = {"list": [1]}

    variables["a"] = value
    value["list"].append(object())

    assert variables.changed == {"a": {"list": [1]}}


def test_a_value_that_was_read_is_a_snapshot() -> None:
    variables = TaskVariables({})
    variables["a"] = {"list": [1]}

    snapshot: Any = variables["a"]
    snapshot["list"].append(2)

    assert variables["a"] == {"list": [1]}
    variables["a"] = snapshot
    assert variables["a"] == {"list": [1, 2]}


def set_variable(variables: TaskVariables, name: str) -> None:
    variables[name] = 1


def remove_variable(variables: TaskVariables, name: str) -> None:
    del variables[name]


@pytest.mark.parametrize("change", [set_variable, remove_variable])
def test_the_number_of_changed_variables_is_limited(change: Callable[[TaskVariables, str], None]) -> None:
    variables = TaskVariables({f"stored{number}": number for number in range(MAX_VARIABLES_CHANGED + 1)})
    for number in range(MAX_VARIABLES_CHANGED):
        change(variables, f"stored{number}")

    with pytest.raises(ValueError, match=str(MAX_VARIABLES_CHANGED)):
        change(variables, f"stored{MAX_VARIABLES_CHANGED}")
    variables["stored0"] = 2
    assert len(variables.changed) + len(variables.removed) == MAX_VARIABLES_CHANGED


def test_an_abandoned_tool_cannot_change_variables() -> None:
    variables = TaskVariables({"a": 1})
    variables["b"] = 2

    variables.close()

    with pytest.raises(Abandoned):
        variables["c"] = 3
    with pytest.raises(Abandoned):
        del variables["a"]
    assert (dict(variables), variables.changed) == ({"a": 1, "b": 2}, {"b": 2})


def test_names_are_known_without_reading_values() -> None:
    class Unread(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            raise AssertionError(name)

    variables = TaskVariables(Unread(large="x", other=1))

    assert ("large" in variables, "new" in variables, list(variables)) == (True, False, ["large", "other"])
    del variables["large"]
    variables["other"] = 2
    assert ("large" in variables, variables["other"]) == (False, 2)
    with pytest.raises(KeyError):
        del variables["large"]
