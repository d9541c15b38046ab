"""Plain types: Baton handles them without pydantic, with the same results. All other types are left to pydantic."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from types import GenericAlias
from typing import Annotated, Any, ClassVar, Generic, Literal, Optional, TypeVar, get_args, get_origin, get_type_hints

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ConfigDict, Field, field_serializer
from pydantic.dataclasses import dataclass as pydantic_dataclass

from mcp_baton.tools.labels import Labels
from mcp_baton.tools.schema.plain import plain_arguments_schema, plain_parameters, plain_type, plain_value_schema
from mcp_baton.tools.schema.schema import InvalidArguments
from mcp_baton.tools.schema.signature import read_signature
from mcp_baton.tools.tool import Tool

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row:
    """The revenue of one product.

    In EUR.
    """

    product: str
    revenue: float = 0
    tags: list[str] = field(default_factory=list)
    note: str | None = None


@dataclass
class Undocumented:
    count: int
    is_final: bool = False


@dataclass
class Derived(Undocumented):
    """Adds a field, and changes the type of another."""

    count: Any
    kind: Literal["a", "b"] = "a"


@dataclass(kw_only=True)
class Named:
    """Has only keyword arguments."""

    first: int | None = None
    second: dict[str, float]


@dataclass
class Figures:
    """A dataclass with nested rows."""

    best: Row
    rejected: list[Row]
    by_month: dict[str, Undocumented | None]


def takes(annotation: Any, default: Any = ...) -> Callable[..., Any]:
    def do(a: Any) -> Any:
        return a

    def do_with_default(a: Any = default) -> Any:
        return a

    function = do if default is ... else do_with_default
    function.__annotations__ = {"a": annotation, "return": annotation}
    return function


def by_pydantic(function: Callable[..., Any]) -> Tool:
    tool = Tool(function, "t", Labels())
    for schema in (tool.input, tool.output):
        if schema is not None:
            schema.__dict__["_plain"] = None
    return tool


SCALARS: list[Any] = [str, int, float, bool]
BARE: list[Any] = [*SCALARS, dict, list, Any, Literal["a"], Literal["a", "b"]]
PARTS = [*BARE, Row, Undocumented, Derived, Named, Figures, list[Any], dict[str, Any]]


def nest(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    optional = inner.filter(lambda part: part is not Any)
    return st.one_of(
        inner.map(lambda part: GenericAlias(list, part)),
        inner.map(lambda part: GenericAlias(dict, (str, part))),
        optional.map(lambda part: Optional[part]),  # noqa: UP045 - `|` does not work for every part
    )


ANNOTATIONS = st.recursive(st.sampled_from(PARTS), nest, max_leaves=4)


@given(ANNOTATIONS)
def test_a_plain_type_has_exactly_the_schemas_of_pydantic(annotation: Any) -> None:
    function = takes(annotation)

    assert plain_type(annotation) is not None
    assert json.dumps(Tool(function, "t", Labels()).definition) == json.dumps(by_pydantic(function).definition)


def defaults(a: int, b: Row, c: Row | None = None, d: float | None = None, e: str = "ü", f: float = 1) -> list[Figures]:
    return [Figures(b, [c] if c else [], {}) for _ in (a, d, e, f)]


def no_parameters() -> bool:
    return True


def null_first(a: None | str, b: bool = True) -> None | Row:  # noqa: RUF036 - the order is under test
    return Row(a or "") if b else None


@pytest.mark.parametrize("function", [defaults, no_parameters, null_first], ids=lambda function: function.__name__)
def test_arguments_with_defaults_have_the_schema_of_pydantic(function: Callable[..., object]) -> None:
    assert plain_parameters(read_signature(function, "t").parameters) is not None
    assert json.dumps(Tool(function, "t", Labels()).definition) == json.dumps(by_pydantic(function).definition)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
ROWS = st.fixed_dictionaries(
    {"product": st.text(max_size=3)},
    optional={
        "revenue": st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.just("7"),
        "tags": st.lists(st.text(max_size=2), max_size=2),
        "note": st.none() | st.text(max_size=2),
        "typo": st.none(),
    },
)
FIGURES = st.fixed_dictionaries(
    {
        "best": ROWS,
        "rejected": st.lists(ROWS, max_size=2),
        "by_month": st.dictionaries(
            st.text(max_size=2),
            st.none() | st.fixed_dictionaries({"count": st.integers() | st.just("7") | st.booleans()}),
            max_size=2,
        ),
    }
)
INPUTS = JSON | ROWS | FIGURES | st.sampled_from(["a", "b", "7", 2**53, 2**53 + 1, -(2**60), 2**2000])
INPUTS |= st.from_regex(r"[-+ ]?[0-9_]{0,17}[.]?[0-9e]{0,17}", fullmatch=True) | st.floats().map(str)
INPUTS |= st.lists(INPUTS, max_size=2) | st.dictionaries(st.text(max_size=2), INPUTS, max_size=2)


def verdict(call: Callable[[], object]) -> str:
    try:
        return repr(call())
    except (InvalidArguments, ValueError) as error:
        return f"refused: {error}"


@given(ANNOTATIONS, INPUTS)
@example(float, 2**53)
@example(float, 2**53 + 1)
@example(float, 2**2000)
@example(float, True)
@example(int, True)
@example(bool, 1)
@example(list[Row], [{"product": "a", "typo": None}])
def test_an_argument_is_accepted_or_refused_as_by_pydantic(annotation: Any, value: Any) -> None:
    function = takes(annotation)
    mine, theirs = Tool(function, "t", Labels()).input, by_pydantic(function).input

    assert verdict(lambda: mine.bind({"a": value})) == verdict(lambda: theirs.bind({"a": value}))


def several(s: str, i: int, f: float, b: bool, d: dict[str, Any], v: list[Any] | None = None) -> object:
    return s, i, f, b, d, v


RIGHT = {
    "s": st.text(max_size=5),
    "i": st.integers(),
    "f": st.floats(allow_nan=False, allow_infinity=False),
    "b": st.booleans(),
    "d": st.dictionaries(st.text(max_size=3), JSON, max_size=3),
    "v": st.lists(JSON, max_size=3),
}
CALLS = st.fixed_dictionaries({}, optional={**RIGHT, "typo": JSON}) | st.fixed_dictionaries(
    {}, optional={name: right | JSON for name, right in RIGHT.items()}
)


BY_HAND, BY_PYDANTIC = Tool(several, "t", Labels()).input, by_pydantic(several).input


@given(CALLS)
def test_the_arguments_of_a_call_are_accepted_or_refused_as_by_pydantic(arguments: dict[str, Any]) -> None:
    mine = verdict(lambda: several(**BY_HAND.bind(arguments)))

    assert mine == verdict(lambda: several(**BY_PYDANTIC.bind(arguments)))


def values(annotation: Any) -> st.SearchStrategy[Any]:
    """Generate values that a function with this return type may return, most of them valid."""
    parts = get_args(annotation)
    if annotation in (Any, dict, list):
        return {dict: st.dictionaries(st.text(max_size=2), JSON, max_size=2), list: st.lists(JSON)}.get(
            annotation, JSON
        )
    if get_origin(annotation) is list:
        return st.lists(values(parts[0]), max_size=2)
    if get_origin(annotation) is dict:
        return st.dictionaries(st.text(max_size=2), values(parts[1]), max_size=2)
    if type(None) in parts:
        return st.none() | values(parts[0])
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        hints = get_type_hints(annotation)
        return st.builds(annotation, **{name: values(hint) | JSON for name, hint in hints.items()})
    return st.from_type(annotation)


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@example((Row, Row("a", 1.5, ["b"], "c")))
@example((list[Row], [Row("a"), Row("b", float("nan"))]))
@example((Row | None, None))
@example((Figures, Figures(Row("a", 1.0), [], {"05": None, "06": Undocumented(1)})))
@example((dict[str, Any], {"a": [1, {"b": None}]}))
@given(ANNOTATIONS.flatmap(lambda annotation: st.tuples(st.just(annotation), values(annotation) | INPUTS)))
def test_a_value_is_dumped_as_by_pydantic(annotation_and_value: tuple[Any, Any]) -> None:
    annotation, value = annotation_and_value
    function = takes(annotation)
    mine, theirs = Tool(function, "t", Labels()).output, by_pydantic(function).output
    assert mine is None or theirs is not None

    if mine is not None and theirs is not None:
        assert verdict(lambda: mine.value(value)) == verdict(lambda: theirs.value(value))


@pytest.mark.parametrize(
    "make_tool", [lambda function: Tool(function, "t", Labels()), by_pydantic], ids=["plain", "pydantic"]
)
def test_a_function_gets_its_own_copies_of_containers(make_tool: Callable[..., Tool]) -> None:
    def do(figures: Figures, tags: list[Any], by: dict[str, Any]) -> None: ...

    def arguments() -> dict[str, Any]:
        best = {"product": "a", "tags": ["b"]}
        return {"figures": {"best": best, "rejected": [], "by_month": {}}, "tags": [[1]], "by": {"deep": {}}}

    given_arguments = arguments()
    bound = make_tool(do).input.bind(given_arguments)
    figures = bound["figures"]
    for container in (figures.best.tags, figures.rejected, bound["tags"]):
        container.append(None)
    for mapping in (figures.by_month, bound["by"]):
        mapping["new"] = None

    assert given_arguments == arguments()


@dataclass
class Recursive:
    children: "list[Recursive]"


def record(*fields: Any, **options: Any) -> Any:
    """Return a dataclass with these fields. A field is a name, a type and optionally a default."""
    return dataclasses.make_dataclass("Record", fields, **options)


def with_method(name: str, method: Any) -> Any:
    return record(("a", int), namespace={name: method})


@dataclass
class WithParameter(Generic[T]):  # noqa: UP046 - tests the parameterised class
    a: T


MORE: dict[str, Any] = {
    "contains itself": Recursive,
    "an unknown name": record(("a", "Nowhere")),
    "has __post_init__": with_method("__post_init__", lambda _self: None),
    "has its own __init__": record(("a", int), init=False, namespace={"__init__": lambda _self, **_: None}),
    "has its own __new__": with_method("__new__", lambda cls, *_, **__: object.__new__(cls)),
    "has its own serializer": with_method("double", field_serializer("a")(lambda _self, a: 2 * a)),
    "configured": with_method("__pydantic_config__", ConfigDict(extra="allow")),
    "an InitVar": record(("a", InitVar[int])),
    "a class variable": record(("a", int), ("b", ClassVar[int], 1)),
    "a field without an argument": record(("a", int, field(default=1, init=False))),
    "positional and keyword fields": record(("a", int), ("b", int, field(kw_only=True))),
    "a field with metadata": record(("a", int, field(metadata={"description": "of pydantic"}))),
    "a pydantic field": record(("a", int, Field(default=1, ge=0))),
    "an annotated field": record(("a", Annotated[int, Field(ge=0)])),
    "a private field": record(("_a", int)),
    "a default that is not a scalar": record(("a", tuple[int, ...], ())),
    "a default that JSON does not have": record(("a", float, float("inf"))),
    "a pydantic dataclass": pydantic_dataclass(record(("a", int))),
    "generic": WithParameter,
    "generic with a parameter": WithParameter[int],
    "not decorated": type("Undecorated", (Undocumented,), {}),
}
OTHERS: list[Any] = [
    *[bytes, object, type(None), None, tuple[int, ...], set[str], dict[int, str], list[Recursive], T],
    *[int | str, int | str | None, Optional[Any], Literal["a", 1], Literal[None], Annotated[str, "x"]],  # noqa: UP045
    *[dict[str, bytes], bytes | None],
]


@pytest.mark.parametrize("annotation", [*MORE.values(), *OTHERS], ids=[*MORE, *map(str, OTHERS)])
def test_any_other_type_is_left_to_pydantic(annotation: Any) -> None:
    assert plain_type(annotation) is None
    assert plain_type(record(("a", int))) is not None


def test_types_with_the_same_name_are_distinguished_by_pydantic() -> None:
    annotation = record(("a", record(("a", int))), ("b", record(("b", int))))
    plain = plain_type(annotation)
    assert plain is not None

    assert plain_value_schema(plain) is None
    assert Tool(takes(annotation), "t", Labels()).definition == by_pydantic(takes(annotation)).definition


@pytest.mark.parametrize("default", [[], float("inf"), (), Row("a")], ids=repr)
def test_a_default_that_is_not_a_scalar_is_left_to_pydantic(default: Any) -> None:
    parameters = read_signature(takes(str, default), "t").parameters
    plain = plain_parameters(parameters)
    assert plain is not None

    assert plain_arguments_schema(parameters, plain) is None


LIST_AND_CALL = """
import sys
from dataclasses import dataclass
from mcp_baton.tools.labels import Labels
from mcp_baton.tools.tool import Tool
from mcp_baton.tools.schema.prompt_arguments import convert

@dataclass
class Sum:
    parts: list[int]
    total: float | None = None

def add(a: int, b: Sum | None = None) -> list[Sum]:
    return [Sum([a]), b or Sum([])]

tool = Tool(add, "add", Labels())
assert tool.definition["inputSchema"] and tool.definition["outputSchema"]
assert tool.input.bind({"a": 1, "b": {"parts": [2], "total": 2}}) == {"a": 1, "b": Sum([2], 2.0)}
assert tool.result(tool.outcome(add(3)))["structuredContent"]["result"][0] == {"parts": [3], "total": None}
converted = [convert("7", int), convert("-1.5", float | None), convert("true", bool), convert("x", str | None)]
assert repr(converted) == "[7, -1.5, True, 'x']", converted
print("pydantic" in sys.modules)
"""


def test_plain_tools_need_no_pydantic() -> None:
    process = subprocess.run(
        [sys.executable, "-c", LIST_AND_CALL], capture_output=True, text=True, check=True, timeout=60
    )

    assert process.stdout.split() == ["False"]


def test_the_comparison_with_pydantic_really_uses_pydantic() -> None:
    assert by_pydantic(takes(Row)).input.is_plain is False
