"""`Context`: a tool's access to its request."""

import math
from decimal import Decimal
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mcp_baton import Context
from mcp_baton.protocol.envelope import Envelope, Era
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.keys import own_key
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.asking import CannotAsk
from mcp_baton.tools.calls import ProgressMap, ToolCall
from mcp_baton.tools.context import CallState
from mcp_baton.tools.running.runner import read_for_tool


def _address(_caller: object, _call: object, step: str) -> str:
    return f"https://api.example.com/callbacks/token-of-{step}"


class RecordedContext:
    def __init__(
        self, *, token: str | int | None = 1, level: str | None = None, progress: ProgressMap | None = None
    ) -> None:
        self.sent: list[tuple[str, dict[str, Json]]] = []
        caller = SimpleNamespace(
            owner="kim",
            envelope=Envelope(Era.STATELESS, "2026-07-28", {}, {}, token, level),
            exchange=SimpleNamespace(request_id="r-1", remaining_ms=lambda: 1234),
            services=SimpleNamespace(features=SimpleNamespace(callback_url=_address)),
        )
        self.call = CallState(
            cast("Any", caller),
            ToolCall(variables=TaskVariables({"a": 1}), progress=progress),
            own_key(),
            emit=lambda method, params: self.sent.append((method, params)),
            asker=CannotAsk("this is a test"),
            read=partial(read_for_tool, {}),
        )
        self.context = Context(self.call)

    @property
    def progress(self) -> list[Json]:
        return [params["progress"] for _, params in self.sent]


def test_the_address_of_a_callback_is_hidden_in_messages() -> None:
    recording = RecordedContext(level="debug")

    url = recording.context.callback_url("signed")
    recording.context.report_progress(1, message=f"sent {url}")
    recording.context.log({"sent": [url]})

    hidden_url = "https://api.example.com/callbacks/<secret callback of signed>"
    assert [params.get("message", params.get("data")) for _, params in recording.sent] == [
        f"sent {hidden_url}",
        {"sent": [hidden_url]},
    ]


def test_progress_that_does_not_increase_is_not_sent() -> None:
    recording = RecordedContext()

    for progress in (1, 1, 0.5, 2, 1.9, 3):
        recording.context.report_progress(progress)

    assert recording.progress == [1, 2, 3]


def test_a_tools_progress_is_mapped_to_the_requests_progress() -> None:
    recording = RecordedContext(
        token=7, progress=lambda progress, total: (progress / 10, total) if progress < 5 else None
    )

    for progress in (1, 5, 6):
        recording.context.report_progress(progress, 10, message="half way")

    mapped = {"progressToken": 7, "progress": 0.1, "total": 10, "message": "half way"}
    assert recording.sent == [("notifications/progress", mapped)]


@pytest.mark.parametrize(
    ("progress", "total", "message"),
    [
        *((math.inf, None, None), (math.nan, None, None), (1, math.nan, None), (1j, None, None), ("1", None, None)),
        *((True, None, None), (Decimal(1), None, None), (1, "2", None), (1, 2, 3), (1, None, object())),
    ],
)
@pytest.mark.parametrize("token", [7, None])
def test_a_wrong_report_raises_in_the_tool_also_if_nobody_wants_it(
    progress: Any, total: Any, message: Any, token: int | None
) -> None:
    recording = RecordedContext(token=token)

    with pytest.raises(TypeError, match="report_progress: "):
        recording.context.report_progress(progress, total, message)
    assert recording.sent == []


def test_each_common_level_has_its_own_method() -> None:
    recording = RecordedContext(level="debug")

    for level in ("debug", "info", "warning", "error"):
        getattr(recording.context, level)("a")
    recording.context.log("alert", "e", logger="shop")

    assert [params for _, params in recording.sent] == [
        *({"level": level, "data": "a"} for level in ("debug", "info", "warning", "error")),
        {"level": "alert", "data": "e", "logger": "shop"},
    ]


@pytest.mark.parametrize(
    ("level", "message", "logger"),
    [("loud", "x", None), ("info", object(), None), ("info", math.nan, None), ("info", "x", 1j)],
)
@pytest.mark.parametrize("requested_level", ["debug", "emergency"])
def test_a_log_message_that_cannot_be_sent_raises(level: str, message: Any, logger: Any, requested_level: str) -> None:
    recording = RecordedContext(level=requested_level)

    if logger is None or requested_level == "debug":
        with pytest.raises((TypeError, ValueError)):
            recording.context.log(level, message, logger=logger)
    assert recording.sent == []


@pytest.mark.parametrize(
    ("arguments", "notification"),
    [
        (("warning", "x"), ("warning", "x")),
        (("x", "warning"), ("warning", "x")),
        (("info", "error"), ("info", "error")),
        (("x",), ("info", "x")),
        (("error",), ("info", "error")),
        (({"a": 1}, "debug"), ("debug", {"a": 1})),
    ],
    ids=str,
)
def test_level_and_message_are_accepted_in_either_order(arguments: Any, notification: Any) -> None:
    recording = RecordedContext(level="debug")

    recording.context.log(*arguments)

    assert recording.sent == [("notifications/message", {"level": notification[0], "data": notification[1]})]


@pytest.mark.parametrize("arguments", [("loud", "x"), (["info"], "x"), ("x", "")], ids=str)
def test_a_log_message_without_a_known_level_is_refused(arguments: Any) -> None:
    with pytest.raises(ValueError, match="give a level: debug, info"):
        RecordedContext().context.log(*arguments)
