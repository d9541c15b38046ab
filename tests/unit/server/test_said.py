"""The orders in which a tool may give its `Context` arguments."""

from typing import Any

import pytest

from mcp_baton.server.said import UNSAID, asked, level_and_message

MODEL: Any = {"type": "object", "properties": {}}
FORM, PAGE = ("message", "schema"), ("message", "url")


@pytest.mark.parametrize(
    ("said", "named", "meant"),
    [
        (("warning", "x"), {}, ("warning", "x")),
        (("x", "warning"), {}, ("warning", "x")),
        (("info", "error"), {}, ("info", "error")),
        (("x",), {}, ("info", "x")),
        (("error",), {}, ("info", "error")),
        (({"a": 1}, "debug"), {}, ("debug", {"a": 1})),
        (("debug", None), {}, ("debug", None)),
        (("x",), {"level": "error"}, ("error", "x")),
        (("error",), {"message": "x"}, ("error", "x")),
        ((), {"level": "error", "message": "x"}, ("error", "x")),
        ((), {"message": None}, ("info", None)),
    ],
    ids=str,
)
def test_level_and_message_come_in_either_order(said: Any, named: Any, meant: Any) -> None:
    assert level_and_message(said, named.get("level", UNSAID), named.get("message", UNSAID)) == meant


@pytest.mark.parametrize(
    ("said", "named", "error"),
    [
        ((), {}, TypeError),
        (("a", "b", "c"), {}, TypeError),
        (("info", "x"), {"message": "y"}, TypeError),
        (("info", "x"), {"level": "info"}, TypeError),
        (("loud", "x"), {}, ValueError),
        (("x",), {"level": "loud"}, ValueError),
        ((["info"], "x"), {}, ValueError),
    ],
    ids=str,
)
def test_what_is_no_level_and_message_is_refused(said: Any, named: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        level_and_message(said, named.get("level", UNSAID), named.get("message", UNSAID))


@pytest.mark.parametrize(
    ("said", "named", "key"),
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
def test_a_question_has_its_message_first_or_after_its_key(said: Any, named: Any, key: str | None) -> None:
    given = asked("elicit", FORM, said, named)

    assert (given["message"], given["schema"], given.get("key")) == ("Who?", MODEL, key)


def test_a_schema_may_be_left_out() -> None:
    assert asked("elicit", FORM, ("Sure?",), {})["schema"] is None


@pytest.mark.parametrize(
    ("said", "named", "key"),
    [
        (("Go", "https://a"), {}, None),
        (("Go", "https://a"), {"key": "k"}, "k"),
        (("k", "Go", "https://a"), {}, "k"),
        (("k", "Go"), {"url": "https://a"}, "k"),
    ],
    ids=str,
)
def test_a_page_has_its_message_first_or_after_its_key(said: Any, named: Any, key: str | None) -> None:
    given = asked("elicit_url", PAGE, said, named)

    assert (given["message"], given["url"], given.get("key")) == ("Go", "https://a", key)


@pytest.mark.parametrize(
    ("names", "said", "named"),
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
def test_what_makes_no_question_is_refused(names: tuple[str, str], said: Any, named: Any) -> None:
    with pytest.raises(TypeError, match="elicit"):
        asked("elicit", names, said, named)
