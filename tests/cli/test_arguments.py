"""`key=value` on the command line as arguments (docs/commands.md, Run workflows and call tools)."""

from pathlib import Path
from typing import Any

import pytest

from mcp_baton.cli.remote.arguments import ArgumentError, GivenArgument, for_prompt, for_tool, parse_arguments

SCHEMA: dict[str, Any] = {
    "$defs": {"Size": {"type": "string", "enum": ["S", "M"]}, "Place": {"type": "object"}},
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "amount": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "count": {"type": "integer"},
        "urgent": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "place": {"$ref": "#/$defs/Place"},
        "size": {"$ref": "#/$defs/Size"},
        "level": {"enum": [1, 2]},
        "shape": {"anyOf": [{"$ref": "#/$defs/Size"}, {"const": "round"}, {"type": "null"}]},
        "name": {"anyOf": [{"$ref": "#/$defs/Size"}, {"type": "string"}]},
        "any": {},
    },
}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("text=30", "30"),
        ("text=", ""),
        ("text=a=b", "a=b"),
        ('text:="quoted"', "quoted"),
        ("maybe=null", "null"),
        ("maybe:=null", None),
        ("amount=30", 30),
        ("amount=30.0", 30.0),
        ("amount=null", None),
        ("count=7", 7),
        ("urgent=true", True),
        ('tags=["a", "b"]', ["a", "b"]),
        ('place={"x": 1}', {"x": 1}),
        ("size=M", "M"),
        ("level=2", 2),
        ("shape=round", "round"),
        ("shape=null", None),
        ("name=XL", "XL"),
        ("any=1", "1"),
        ("count:=7.5", 7.5),
    ],
)
def test_a_text_is_converted_by_the_tools_schema(word: str, value: object) -> None:
    [converted] = for_tool(parse_arguments([word]), SCHEMA).values()
    assert (converted, type(converted)) == (value, type(value))


def test_the_text_of_a_file_is_converted_like_a_text(tmp_path: Path) -> None:
    (tmp_path / "place.json").write_text('{"x": "é"}', encoding="utf-8")
    assert for_tool(parse_arguments([f"place=@{tmp_path / 'place.json'}"]), SCHEMA) == {"place": {"x": "é"}}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["text"], "'text' is not an argument: write key=value, key:=JSON or key=@FILE"),
        (["=1"], "'=1' is not an argument"),
        (["text=1", "text:=2"], "the argument 'text' occurs twice"),
        (["text=@no/such/file"], "text=@no/such/file: the file cannot be read: No such file or directory"),
        (["amount=ten"], "amount=ten: 'ten' is not a value of type number or null"),
        (["count=7.5"], "count=7.5: '7.5' is not a value of type integer"),
        (["count=true"], "'true' is not a value of type integer"),
        (["urgent=yes"], "'yes' is not a value of type boolean"),
        (["tags=a"], "'a' is not a value of type array"),
        (["size=XL"], "size=XL: 'XL' is not one of S, M"),
        (["level=3"], "level=3: '3' is not one of 1, 2"),
        (["shape=oval"], "shape=oval: 'oval' is not one of S, M, round"),
        (["count:=seven"], "count:=seven is not JSON"),
        (["count:=" + "[" * 65 + "]" * 65], "is not JSON: nested deeper than 64 levels"),
        (["tags=" + "[" * 100_000], "is not a value of type array"),
        (["amuont=1"], "there is no argument 'amuont': did you mean 'amount'?"),
        (["zzz=1"], "there is no argument 'zzz': known are text, maybe, amount"),
    ],
)
def test_an_invalid_argument_is_named_with_the_remedy(words: list[str], complaint: str) -> None:
    with pytest.raises(ArgumentError) as error_info:
        for_tool(parse_arguments(words), SCHEMA)
    assert complaint in str(error_info.value)


def test_a_tool_without_properties_accepts_any_name() -> None:
    assert for_tool([GivenArgument("new", "1")], {"properties": {"a": {}}, "additionalProperties": True}) == {
        "new": "1"
    }
    assert for_tool([GivenArgument("new", "1")], {"type": "object"}) == {"new": "1"}


def test_the_arguments_of_a_prompt_are_strings() -> None:
    declared = [{"name": "a"}, {"name": "b"}, {"name": "c"}]
    assert for_prompt(parse_arguments(["a=1", "b:=[1, 2]", 'c:="x"']), declared) == {"a": "1", "b": "[1, 2]", "c": "x"}
    with pytest.raises(ArgumentError, match="there is no argument 'd'"):
        for_prompt(parse_arguments(["d=1"]), declared)
    with pytest.raises(ArgumentError, match="call it with `baton call`"):
        for_prompt(parse_arguments(['answers:={"size": "s"}']), declared)
