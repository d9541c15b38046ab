"""The orders in which a question's arguments may stand."""

from typing import Any

import pytest

from mcp_baton.server.asking.arguments import question_arguments

MODEL: Any = {"type": "object", "properties": {}}
FORM, PAGE = ("message", "schema"), ("message", "url")


@pytest.mark.parametrize(
    ("positional", "named", "key"),
    [
        (("Who?", MODEL), {}, None),
        (("Who?", MODEL), {"key": "k"}, "k"),
        (("Who?",), {"schema": MODEL}, None),
        (("Who?",), {"response_type": MODEL}, None),
        (("Who?", MODEL), {"response_type": None}, None),
        ((), {"message": "Who?", "schema": MODEL, "key": "k"}, "k"),
        (("k", "Who?", MODEL), {}, "k"),
        (("k", "Who?"), {"schema": MODEL}, "k"),
        (("k",), {"message": "Who?", "schema": MODEL}, "k"),
    ],
    ids=str,
)
def test_a_question_has_its_message_first_or_after_its_key(positional: Any, named: Any, key: str | None) -> None:
    given = question_arguments("elicit", FORM, positional, named)

    assert (given["message"], given["schema"], given.get("key")) == ("Who?", MODEL, key)


def test_a_schema_may_be_left_out() -> None:
    assert question_arguments("elicit", FORM, ("Sure?",), {})["schema"] is None


@pytest.mark.parametrize(
    ("positional", "named", "key"),
    [
        (("Go", "https://a"), {}, None),
        (("Go", "https://a"), {"key": "k"}, "k"),
        (("k", "Go", "https://a"), {}, "k"),
        (("k", "Go"), {"url": "https://a"}, "k"),
    ],
    ids=str,
)
def test_a_page_has_its_message_first_or_after_its_key(positional: Any, named: Any, key: str | None) -> None:
    given = question_arguments("elicit_url", PAGE, positional, named)

    assert (given["message"], given["url"], given.get("key")) == ("Go", "https://a", key)


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
