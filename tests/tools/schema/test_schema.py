"""Schemas made from signatures, and the validation of values."""

import datetime
import enum
import inspect
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, NotRequired, Optional, TypedDict
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from mcp_baton import Context, EmbeddedResource, Header, Image, RegistrationError
from mcp_baton.exceptions import WrongResult
from mcp_baton.protocol.json import MAX_LEVELS, to_json
from mcp_baton.tools.labels import Labels
from mcp_baton.tools.outcomes import Mismatch
from mcp_baton.tools.schema.schema import InvalidArguments, OutputSchema
from mcp_baton.tools.tool import Tool


class Line(BaseModel):
    """One line of an order."""

    sku: str
    total: float = 0.0


class Tree(BaseModel):
    name: str = "root"
    children: "list[Tree]" = []


@dataclass
class Address:
    street: str
    lines: list[Line]


class Order(TypedDict):
    id: str
    note: NotRequired[str]


class Colour(enum.Enum):
    RED = "red"


LINE = {"sku": "x", "total": 0.0}


def tool(function: Callable[..., object]) -> Tool:
    return Tool(function, "do", Labels())


def mismatch_of(function: Callable[..., object], arguments: dict[str, Any]) -> Mismatch:
    with pytest.raises(InvalidArguments) as error_info:
        tool(function).input.bind(arguments)
    return error_info.value.mismatch


def awkward(
    schema: int,
    copy: int,
    json: int,
    self: int,
    validate: int,
    model_config: int,
    class_: int,
    _private: int,
    function: int,
    arguments: int,
) -> int:
    return sum((schema, copy, json, self, validate, model_config, class_, _private, function, arguments))


def test_parameters_may_have_names_that_frameworks_use() -> None:
    names = list(inspect.signature(awkward).parameters)
    subject = tool(awkward)

    assert list(subject.input.json_schema["properties"]) == names
    # "1" is not a plain integer, so pydantic converts it.
    for value in (1, "1"):
        bound = subject.input.bind(dict.fromkeys(names, value))
        assert awkward(**bound) == len(names)


def test_a_default_in_an_annotation_makes_an_argument_optional() -> None:
    def do(
        count: Annotated[int, Field(default=5)], size: Annotated[int, Field(ge=1)], least: int = Field(ge=1)
    ) -> None: ...

    assert tool(do).signature.required == {"size", "least"}
    assert tool(do).input.bind({"size": 1, "least": 1}) == {"count": 5, "size": 1, "least": 1}


@pytest.mark.parametrize(
    "kind",
    [
        Annotated[int, "How many"],
        Annotated[int, "How many", Field(ge=1)],
        Annotated[int, Field(ge=1), "How many"],
        Annotated[int, "How many", Header("Count")],
        Annotated[int, "Not this", Field(description="How many")],
    ],
)
def test_a_text_describes_a_parameter_whatever_else_annotates_it(kind: Any) -> None:
    def do(count: int) -> None: ...

    do.__annotations__["count"] = kind

    assert tool(do).input.json_schema["properties"]["count"]["description"] == "How many"


def plain(ctx: Context, a: int) -> None: ...
def union(a: int, ctx: Context | None) -> None: ...
def optional(a: int, ctx: Optional[Context] = None) -> None: ...  # noqa: UP045 - tests the old spelling
def annotated(a: int, ctx: Annotated[Context, "the request"]) -> None: ...
def annotated_union(a: int, ctx: Annotated[Context | None, "the request"] = None) -> None: ...
def quoted(a: int, *, ctx: "Context") -> None: ...


@pytest.mark.parametrize("function", [plain, union, optional, annotated, annotated_union, quoted])
def test_a_context_is_injected_and_absent_from_the_schema(function: Callable[..., object]) -> None:
    subject = tool(function)

    assert subject.signature.context == "ctx"
    assert list(subject.input.json_schema["properties"]) == ["a"]
    assert mismatch_of(function, {"a": 1, "ctx": {}}).invalid[0].field == "ctx"


def test_a_list_of_contexts_is_refused() -> None:
    def do(contexts: list[Context]) -> None: ...

    with pytest.raises(RegistrationError, match="the parameter 'contexts' has the type Context"):
        tool(do)


def typed(order: str, amount: float, line: Line, flag: bool = False) -> None: ...


