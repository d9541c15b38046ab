"""Prompt arguments: strings from the client, checked and converted before the prompt runs."""

import datetime
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

import hypothesis
import pytest
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from mcp_baton import Argument
from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.jsonrpc import INVALID_PARAMS
from mcp_baton.tools.schema import prompt_arguments as arguments
from mcp_baton.tools.schema.prompt_arguments import check_arguments, convert


class Line(BaseModel):
    sku: str
    count: int = 1


@dataclass
class PlainLine:
    sku: str
    count: int = 1
    price: float = 0


@pytest.mark.parametrize(
    ("kind", "value", "text", "converted"),
    [
        (str, "A-17", "A-17", "A-17"),
        (str, "", "", ""),
        (str, '{"json": 1}', '{"json": 1}', '{"json": 1}'),
        (int, "7", "7", 7),
        (float, "30.00", "30.00", 30.0),
        (float, 30, "30", 30.0),
        (bool, "true", "true", True),
        (list[int], "[1, 2]", "[1, 2]", [1, 2]),
        (dict[str, int], '{"a": 1}', '{"a": 1}', {"a": 1}),
        (list[int], [1, 2], "[1,2]", [1, 2]),
        (Annotated[list[int], Field(json_schema_extra={"uniqueItems": True})], [2, 1], "[2,1]", [2, 1]),
        (set[str], ["b", "a", "c"], '["b","a","c"]', ["a", "b", "c"]),
        (dict[str, Any], {"a": "b"}, '{"a":"b"}', {"a": "b"}),
        (Line, '{"sku": "x"}', '{"sku": "x"}', {"sku": "x", "count": 1}),
        (Literal["a", "b"], "a", "a", "a"),
        (datetime.date, "2026-01-02", "2026-01-02", "2026-01-02"),
        (int | None, "null", "null", None),
        (int, str(2**70), str(2**70), 2**70),
    ],
)
def test_an_argument_is_stored_as_text_and_converted_for_each_use(
    kind: Any, value: Any, text: str, converted: object
) -> None:
    declared = [Argument("a", type=kind)]
    texts, values = check_arguments(declared, {"a": value})

    assert (texts, repr(values["a"])) == ({"a": text}, repr(converted))
    assert check_arguments(declared, texts) == (texts, values)


NUMBERS = st.from_regex(r"[-+ ]?[0-9_]{0,17}[.,]?[0-9e]{0,17}\n?", fullmatch=True)
WORDS = st.sampled_from(["true", "false", "True", "yes", "null", "nan", "inf", "-0", "007", "1_0", "\u0661"])


SCALARS = [str, int, float, bool, str | None, int | None, float | None, bool | None, int | str, None | int]
TEXTS = NUMBERS | WORDS | st.integers().map(str) | st.floats().map(str) | st.text(max_size=5)
VALUES: st.SearchStrategy[Any] = (
    TEXTS | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.just([])
)
LINES = st.fixed_dictionaries({"sku": st.text(max_size=2)}, optional={"count": VALUES, "price": VALUES})


@hypothesis.given(
    st.sampled_from([*SCALARS, list[int], dict[str, float], Literal["a", "true"], Any, PlainLine, list[PlainLine]]),
    VALUES | LINES | LINES.map(json.dumps) | st.lists(VALUES | LINES, max_size=2),
)
def test_conversion_without_pydantic_equals_that_of_pydantic(kind: Any, value: Any) -> None:
    plain = outcome(value, kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arguments, "plain_type", lambda _kind: None)

        assert plain == outcome(value, kind)


def outcome(value: Any, kind: Any) -> str:
    try:
        return repr(convert(value, kind))
    except ValueError as error:
        return f"refused: {error}"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, "many"),
        (int, "1.5"),
        (int, ""),
        (float, "nan"),
        (float, "inf"),
        (float, "1e999"),
        (bool, "perhaps"),
        (str, 5),
        (str, None),
        (str, {"a": 1}),
        (list[int], '["x"]'),
        (Line, "{}"),
        (Annotated[int, Field(ge=1)], "0"),
        (Literal["a"], "b"),
        (Iterable[int], '{"a": 1}'),
    ],
)
def test_an_argument_that_does_not_convert_is_refused_with_its_name(kind: Any, value: Any) -> None:
    amount = Argument("amount", type=kind, required=True)
    with pytest.raises(ProtocolError) as error_info:
        check_arguments([Argument("fine"), amount], {"fine": "x", "amount": value})

    assert error_info.value.code == INVALID_PARAMS
    assert "'amount'" in error_info.value.message
    assert "'fine'" not in error_info.value.message


@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        (list[int], '[1, "x"]', "1: Input should be a valid integer"),
        (list[Decimal | None], '[null, "nan"]', "1: Input should be a finite number"),
        (list[float], "[NaN]", "value: NaN is not JSON"),
        (Line, '{"sku": 1}', "sku: Input should be a valid string"),
        (list[int], "x", "value: Input should be a valid list"),
        (list[int], "5", "value: Input should be a valid list"),
    ],
)
def test_an_error_in_a_json_text_names_the_part_inside(kind: Any, text: str, problem: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(problem)):
        convert(text, kind)


class Filter(BaseModel):
    name: str
    at_most: float = math.inf


@pytest.mark.parametrize(
    ("kind", "value", "converted"),
    [(int, "", 7), (int, " ", 7), (int, None, 7), (str, None, "7"), (str, "", ""), (int | None, None, None)],
)
def test_an_empty_value_that_does_not_convert_means_that_an_optional_argument_was_left_out(
    kind: Any, value: Any, converted: Any
) -> None:
    assert check_arguments([Argument("n", type=kind, default=7)], {"n": value})[1] == {"n": converted}
    left_out = {} if converted in (7, "7") else {"n": converted}
    assert check_arguments([Argument("n", type=kind)], {"n": value})[1] == left_out


def test_a_key_with_half_a_surrogate_pair_is_kept() -> None:
    assert convert({"\ud800": 1}, object) == {"\ud800": 1}


def test_an_infinite_default_is_kept_and_not_sent() -> None:
    assert convert('{"name": "nan"}', Filter) == {"name": "nan"}
    assert convert({"name": "shoes", "at_most": "3"}, Filter) == {"name": "shoes", "at_most": 3}


def test_an_omitted_argument_is_not_stored() -> None:
    assert check_arguments([Argument("id"), Argument("amount", type=float)], {"id": "1"}) == ({"id": "1"}, {"id": "1"})
