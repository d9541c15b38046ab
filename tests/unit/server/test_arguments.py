"""Prompt arguments: strings from the client, checked and converted before anything else happens."""

import datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from mcp_baton import Argument
from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.codes import INVALID_PARAMS
from mcp_baton.server.arguments import check_arguments, stored_arguments


class Line(BaseModel):
    """One line of an order."""

    sku: str
    count: int = 1


@pytest.mark.parametrize(
    ("kind", "given", "text", "converted"),
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
        (Line, '{"sku": "x"}', '{"sku": "x"}', {"sku": "x", "count": 1}),
        (Literal["a", "b"], "a", "a", "a"),
        (datetime.date, "2026-01-02", "2026-01-02", "2026-01-02"),
        (int | None, "null", "null", None),
        (int, str(2**70), str(2**70), 2**70),
    ],
)
def test_an_argument_is_kept_as_text_and_converted_to_its_type(
    kind: Any, given: Any, text: str, converted: object
) -> None:
    texts, values = check_arguments([Argument("a", type=kind)], {"a": given})

    assert (texts, repr(values["a"])) == ({"a": text}, repr(converted))


@pytest.mark.parametrize(
    ("kind", "given", "text", "converted"),
    [
        (float, 30, "30", 30.0),
        (list[int], [1, 2], "[1,2]", [1, 2]),
        (dict[str, Any], {"a": "b"}, '{"a":"b"}', {"a": "b"}),
    ],
)
def test_a_kept_text_converts_to_the_same_value_again(kind: Any, given: Any, text: str, converted: object) -> None:
    declared = [Argument("a", type=kind)]
    texts, values = check_arguments(declared, {"a": given})

    assert check_arguments(declared, texts) == ({"a": text}, values)
    assert values == {"a": converted}


@pytest.mark.parametrize(
    ("kind", "given"),
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
    ],
)
def test_an_argument_that_does_not_convert_is_refused_by_name(kind: Any, given: Any) -> None:
    with pytest.raises(ProtocolError) as caught:
        check_arguments([Argument("fine"), Argument("amount", type=kind)], {"fine": "x", "amount": given})

    assert caught.value.code == INVALID_PARAMS
    assert "'amount'" in caught.value.message
    assert "'fine'" not in caught.value.message


@pytest.mark.parametrize(
    ("given", "named"), [({}, "'id'"), ({"amount": "1"}, "'id'"), ({"id": "1", "typo": "x"}, "'typo'")]
)
def test_a_missing_or_unknown_argument_is_refused_by_name(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        check_arguments([Argument("id", required=True), Argument("amount")], given)

    assert (caught.value.code, named in caught.value.message) == (INVALID_PARAMS, True)


def test_an_optional_argument_that_is_left_out_is_nowhere() -> None:
    assert check_arguments([Argument("id"), Argument("amount", type=float)], {"id": "1"}) == ({"id": "1"}, {"id": "1"})


def test_arguments_that_are_given_again_win_over_those_of_the_first_call() -> None:
    assert stored_arguments({"a": "1", "b": "2"}, {"b": "3", "c": "4"}) == {"a": "1", "b": "3", "c": "4"}