@pytest.mark.parametrize(
    ("arguments", "missing", "invalid"),
    [
        pytest.param({}, ["order", "amount", "line"], [], id="nothing"),
        pytest.param({"order": "a", "line": {"sku": "x"}}, ["amount"], [], id="one missing"),
        pytest.param({"order": "a", "amount": "much", "line": {"sku": "x"}}, [], ["amount"], id="no number"),
        pytest.param({"order": 5, "amount": 1, "line": {"sku": "x"}}, [], ["order"], id="no string"),
        pytest.param({"order": None, "amount": 1, "line": {"sku": "x"}}, [], ["order"], id="null"),
        pytest.param({"order": "a", "amount": 1, "line": {}}, [], ["line.sku"], id="missing inside"),
        pytest.param({"order": "a", "amount": 1, "line": {"sku": "x"}, "typo": 1}, [], ["typo"], id="unknown"),
        pytest.param({"amount": "x", "line": 5, "flag": "?"}, ["order"], ["amount", "line", "flag"], id="all at once"),
    ],
)
def test_all_invalid_arguments_are_named(arguments: dict[str, Any], missing: list[str], invalid: list[str]) -> None:
    mismatch = mismatch_of(typed, arguments)

    assert sorted(mismatch.missing) == sorted(missing)
    assert sorted(item.field for item in mismatch.invalid) == sorted(invalid)
    assert all(item.problem for item in mismatch.invalid)


@pytest.mark.parametrize(
    ("annotation", "value", "converted"),
    [
        (datetime.datetime, "2026-11-21T09:30:00Z", datetime.datetime(2026, 11, 21, 9, 30, tzinfo=datetime.UTC)),
        (UUID, "12345678-1234-5678-1234-567812345678", UUID("12345678-1234-5678-1234-567812345678")),
        (Decimal, "1.10", Decimal("1.10")),
        (Colour, "red", Colour.RED),
        (Line, {"sku": "x"}, Line(sku="x")),
        (Address, {"street": "s", "lines": [{"sku": "y"}]}, Address("s", [Line(sku="y")])),
    ],
)
def test_arguments_are_converted_to_their_types(annotation: Any, value: Any, converted: object) -> None:
    def do(a: Any) -> None: ...

    do.__annotations__["a"] = annotation
    assert tool(do).input.bind({"a": value}) == {"a": converted}


def test_many_errors_are_summarised() -> None:
    def do(numbers: dict[str, int]) -> None: ...

    assert len(mismatch_of(do, {"numbers": {str(number): "x" for number in range(5_000)}}).invalid) < 100


def test_an_exception_in_a_validator_is_raised() -> None:
    def broken(value: int) -> int:
        raise ZeroDivisionError("by hand")

    def do(value: Annotated[int, AfterValidator(broken)]) -> None: ...

    with pytest.raises(ZeroDivisionError):
        tool(do).input.bind({"value": 1})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def tool_returning(annotation: Any) -> Tool:
    def do() -> Any: ...

    do.__annotations__["return"] = annotation
    return tool(do)


@pytest.mark.parametrize(
    ("annotation", "output", "value"),
    [
        pytest.param(dict, {"a": 1}, {"a": 1}, id="dict"),
        pytest.param(dict[str, int], {"a": 1}, {"a": 1}, id="dict of"),
        pytest.param(Line, Line(sku="x"), LINE, id="model"),
        pytest.param(Order, {"id": "a"}, {"id": "a"}, id="typed dict"),
        pytest.param(Address, Address("s", [Line(sku="x")]), {"street": "s", "lines": [LINE]}, id="dataclass"),
        pytest.param(
            Tree,
            Tree(children=[Tree()]),
            {"name": "root", "children": [{"name": "root", "children": []}]},
            id="recursive model",
        ),
        pytest.param(str, "x", "x", id="str"),
        pytest.param(int, 2**60 + 1, 2**60 + 1, id="big int"),
        pytest.param(float, math.nan, None, id="NaN"),
        pytest.param(dict[str, float], {"a": math.inf}, {"a": None}, id="infinity in a map"),
        pytest.param(
            Address,
            Address("s", [Line(sku="x", total=math.nan)]),
            {"street": "s", "lines": [{**LINE, "total": None}]},
            id="NaN in a model",
        ),
        pytest.param(list[Line], [Line(sku="x")], [LINE], id="list of models"),
        pytest.param(tuple[int, str], (1, "a"), [1, "a"], id="tuple"),
        pytest.param(Line | None, None, None, id="optional"),
        pytest.param(datetime.date, datetime.date(2026, 1, 2), "2026-01-02", id="date"),
    ],
)
def test_a_value_is_dumped_and_wrapped_unless_it_is_an_object(annotation: Any, output: object, value: Any) -> None:
    subject = tool_returning(annotation)
    assert subject.output is not None

    outcome = subject.outcome(output)
    result = subject.result(outcome)

    assert repr(outcome.value) == repr(value)
    assert result["structuredContent"] == (value if isinstance(value, dict) else {"result": value})
    published_schema: Any = subject.definition["outputSchema"]
    assert Draft202012Validator(published_schema).is_valid(result["structuredContent"])
    assert subject.output.json_schema["type"] == "object"
    assert "title" not in subject.output.json_schema
    assert "properties" in subject.output.json_schema or annotation in (dict, dict[str, int], dict[str, float])


