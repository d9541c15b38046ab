"""What `task_ids="text"` adds to published schemas and to results (docs/workflows.md)."""

from typing import Any

import jsonschema_rs
import pytest

from mcp_baton.tools.published_schema import (
    declared_name,
    definition_with_approval,
    definition_with_task_id,
    free_name,
)

OBJECT: dict[str, Any] = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
CLOSED = {**OBJECT, "additionalProperties": False}
OPEN = {"type": "object", "additionalProperties": True}
NUMBERS = {"type": "object", "additionalProperties": {"type": "integer"}}
FEW = {"type": "object", "additionalProperties": True, "maxProperties": 1}
NAMED = {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"type": "integer"}}
LOWER = {"type": "object", "patternProperties": {"^[a-z_]+$": {"type": "integer"}}, "additionalProperties": False}
EITHER = {"type": "object", "anyOf": [CLOSED, {**CLOSED, "required": []}]}
TAKEN = {"type": "object", "properties": {"baton_next": {"type": "integer"}}, "required": ["baton_next"]}
BOTH_TAKEN = {"type": "object", "properties": {"baton_next": {}, "baton_next_": {}}}


def published_schema(schema: dict[str, Any]) -> Any:
    definition = definition_with_task_id({"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema})
    return definition["outputSchema"]


def is_valid(value: object, schema: Any) -> bool:
    return bool(jsonschema_rs.validator_for(schema).is_valid(value))


@pytest.mark.parametrize(
    ("schema", "value", "name"),
    [
        (OBJECT, {"id": "a"}, "baton_next"),
        (CLOSED, {"id": "a"}, "baton_next"),
        (OPEN, {}, "baton_next"),
        (OPEN, {"baton_next": 5}, "baton_next_"),
        (OPEN, {"baton_next": 5, "baton_next_": 6}, None),
        (NUMBERS, {"a": 1}, "baton_next"),
        (NUMBERS, {"baton_next": 1}, None),
        (FEW, {"a": 1}, None),
        (NAMED, {"a": 1}, None),
        (LOWER, {"a": 1}, None),
        (EITHER, {"id": "a"}, None),
        (TAKEN, {"baton_next": 1}, "baton_next_"),
        (BOTH_TAKEN, {}, None),
    ],
)
def test_an_additional_member_does_not_change_whether_a_value_is_valid(
    schema: dict[str, Any], value: dict[str, Any], name: str | None
) -> None:
    published = published_schema(schema)

    assert is_valid(value, schema)
    assert is_valid(value, published)
    assert free_name(value, schema) == name
    assert name is None or is_valid({**value, name: "Recorded."}, published)


def test_the_added_property_is_optional_text_and_comes_last() -> None:
    schema = published_schema(CLOSED)
    assert list(schema["properties"]) == ["id", "baton_next"]
    assert schema["required"] == ["id"]
    assert not is_valid({"id": "a", "baton_next": 5}, schema)
    assert not is_valid({"id": "a", "baton_next_": "x"}, schema)


def test_a_map_stays_a_map() -> None:
    """Clients that make types of schemas, such as FastMCP's, keep only the properties of an object with some."""
    definition: Any = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": NUMBERS}
    with_approval: Any = definition_with_approval(definition)
    for schema in (published_schema(NUMBERS), with_approval["outputSchema"]):
        assert "properties" not in schema
        assert is_valid({"a": 1}, schema)
        assert not is_valid({"a": 1.5}, schema)


@pytest.mark.parametrize(("schema", "name"), [(NAMED, None), (TAKEN, "baton_next_"), (OPEN, "baton_next")])
def test_the_schema_determines_the_name_of_the_added_property(schema: dict[str, Any], name: str | None) -> None:
    assert declared_name(schema) == name
    assert (published_schema(schema) == schema) is (name is None)


@pytest.mark.parametrize(
    ("value", "name"), [({}, "baton_next"), ({"baton_next": 1}, "baton_next_"), ({"a": 1}, "baton_next")]
)
def test_structured_content_without_a_schema_takes_any_name(value: dict[str, Any], name: str) -> None:
    assert free_name(value, None) == name


def test_the_argument_of_an_input_schema_is_optional_and_comes_last() -> None:
    schema: dict[str, Any] = {**CLOSED, "$defs": {"a": {}}}
    definition: dict[str, Any] = {"name": "t", "inputSchema": schema}

    new_definition: Any = definition_with_task_id(definition)

    assert new_definition == {"name": "t", "inputSchema": new_definition["inputSchema"]}
    assert list(new_definition["inputSchema"]["properties"]) == ["id", "task_id"]
    assert is_valid({"id": "a"}, new_definition["inputSchema"])
    assert is_valid({"id": "a", "task_id": "T"}, new_definition["inputSchema"])
    assert definition["inputSchema"] is schema
    assert list(schema["properties"]) == ["id"]
