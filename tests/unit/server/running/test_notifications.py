"""A log message, its level and its text in either order."""

from typing import Any

import pytest

from mcp_baton.server.running.notifications import NOT_GIVEN, level_and_message


@pytest.mark.parametrize(
    ("positional", "named", "meant"),
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
def test_level_and_message_come_in_either_order(positional: Any, named: Any, meant: Any) -> None:
    assert level_and_message(positional, named.get("level", NOT_GIVEN), named.get("message", NOT_GIVEN)) == meant


@pytest.mark.parametrize(
    ("positional", "named", "error"),
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
def test_what_is_no_level_and_message_is_refused(positional: Any, named: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        level_and_message(positional, named.get("level", NOT_GIVEN), named.get("message", NOT_GIVEN))