def test_definitions_are_at_the_root_of_an_output_schema_without_titles() -> None:
    list_output, tree_output = tool_returning(list[Line]).output, tool_returning(Tree).output
    assert list_output is not None
    assert tree_output is not None

    assert list_output.json_schema["properties"] == {"result": {"type": "array", "items": {"$ref": "#/$defs/Line"}}}
    assert "title" not in list_output.json_schema["$defs"]["Line"]
    assert tree_output.json_schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert "Tree" in tree_output.json_schema["$defs"]


@pytest.mark.parametrize(
    ("annotation", "return_value"),
    [(int, "many"), (dict, None), (dict, [1]), (Line, {"total": 1.0}), (Order, {}), (str, b"\xff"), (list[int], ["x"])],
)
def test_a_value_of_another_type_is_refused(annotation: Any, return_value: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        tool_returning(annotation).outcome(return_value)


@pytest.mark.parametrize(
    ("value", "json_value"),
    [
        ((1, (2,)), [1, [2]]),
        ({"a": math.nan, "b": [math.inf, -math.inf]}, {"a": None, "b": [None, None]}),
        (Line(sku="x", total=math.nan), {"sku": "x", "total": None}),
        ({"n": 2**200, "f": 30.0, "t": True}, {"n": 2**200, "f": 30.0, "t": True}),
        ({1: "a", None: "b"}, {"1": "a", "null": "b"}),
        ({1}, [1]),
        (Colour.RED, "red"),
        (Decimal("1.10"), "1.10"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Address("s", []), {"street": "s", "lines": []}),
        ([Address("s", [Line(sku="x")])], [{"street": "s", "lines": [{"sku": "x", "total": 0.0}]}]),
        (b"text", "text"),
        ("\ud800", "\ud800"),
    ],
)
def test_any_value_becomes_json(value: object, json_value: Any) -> None:
    assert repr(to_json(value)) == repr(json_value)


@pytest.mark.parametrize("returns", [object, Any, dict, dict[str, Any], list[Any]])
def test_a_key_may_have_a_lone_surrogate(returns: Any) -> None:
    value: Any = {"a": {"b\ud800": datetime.date(2026, 1, 2)}}
    value = [value] if returns == list[Any] else value

    assert OutputSchema("f", returns).value(value) == json.loads(json.dumps(value, default=str))


def failing() -> Iterator[int]:
    yield 1
    raise RuntimeError("half way")


def circular() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def nested(levels: int) -> object:
    value: object = None
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [object(), {"a": object()}, {(1, 2): 3}, b"\xff", failing(), circular(), nested(MAX_LEVELS + 1), nested(100_000)],
)
def test_a_value_that_is_not_json_raises_a_value_error(value: object) -> None:
    with pytest.raises(ValueError, match="the value is"):
        to_json(value)
    assert to_json(nested(MAX_LEVELS)) == nested(MAX_LEVELS)  # the deepest value that can be bound again


@given(JSON)
def test_json_stays_equal_and_is_copied(value: Any) -> None:
    json_value = to_json(value)

    assert repr(json_value) == repr(value)
    assert json.dumps(json_value) == json.dumps(value)
    assert json_value is not value or not isinstance(value, list | dict)


@dataclass
class Point:
    x: float


@pytest.mark.parametrize(
    ("kind", "text", "hint"),
    [
        (list[str], '["a"]', "send a list itself"),
        (list[Line] | None, ' [{"sku": "x"}]', "send a list itself"),
        (tuple[int, int], "[1, 2]", "send a list itself"),
        (set[int], "[1]", "send a list itself"),
        (Line, '{"sku": "x"}', "send an object itself"),
        (Point, '{"x": 1}', "send an object itself"),
        (Order, '{"id": "1"}', "send an object itself"),
        (dict[str, int], '{"a": 1}', "send an object itself"),
        (dict, "{}", "send an object itself"),
    ],
)
def test_json_text_in_place_of_a_list_or_an_object_is_an_error_that_says_so(kind: Any, text: str, hint: str) -> None:
    def plain(value: kind) -> None: ...

    def nested(value: dict[str, kind]) -> None: ...

    for function, value, field in ((plain, text, "value"), (nested, {"a": text}, "value.a")):
        with pytest.raises(InvalidArguments, match=rf"^{field}.*It is JSON text: {hint}, without quotation marks"):
            tool(function).input.bind({"value": value})
    with pytest.raises(InvalidArguments) as error_info:
        tool(plain).input.bind({"value": "a, b"})
    assert "JSON text" not in str(error_info.value)


