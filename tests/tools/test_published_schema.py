"""Published input schemas, and null for what they call optional."""

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import jsonschema_rs
import pytest
from pydantic import BaseModel, Field, Secret, SecretStr, create_model

from mcp_baton import Header
from mcp_baton.protocol.json import json_size
from mcp_baton.tools.labels import Labels
from mcp_baton.tools.param_headers import mirrored
from mcp_baton.tools.published_schema import MAX_INLINED_SCHEMA_BYTES, optional
from mcp_baton.tools.schema.schema import InvalidArguments
from mcp_baton.tools.tool import Tool


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Line(BaseModel):
    sku: str
    amount: int = Field(default=1, ge=1, description="How many")
    colour: Colour = Colour.RED


class Card(BaseModel):
    kind: Literal["card"] = "card"
    number: str = "0"


class Cash(BaseModel):
    kind: Literal["cash"] = "cash"
    tendered: float = 1


class Node(BaseModel):
    name: str
    children: "list[Node]" = []


class Options(TypedDict):
    verbose: NotRequired[bool]
    level: int


@dataclass
class Point:
    x: float
    y: float = 0.0
    labels: dict[str, int] = field(default_factory=dict)


@dataclass
class PlainPoint:
    x: float
    y: float = 0.0


def tool(function: Callable[..., object]) -> Tool:
    return Tool(function, "do", Labels())


def schema_of(function: Callable[..., object]) -> Any:
    return tool(function).definition["inputSchema"]


def keywords(node: Any) -> set[str]:
    """Return the keywords of a schema, with `true` and `false` behind `additionalProperties`."""
    if isinstance(node, list):
        return set().union(*map(keywords, node))
    if not isinstance(node, dict):
        return set()
    own = {f"{key}={value}" if isinstance(value, bool) else key for key, value in node.items()}
    return own.union(*map(keywords, node.values()))


def test_references_discriminators_and_booleans_are_not_published() -> None:
    def do(
        lines: list[Line],
        how: Annotated[Card | Cash, Field(discriminator="kind")],
        free: dict[str, Any],
        point: Point,
        options: Options,
        counts: dict[str, int],
    ) -> None: ...

    schema = schema_of(do)
    assert not keywords(schema) & {
        *("$ref", "$defs", "discriminator", "oneOf", "const"),
        *("additionalProperties=True", "additionalProperties=False"),
    }
    properties = schema["properties"]
    assert properties["free"]["additionalProperties"] == {"description": "Any JSON."}
    assert properties["counts"]["additionalProperties"] == {"type": "integer"}
    assert properties["lines"]["items"]["properties"]["colour"] == optional(
        {"type": "string", "enum": ["red", "green"], "default": "red"}
    )
    assert [option["properties"]["kind"]["enum"] for option in properties["how"]["anyOf"]] == [["card"], ["cash"]]
    assert schema["required"] == ["lines", "how", "free", "point", "options", "counts"]
    with pytest.raises(InvalidArguments, match="unknown"):
        tool(do).input.bind({"unknown": None})


def test_the_discriminator_of_a_union_is_required_because_pydantic_uses_no_default_there() -> None:
    def do(how: Annotated[Card | Cash, Field(discriminator="kind")]) -> None: ...

    assert [option["required"] for option in schema_of(do)["properties"]["how"]["anyOf"]] == [["kind"], ["kind"]]
    with pytest.raises(InvalidArguments, match="discriminator"):
        tool(do).input.bind({"how": {"number": "1"}})


def test_an_optional_member_accepts_null_in_each_form_that_a_framework_reads() -> None:
    class Loan(BaseModel):
        weeks: Annotated[int, Field(description="How long")] = 2
        note: str | None = None
        anything: Any = None

    def do(loan: Loan) -> None: ...

    assert schema_of(do)["properties"]["loan"]["properties"] == {
        "weeks": {
            "type": ["integer", "null"],
            "anyOf": [{"type": "integer", "description": "How long"}, {"type": "null"}],
            "nullable": True,
            "description": "How long",
            "default": 2,
        },
        "note": {
            "type": ["string", "null"],
            "anyOf": [{"type": "string"}, {"type": "null"}],
            "nullable": True,
            "default": None,
        },
        "anything": {"default": None},
    }


def test_an_optional_parameter_has_at_most_one_type_and_only_texts_are_published_without_it() -> None:
    def do(
        weeks: Annotated[int, Field(ge=1, description="How long")] = 2,
        name: str = "x",
        speed: Literal["slow", "fast"] = "slow",
        limit: float | None = None,
        tags: list[str] = [],  # noqa: B006
        lines: list[Line] | None = None,
        anything: Any = None,
    ) -> None: ...

    properties = schema_of(do)["properties"]
    assert list(properties) == ["weeks", "name", "speed", "limit", "tags", "lines", "anything"]
    lines = properties.pop("lines")
    null = {"type": "null"}
    assert properties == {
        "weeks": {"type": "integer", "minimum": 1, "description": "How long", "default": 2, "nullable": True},
        "name": {"anyOf": [{"type": "string"}, null], "default": "x", "nullable": True},
        "speed": {"anyOf": [{"type": "string", "enum": ["slow", "fast"]}, null], "default": "slow", "nullable": True},
        "limit": {"anyOf": [{"type": "number"}, null], "default": None, "nullable": True},
        "tags": {"type": "array", "items": {"type": "string"}, "default": [], "nullable": True},
        "anything": {"default": None, "nullable": True},
    }
    assert [lines["anyOf"][0]["type"], lines["anyOf"][1:], lines["nullable"]] == ["array", [null], True]
    for name in (*properties, "lines"):
        assert tool(do).input.bind({name: None}) == tool(do).input.bind({})


