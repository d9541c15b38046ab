"""`x-mcp-header`: valid marks in a tool's schema, and the headers that a call must have."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel

from mcp_baton import Header, RegistrationError, Server
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tools.labels import Labels
from mcp_baton.tools.param_headers import header_mismatch, mirrored
from mcp_baton.tools.tool import Tool

REGION: dict[tuple[str, ...], str] = {("region",): "mcp-param-region"}


def schema_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def text(name: object) -> dict[str, Any]:
    return {"type": "string", "x-mcp-header": name}


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("us-west1", "us-west1"),
        ("", ""),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("us-west1", "=?base64?dXMtd2VzdDE=?="),
        (42, "42"),
        (42, "42.0"),
        (-7, "-7"),
        (2**53 - 1, "9007199254740991"),
        (0, "0"),
        (True, "true"),
        (False, "false"),
    ],
)
def test_a_header_that_equals_the_body_is_accepted(value: str | int, header: str) -> None:
    assert header_mismatch(REGION, {"region": value}, {"mcp-param-region": header}) is None


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("us-west1", "us-west2"),
        ("us-west1", "US-WEST1"),
        ("us-west1", ""),
        ("世", "世"),
        ("a\x7f", "a\x7f"),
        ("world", "=?base64?d29ybGQ?="),
        ("world", "=?base64?w29ybGQ=?="),
        ("world", "=?base64?!!!!?="),
        ("world", "=?BASE64?d29ybGQ=?="),
        ("=?base64?literal?=", "=?base64?literal?="),
        (42, "43"),
        (42, "forty-two"),
        (42, "nan"),
        (10, "1_0"),
        (10, ""),
        (2**53 + 1, "9007199254740992"),
        (True, "True"),
        (True, "1"),
        (1, "true"),
        (False, ""),
        (["a"], "a"),
        ({"a": 1}, "a"),
    ],
    ids=repr,
)
def test_a_header_that_differs_from_the_body_is_a_mismatch(value: Any, header: str) -> None:
    mismatch = header_mismatch(REGION, {"region": value}, {"mcp-param-region": header})

    assert mismatch is not None
    assert "mcp-param-region" in mismatch


NESTED: dict[tuple[str, ...], str] = {("where", "region"): "mcp-param-region"}
HEADER = {"mcp-param-region": "x"}


@pytest.mark.parametrize(
    ("mirrored_parameters", "arguments", "headers", "is_match"),
    [
        pytest.param(REGION, {}, {}, True, id="neither"),
        pytest.param(REGION, {}, HEADER, False, id="a header without a value"),
        pytest.param(REGION, {"region": None}, {}, True, id="null has no header"),
        pytest.param(REGION, {"region": None}, HEADER, False, id="a header of null"),
        pytest.param(REGION, {"region": "x"}, {"mcp-param-other": "x"}, False, id="a value without its header"),
        pytest.param({}, {"region": "y"}, HEADER, True, id="a header of no parameter"),
        pytest.param(NESTED, {"where": {"region": "x"}}, HEADER, True, id="a nested value"),
        pytest.param(NESTED, {"region": "x"}, {}, True, id="not at its path"),
        pytest.param(NESTED, {"where": "x"}, {}, True, id="its path ends early"),
        pytest.param(NESTED, {"where": "x"}, HEADER, False, id="its path ends early, with a header"),
    ],
)
def test_a_value_and_its_header_must_occur_together(
    mirrored_parameters: dict[tuple[str, ...], str], arguments: JsonObject, headers: dict[str, str], is_match: bool
) -> None:
    assert (header_mismatch(mirrored_parameters, arguments, headers) is None) is is_match


def test_marks_are_found_at_any_depth_of_properties() -> None:
    inner = {"type": "object", "properties": {"zone": text("Zone")}}

    assert mirrored(schema_of(region=text("Region"), plain={"type": "string"}, where=inner), "tool") == {
        ("region",): "mcp-param-region",
        ("where", "zone"): "mcp-param-zone",
    }


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\nb", "é", "a\x00", "a(b)", 5, None, ["a"], True])
def test_a_name_that_is_not_valid_in_a_header_is_refused(name: object) -> None:
    with pytest.raises(RegistrationError, match="'region'"):
        mirrored(schema_of(region=text(name)), "tool 't'")


@pytest.mark.parametrize("kind", ["number", "object", "array", "null", None, ["string", "null"]], ids=repr)
def test_only_strings_integers_and_booleans_can_be_mirrored(kind: object) -> None:
    with pytest.raises(RegistrationError, match="string, an integer or a boolean"):
        mirrored(schema_of(region={"type": kind, "x-mcp-header": "Region"}), "tool 't'")


def test_two_parameters_cannot_share_a_header_in_any_case() -> None:
    with pytest.raises(RegistrationError, match="another parameter"):
        mirrored(schema_of(a=text("Region"), b=text("REGION")), "tool 't'")


@pytest.mark.parametrize(
    "node",
    [
        {"type": "array", "items": text("Region")},
        {"anyOf": [text("Region"), {"type": "null"}]},
        {"oneOf": [text("Region")]},
        {"allOf": [text("Region")]},
        {"not": text("Region")},
        {"type": "object", "additionalProperties": text("Region")},
        {"if": text("Region"), "then": {}},
        {"type": "array", "items": {"type": "object", "properties": {"a": text("Region")}}},
        {"$ref": "#/$defs/Where"},
    ],
    ids=lambda node: next(key for key in node if key != "type"),
)
def test_a_mark_outside_a_chain_of_properties_is_refused(node: dict[str, Any]) -> None:
    definitions = {"$defs": {"Where": schema_of(region=text("Region"))}} if "$ref" in node else {}
    with pytest.raises(RegistrationError, match="x-mcp-header"):
        mirrored({**schema_of(deep=node), **definitions}, "tool 't'")


def test_a_property_named_like_a_mark_is_not_a_mark() -> None:
    data = {"x-mcp-header": "a b"}
    property_of_that_name = {"type": "string"}

    assert mirrored(schema_of(a={"type": "object", "default": data, "examples": [data], "const": data}), "t") == {}
    assert mirrored({"properties": {"x-mcp-header": property_of_that_name}}, "t") == {}


def test_an_annotated_parameter_is_marked_in_the_published_schema() -> None:
    def run(
        region: Annotated[str, Header("Region")],
        size: Annotated[Literal["s", "m"], Header("Size")],
        count: Annotated[int, Header("Count")] = 1,
        dry: Annotated[bool, Header("Dry-Run")] = False,
    ) -> None: ...

    tool = Tool(run, "run", Labels())

    properties: Any = tool.input_schema["properties"]
    assert properties["region"] == {"type": "string", "x-mcp-header": "Region"}
    assert tool.mirrored == {
        **REGION,
        ("size",): "mcp-param-size",
        ("count",): "mcp-param-count",
        ("dry",): "mcp-param-dry-run",
    }


class Where(BaseModel):
    region: Annotated[str, Header("Region")]


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[float, Header("Region")],
        Annotated[str | None, Header("Region")],
        Annotated[str, Header("Region")] | None,
        Annotated[str, Header("a b")],
        Annotated[list[str], Header("Region")],
        list[Annotated[str, Header("Region")]],
        dict[str, Annotated[str, Header("Region")]],
        Where,
        list[Where],
    ],
    ids=str,
)
def test_a_tool_that_clients_would_drop_is_refused_at_registration(annotation: Any) -> None:
    def run(where: Any) -> None: ...

    run.__annotations__["where"] = annotation
    with pytest.raises(RegistrationError, match="'run'"):
        Server("s").tool(run)


def test_a_given_schema_is_checked_too() -> None:
    def run(region: str) -> None: ...

    with pytest.raises(RegistrationError, match="'region'"):
        Server("s").tool(input_schema=schema_of(region=text("a b")))(run)

    server = Server("s")
    server.tool(input_schema=schema_of(region=text("Region")))(run)
    assert server.tools["run"].mirrored == REGION