@pytest.mark.parametrize(
    ("kind", "items"),
    [
        (tuple[str, str], {"type": "string"}),
        (tuple[str, int, str], {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        (tuple[int, ...], {"type": "integer"}),
        (tuple[()], {}),
    ],
)
def test_the_schema_of_a_tuple_has_items_for_hosts_that_need_them(kind: Any, items: dict[str, Any]) -> None:
    def function(value: kind) -> kind:
        return value

    definition: Any = tool(function).definition
    assert definition["inputSchema"]["properties"]["value"]["items"] == items
    assert definition["outputSchema"]["properties"]["result"]["items"] == items


class ByName(BaseModel):
    model_config = ConfigDict(serialize_by_alias=False)
    ident: str = Field(alias="_id")


class ByAlias(BaseModel):
    model_config = ConfigDict(serialize_by_alias=True)
    ident: str = Field(alias="_id")
    inner: ByName


class Unset(BaseModel):
    ident: str = Field(alias="_id")


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (ByName, ByName(_id="7"), {"ident": "7"}),
        (list[ByName], [ByName(_id="7")], [{"ident": "7"}]),
        (ByAlias, ByAlias(_id="7", inner=ByName(_id="8")), {"_id": "7", "inner": {"ident": "8"}}),
        (Unset, Unset(_id="7"), {"_id": "7"}),
        (Any, ByName(_id="7"), {"ident": "7"}),
        (Any, [Unset(_id="7")], [{"_id": "7"}]),
    ],
)
def test_a_model_decides_whether_results_and_schema_have_aliases(kind: Any, value: Any, expected: Any) -> None:
    def function() -> kind: ...

    item = tool(function)
    outcome = item.outcome(value)
    assert outcome.value == expected
    if item.output is not None:
        Draft202012Validator(item.output.json_schema).validate(item.result(outcome)["structuredContent"])
        text = str(item.output.json_schema)
        assert [name in text for name in ("ident", "_id")] == [name in str(expected) for name in ("ident", "_id")]


LETTERS = frozenset("abcdefghij")


class Lettered(BaseModel):
    letters: Any = Field(default=LETTERS, serialization_alias="Letters")
    pairs: list[set[frozenset[str]]] = [{frozenset("ab"), frozenset("cd")}]
    written: Annotated[list[str], Field(json_schema_extra={"uniqueItems": True})] = ["b", "a"]


class Open(BaseModel, extra="allow"): ...


@pytest.mark.parametrize(
    "kind", [inspect.Parameter.empty, Any, dict, dict[str, Any], dict[str, Lettered | set[str]], Open]
)
def test_sets_are_sorted_because_their_order_differs_in_each_process(kind: Any) -> None:
    def function() -> kind: ...

    value = {"set": set(LETTERS), "model": Lettered()}
    outcome = tool(function).outcome(Open(**value) if kind is Open else value)
    model = {"Letters": [*"abcdefghij"], "pairs": [[["a", "b"], ["c", "d"]]], "written": ["b", "a"]}
    assert outcome.value == {"set": [*"abcdefghij"], "model": model}


@pytest.mark.parametrize("content", [Image("iVBORw0KGgo="), EmbeddedResource("docs://one", None)])  # type: ignore[arg-type]
def test_content_whose_data_is_not_bytes_is_an_error_that_says_so(content: object) -> None:
    with pytest.raises(WrongResult, match=r"the tool 'do' .* returned .*: its data is a .*, and not bytes"):
        tool(lambda: None).outcome(content)


@pytest.mark.parametrize("kind", [bytes, Any, dict[str, bytes]])
def test_bytes_that_are_not_utf_8_are_an_error_with_the_remedy(kind: Any) -> None:
    def function() -> kind: ...

    value = {"a": b"\xff"} if kind == dict[str, bytes] else b"\xff"
    with pytest.raises(WrongResult, match="bytes that are not text in UTF-8; return Image, Audio or EmbeddedResource"):
        tool(function).outcome(value)
