"""Forms: flat, as MCP wants them, of models, plain types and JSON Schemas."""

from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from mcp_baton import ToolError
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.asking.forms import Form


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Wish(BaseModel):
    """A form with everything that one may have."""

    colour: Colour = Field(description="Which one")
    size: Literal["m"] = "m"
    note: str | None = None
    day: date | None = None


class Wishes(BaseModel):
    first: Wish


@dataclass
class Place:
    street: str
    number: int = 1


@dataclass
class Many:
    names: list[str]


def fields(schema: Any) -> dict[str, Any]:
    shown: Any = Form(schema).schema
    assert shown["type"] == "object"
    return dict(shown["properties"])


@pytest.mark.parametrize(
    ("plain", "type_name", "given", "data"),
    [
        (str, "string", "Kim", "Kim"),
        (int, "integer", 3, 3),
        (float, "number", 2, 2.0),
        (bool, "boolean", False, False),
        (Colour, "string", "red", Colour.RED),
        (Literal["a", "b"], "string", "b", "b"),
        (Annotated[int, Field(ge=1)], "integer", 1, 1),
        (date, "string", "2026-01-31", date(2026, 1, 31)),
    ],
    ids=str,
)
def test_a_plain_type_travels_as_a_value_and_comes_back_bare(plain: Any, type_name: str, given: Any, data: Any) -> None:
    form = Form(plain)

    assert form.schema["required"] == ["value"]
    assert fields(plain)["value"]["type"] == type_name
    assert form.read({"value": given}) == data


@pytest.mark.parametrize("content", [{}, {"value": "many"}, {"other": 1}], ids=str)
def test_a_value_that_does_not_fit_is_the_tools_failure(content: JsonObject) -> None:
    with pytest.raises(ToolError, match="does not fit"):
        Form(int).read(content)


def test_choices_and_optional_fields_of_a_model_stand_flat_in_its_form() -> None:
    shown = fields(Wish)

    assert (shown["colour"]["enum"], shown["size"]["enum"]) == (["red", "blue"], ["m"])
    assert (shown["note"]["type"], shown["day"]["format"]) == ("string", "date")
    assert not {"anyOf", "$ref", "const"} & {name for field in shown.values() for name in field}
    assert (shown["colour"]["description"], "default" in shown["note"]) == ("Which one", False)
    assert Form(Wish).schema.keys() == {"type", "properties", "required"}
    assert [Form(schema).schema["required"] for schema in (Wish, Place)] == [["colour"], ["street"]]
    assert Form(Wish).read({"colour": "blue"}) == Wish(colour=Colour.BLUE)


def test_without_a_schema_a_form_has_no_fields() -> None:
    assert fields(None) == {}
    assert Form(None).read({}) is None


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        (Wishes, "'first'"),
        (Many, "'names'"),
        (list[int], "'value'"),
        (dict[str, int], "'value'"),
        (int | str, "'value'"),
        ({"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}, "'a'"),
        ({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}, "'a'"),
        ({"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}]}}}, "'a'"),
        ({"type": "object", "properties": {"a": "string"}}, "'a'"),
        ({"type": "string"}, "properties"),
        ({"type": "object"}, "properties"),
        ({}, "properties"),
    ],
    ids=str,
)
def test_what_is_not_flat_is_refused_and_named(schema: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Form(schema)


@pytest.mark.parametrize(
    "items", [{"type": "string", "enum": ["a"]}, {"anyOf": [{"const": "a", "title": "A"}]}], ids=str
)
def test_a_choice_of_several_is_flat(items: JsonObject) -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"type": "array", "items": items}}}

    assert Form(schema).schema == schema
    assert Form(schema).read({"a": ["a"]}) is None
