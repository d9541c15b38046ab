"""Lenient conversions: what pydantic and msgspec make of a value, and whether Baton needs pydantic for it.

Baton uses msgspec for scalars only, and only where it equals pydantic. For other types msgspec differs more: it ignores
unknown members of dataclasses and the constraints of pydantic, and its schemas have titles, no `additionalProperties`
and other names of definitions.
"""

import datetime
import enum
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest
from pydantic import Field, TypeAdapter, ValidationError

from mcp_baton.tools.schema.plain import NotPlain, plain_type
from mcp_baton.tools.schema.schema import InvalidArguments

REFUSED: Any = "refused"
SAME: Any = "the same as pydantic"


class Color(enum.Enum):
    RED = "red"


class Pair(TypedDict):
    a: int


@dataclass
class Row:
    product: str
    revenue: float = 0
    tags: list[str] = field(default_factory=list)


AT = datetime.datetime(2026, 1, 2, 3, 4)  # noqa: DTZ001 - as pydantic
BY_MSGSPEC = [
    # the type, the value, what pydantic makes of it
    (int, "5", 5),
    (int, "-5", -5),
    (int, 5.0, 5),
    (int, 2**70, 2**70),
    (int, str(2**70), 2**70),
    (int | None, "5", 5),
    (int | None, None, None),
    (float, 5, 5.0),
    (float, "1.5", 1.5),
    (float, "1e3", 1000.0),
    (float, 2**53 + 1, float(2**53)),
    (bool, "true", True),
    (bool, "FALSE", False),
    (bool, "1", True),
    (bool, 0, False),
    (str, "5", "5"),
    (str | None, "null", "null"),
    (Literal["a", "b"], "b", "b"),
    (list[int], ["1", 2], [1, 2]),
    (dict[str, float], {"a": "1"}, {"a": 1.0}),
    (dict[str, list[bool]], {"a": ["true"]}, {"a": [True]}),
    (Row, {"product": "a", "revenue": "7"}, Row("a", 7.0)),
    (Any, {"a": ["1", None]}, {"a": ["1", None]}),
]
BY_PYDANTIC = [
    # the type, the value, what pydantic makes of it, what msgspec makes of it
    (int, True, 1, REFUSED),
    (int, " 5 ", 5, REFUSED),
    (int, "+5", 5, REFUSED),
    (int, "05", 5, REFUSED),
    (int, "1_000", 1000, REFUSED),
    (int, "5.0", 5, SAME),
    (int, "1e3", REFUSED, 1000),
    (int, "5.0000000000000000001", REFUSED, 5),
    (int, "4503599627370497.5", REFUSED, 4503599627370498),
    (int, "9007199254740993.0", 9007199254740993, 9007199254740992),
    (int, 5.5, REFUSED, SAME),
    (int, None, REFUSED, SAME),
    (int | None, "null", REFUSED, None),
    (float, True, 1.0, REFUSED),
    (float, ".5", 0.5, REFUSED),
    (float, "inf", float("inf"), SAME),
    (float, 2**2000, REFUSED, SAME),
    (float, "\ud800", REFUSED, SAME),
    (bool, "yes", True, REFUSED),
    (bool, "on", True, REFUSED),
    (bool, 1.0, True, REFUSED),
    (bool, "-0", REFUSED, False),
    (bool, "\ud800", REFUSED, SAME),
    (str, 5, REFUSED, SAME),
    (Literal["a", "b"], "A", REFUSED, SAME),
    (Literal[1, 2], "1", REFUSED, 1),
    (list[int], "[1]", REFUSED, SAME),
    (dict[str, int], '{"a": 1}', REFUSED, SAME),
    (dict[int, str], {"1": "a"}, {1: "a"}, SAME),
    (set[int], [1, 1], {1}, SAME),
    (tuple[int, str], ["1", "a"], (1, "a"), SAME),
    (int | str, "5", "5", SAME),
    (Color, "red", Color.RED, SAME),
    (datetime.datetime, "2026-01-02T03:04:00", AT, SAME),
    (datetime.datetime, "2026-01-02T03:04", AT, REFUSED),
    (datetime.datetime, "2026-01-02 03:04", AT, REFUSED),
    (datetime.date, "2026-01-02", datetime.date(2026, 1, 2), SAME),
    (datetime.date, "2026-01-02T00:00:00", datetime.date(2026, 1, 2), REFUSED),
    (datetime.timedelta, "01:00:00", datetime.timedelta(hours=1), REFUSED),
    (Decimal, 1.5, Decimal("1.5"), SAME),
    (bytes, "YWJj", b"YWJj", b"abc"),
    (Pair, {"a": "1"}, {"a": 1}, SAME),
    (Annotated[int, Field(ge=0)], -5, REFUSED, -5),
]


def outcome(convert: Any) -> Any:
    try:
        return convert()
    except (ValidationError, msgspec.ValidationError, InvalidArguments, UnicodeEncodeError):
        return REFUSED


@pytest.mark.parametrize(("kind", "value", "expected"), BY_MSGSPEC)
def test_baton_converts_as_pydantic_and_msgspec_do(kind: Any, value: Any, expected: Any) -> None:
    plain = plain_type(kind)
    assert plain is not None

    results = [TypeAdapter(kind).validate_python(value), msgspec.convert(value, kind, strict=False), plain.bind(value)]
    assert list(map(repr, results)) == [repr(expected)] * 3


@pytest.mark.parametrize(("kind", "value", "expected", "by_msgspec"), BY_PYDANTIC)
def test_baton_leaves_what_msgspec_does_else_to_pydantic(kind: Any, value: Any, expected: Any, by_msgspec: Any) -> None:
    by_msgspec = expected if by_msgspec is SAME else by_msgspec
    results = [
        outcome(lambda: TypeAdapter(kind).validate_python(value)),
        outcome(lambda: msgspec.convert(value, kind, strict=False)),
    ]
    assert list(map(repr, results)) == [repr(expected), repr(by_msgspec)]
    plain = plain_type(kind)
    if plain is not None:
        with pytest.raises(NotPlain):
            plain.bind(value)
