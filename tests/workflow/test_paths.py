"""Whether a path can exist in the published schemas of real types."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, WithJsonSchema, computed_field

from mcp_baton.tools.schema.schema import OutputSchema
from mcp_baton.workflow.schema_paths import InvalidPath, Schema, invalid_path


@dataclass(frozen=True)
class Line:
    total: float
    note: str | None = None


@dataclass(frozen=True)
class Plain:
    lines: list[Line]
    first: Line | None
    by_sku: dict[str, Line]
    anything: Any
    options: dict[str, Any]


class Kind(StrEnum):
    BOOK = "book"


class Tree(BaseModel):
    name: str = Field(serialization_alias="title")
    children: list["Tree"] = []
    pair: tuple[int, Line] = (1, Line(1.0))
    kind: Kind = Kind.BOOK
    either: Line | list[int] = []

    @computed_field
    def size(self) -> int:
        return 1


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int


class Typed(TypedDict):
    a: int
    b: NotRequired[int]


class Empty(BaseModel):
    pass


Untold = Annotated[Any, WithJsonSchema({"type": "object"})]
Several = Annotated[Any, WithJsonSchema({"type": ["object", "null"], "properties": {"a": {"type": "integer"}}})]


def invalid_path_in(returns: Any, path: str) -> InvalidPath | None:
    return invalid_path(OutputSchema("t", returns).value_schema, path)


@pytest.mark.parametrize(
    ("returns", "path"),
    [
        (Plain, "lines.0.total"),
        (Plain, "first.note"),
        (Plain, "by_sku.abc.total"),
        (Plain, "by_sku.0.total"),
        (Plain, "anything.at.all.0"),
        (Plain, "options.x.y"),
        (list[Plain], "3.lines.12.total"),
        (dict[str, Any], "a.b"),
        (list, "0.a"),
        (list[Any], "0.a.b"),
        (Tree, "title"),
        (Tree, "size"),
        (Tree, "children.0.children.1.title"),
        (Tree, "pair.1.total"),
        (Tree, "either.total"),
        (Tree, "either.0"),
        (Open, "b.c"),
        (Closed, "a"),
        (Typed, "b"),
        (RootModel[list[Line]], "0.total"),
        (Untold, "a"),
        (Several, "a"),
        (Annotated[Line, "a note"], "total"),
    ],
)
def test_a_path_that_can_exist_is_accepted(returns: Any, path: str) -> None:
    assert invalid_path_in(returns, path) is None


@pytest.mark.parametrize(
    ("returns", "path", "up_to"),
    [
        (Plain, "line", "line"),
        (Plain, "lines.total", "lines.total"),
        (Plain, "lines.-1.total", "lines.-1"),
        (Plain, "lines.0.totl", "lines.0.totl"),
        (Plain, "lines.0.total.cents", "lines.0.total.cents"),
        (Plain, "lines.1234567890", "lines.1234567890"),
        (Plain, "first.note.x", "first.note.x"),
        (Plain, "by_sku.abc.x", "by_sku.abc.x"),
        (list[Plain], "lines", "lines"),
        (Tree, "name", "name"),
        (Tree, "children.0.name", "children.0.name"),
        (Tree, "pair.2", "pair.2"),
        (Tree, "pair.0.x", "pair.0.x"),
        (Tree, "kind.x", "kind.x"),
        (Tree, "either.x", "either.x"),
        (Closed, "b", "b"),
        (Typed, "c", "c"),
        (Empty, "a", "a"),
        (Several, "b", "b"),
        (RootModel[list[Line]], "root", "root"),
        (str, "x", "x"),
        (Literal["a"], "x", "x"),
    ],
)
def test_a_path_that_cannot_exist_is_shown_up_to_the_wrong_key(returns: Any, path: str, up_to: str) -> None:
    invalid = invalid_path_in(returns, path)

    assert invalid is not None
    assert invalid.path == up_to
    assert ".".join((invalid.path, *invalid.remaining_keys)) == path


def test_the_possible_paths_are_listed() -> None:
    invalid = invalid_path_in(Plain, "lines.0.totl.x")

    assert invalid == InvalidPath("lines.0.totl", ("lines.0.total", "lines.0.note"), ("x",))


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/Nothing"},
        {"$ref": "https://example.com/schema"},
        {"allOf": [{"type": "object", "properties": {}}]},
        {"type": "object", "properties": {}, "patternProperties": {"^x": {}}},
        {"type": "object", "properties": {"a": True}},
    ],
    ids=str,
)
def test_parts_without_a_schema_may_have_any_path(schema: Schema) -> None:
    assert invalid_path(schema, "a") is None


def test_a_schema_that_only_refers_to_itself_has_no_fields() -> None:
    schema = {"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}]}}}

    assert invalid_path(schema, "a") == InvalidPath("a", (), ())
