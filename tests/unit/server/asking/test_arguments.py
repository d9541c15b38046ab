"""The orders in which a question's arguments may stand."""

from typing import Any

import pytest

from mcp_baton.server.asking.arguments import question_arguments

MODEL: Any = {"type": "object", "properties": {}}
URL = "https://a"
FORM, PAGE = ("message", "schema"), ("message", "url")


@pytest.mark.parametrize(
    ("names", "positional", "named", "key"),
    [
        (FORM, ("Who?", MODEL), {}, None),
        (FORM, ("Who?", MODEL), {"key": "k"}, "k"),
        (FORM, ("Who?",), {"schema": MODEL}, None),
        (FORM, ("Who?",), {"response_type": MODEL}, None),
        (FORM, ("Who?", MODEL), {"response_type": None}, None),
        (FORM, (), {"message": "Who?", "schema": MODEL, "key": "k"}, "k"),
        (FORM, ("k", "Who?", MODEL), {}, "k"),
        (FORM, ("k", "Who?"), {"schema": MODEL}, "k"),
        (FORM, ("k",), {"message": "Who?", "schema": MODEL}, "k"),
        (PAGE, ("Who?", URL), {}, None),
        (PAGE, ("Who?", URL), {"key": "k"}, "k"),
        (PAGE, ("k", "Who?", URL), {}, "k"),
        (PAGE, ("k", "Who?"), {"url": URL}, "k"),
    ],
    ids=str,
)
def test_a_question_has_its_message_first_or_after_its_key(
    names: tuple[str, str], positional: Any, named: Any, key: str | None
) -> None:
    given = question_arguments("elicit", names, positional, named)

    about = MODEL if names is FORM else URL
    assert (given["message"], given[names[1]], given.get("key")) == ("Who?", about, key)


def test_a_schema_may_be_left_out() -> None:
    assert question_arguments("elicit", FORM, ("Sure?",), {})["schema"] is None


@pytest.mark.parametrize(
    ("names", "positional", "named"),
    [
        (FORM, (), {}),
        (FORM, ("k", "Who?"), {}),
        (FORM, ("Who?", MODEL), {"response_type": MODEL, "key": "k"}),
        (FORM, ("k", "Who?", MODEL), {"key": "k"}),
        (FORM, ("k", "Who?", MODEL, 1), {}),
        (FORM, ("Who?", MODEL), {"wait": 1}),
        (FORM, (MODEL, "Who?"), {}),
        (FORM, ("Who?", MODEL), {"key": 5}),
        (FORM, ("Who?", MODEL), {"key": ""}),
        (PAGE, ("Go",), {}),
        (PAGE, ("Go", 5), {}),
        (PAGE, ("Go", "https://a"), {"schema": MODEL}),
    ],
    ids=str,
)
def test_what_makes_no_question_is_refused(names: tuple[str, str], positional: Any, named: Any) -> None:
    with pytest.raises(TypeError, match="elicit"):
        question_arguments("elicit", names, positional, named)