def test_a_default_with_a_secret_is_published_as_null_and_not_as_its_mask() -> None:
    pin_default, code_default = SecretStr("4711"), Secret(4711)

    class Login(BaseModel):
        pin: SecretStr = pin_default

    login_default, codes_default = Login(), {"a": code_default}

    def do(
        pin: SecretStr = pin_default,
        code: Secret[int] = code_default,
        login: Login = login_default,
        codes: dict[str, Secret[int]] = codes_default,
    ) -> None: ...

    properties = schema_of(do)["properties"]
    defaults = {name: property_schema["default"] for name, property_schema in properties.items()}
    assert "**" not in str(properties)
    assert tool(do).input.bind({**defaults, "login": {"pin": None}}) == tool(do).input.bind({})


def test_a_choice_of_texts_or_null_is_an_enumeration_of_texts() -> None:
    def do(kind: Literal["a", "b", None], mixed: Literal["a", 1], single: Literal["x"]) -> None: ...

    assert schema_of(do)["properties"] == {
        "kind": {"anyOf": [{"enum": ["a", "b"], "type": "string"}, {"type": "null"}]},
        "mixed": {"enum": ["a", 1]},
        "single": {"enum": ["x"], "type": "string"},
    }


def test_a_parameter_in_a_header_keeps_its_one_type() -> None:
    def do(zone: Annotated[str, Header("Zone")] = "a") -> None: ...

    assert schema_of(do)["properties"]["zone"] == {"type": "string", "x-mcp-header": "Zone", "default": "a"}
    assert mirrored(schema_of(do), "do") == {("zone",): "mcp-param-zone"}


def test_a_recursive_type_keeps_its_reference() -> None:
    def do(root: Node, line: Line) -> None: ...

    schema = schema_of(do)
    assert schema["properties"]["root"] == {"$ref": "#/$defs/Node"}
    assert schema["$defs"].keys() == {"Node"}
    assert "$ref" not in keywords(schema["properties"]["line"])
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid({"root": {"name": "a", "children": [{"name": "b"}]}, "line": {"sku": "x"}})


def test_a_schema_of_more_than_20_kb_keeps_its_references() -> None:
    level: Any = Line
    for number in range(12):  # 2 to the 12th lines, if they were written out
        level = create_model(f"Level{number}", left=(level, ...), right=(level, ...))

    def do(level: level, free: dict[str, Any]) -> None: ...

    schema = schema_of(do)
    assert schema["$defs"].keys() == {"Line", "Colour", *(f"Level{number}" for number in range(12))}
    assert json_size(schema) < MAX_INLINED_SCHEMA_BYTES
    assert not keywords(schema) & {"additionalProperties=True", "additionalProperties=False"}


def test_null_for_an_optional_field_counts_as_left_out() -> None:
    def plain(point: PlainPoint, weeks: int = 2, note: str | None = "x", anything: Any = 1) -> None: ...

    def full(
        point: Point, options: Options, lines: list[Line], how: Card | Cash, colour: Colour = Colour.RED, days: int = 3
    ) -> None: ...

    nulls = {"weeks": None, "note": None, "anything": None, "point": {"x": 1.0, "y": None}}
    assert tool(plain).input.bind(nulls) == {"point": PlainPoint(1.0), "weeks": 2, "note": None, "anything": None}
    bound = tool(full).input.bind(
        {
            "point": {"x": 1, "y": None, "labels": None},
            "options": {"verbose": None, "level": 1},
            "lines": [{"sku": "a", "amount": None, "colour": None}, {"sku": "b", "amount": 2}],
            "how": {"kind": "cash", "tendered": None},
            "colour": None,
            "days": None,
        }
    )
    assert bound == {
        "point": Point(1),
        "options": {"level": 1},
        "lines": [Line(sku="a"), Line(sku="b", amount=2)],
        "how": Cash(),
        "colour": Colour.RED,
        "days": 3,
    }
    assert tool(full).canonical({"colour": None, "days": None}) == {"colour": None, "days": None}  # it is incomplete
    assert tool(plain).canonical({"point": {"x": 1.0}, "weeks": None}) == {"point": {"x": 1.0}}
    assert tool(plain).canonical({"point": {"x": 1.0}, "note": None}) == {"point": {"x": 1.0}, "note": None}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"line": None}, "line"),
        ({"line": {"sku": None}}, "line.sku"),
        ({"line": {"sku": "x", "amount": None, "unknown": None}, "weeks": "many"}, "weeks"),
        ({"line": {"sku": "x"}, "point": {"x": 1, "labels": {"a": None}}}, "point.labels.a"),
        ({"line": {"sku": "x"}, "points": [None]}, "points.0"),
        ({"line": {"sku": "x"}, "unknown": None}, "unknown"),
    ],
)
def test_null_for_what_is_required_or_no_field_is_an_error(arguments: dict[str, Any], named: str) -> None:
    def do(line: Line, weeks: int = 2, point: Point | None = None, points: list[Point] = []) -> None: ...  # noqa: B006

    with pytest.raises(InvalidArguments) as error:
        tool(do).input.bind(arguments)
    assert any(item.field.startswith(named) for item in error.value.mismatch.invalid)
    assert not any("amount" in item.field for item in error.value.mismatch.invalid)
