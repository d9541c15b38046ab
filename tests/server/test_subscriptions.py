"""`subscriptions/listen`: the acknowledgement, comments that keep the stream alive, and its end."""

import itertools
import json
from typing import Any

import pytest

from mcp_baton import ProtocolError
from mcp_baton.protocol import jsonrpc
from mcp_baton.protocol.json import Json
from mcp_baton.protocol.jsonrpc import INVALID_PARAMS, RequestId
from mcp_baton.server.methods import subscriptions
from mcp_baton.server.methods.subscriptions import SUBSCRIPTION_KEY, listen
from mcp_baton.settings import Settings
from mcp_baton.transport import exchange
from tests.fakes import Line, request_of

RESERVE_MS = Settings().write_reserve_ms
FILTER: dict[str, Json] = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["docs://a"]}}


def listen_to(line: Line, identifier: RequestId = 7, listen_ms: int = 60_000, **params: Any) -> Any:
    message = jsonrpc.RequestMessage(identifier, "subscriptions/listen", {**FILTER, **params})
    return listen(request_of(message.method, {}, line, message=message, settings=Settings(listen_ms=listen_ms)))


@pytest.mark.parametrize("identifier", [7, "seven"])
def test_a_stream_begins_with_the_acknowledgement_and_ends_with_the_result(identifier: RequestId) -> None:
    line = Line(can_stream=False)

    result = listen_to(line, identifier)

    meta = {SUBSCRIPTION_KEY: identifier}
    assert result == {"_meta": meta}
    assert [json.loads(data.split(b"data: ")[1]) for data in line.sent] == [
        {
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": {"_meta": meta, "notifications": {}},
        }
    ]


@pytest.fixture
def fast_keep_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send a comment to keep the stream alive every millisecond."""
    for module in (subscriptions, exchange):
        monkeypatch.setattr(module, "KEEP_ALIVE_S", 0.001)


def test_a_stream_is_kept_alive_until_the_functions_time_is_over(fast_keep_alive: None) -> None:
    remaining_ms = itertools.chain([RESERVE_MS + 10_000] * 5, itertools.repeat(RESERVE_MS))
    line = Line(left_ms=lambda: next(remaining_ms))

    listen_to(line)

    assert [data[:1] for data in line.sent[1:]] == [b":"] * 5


def test_a_stream_ends_after_its_maximum_time() -> None:
    line = Line()

    assert listen_to(line, listen_ms=1) == {"_meta": {SUBSCRIPTION_KEY: 7}}
    assert len(line.sent) <= 2


def test_a_stream_ends_when_the_client_disconnects(fast_keep_alive: None) -> None:
    line = Line(patience=3)

    listen_to(line)

    assert len(line.sent) == 3


@pytest.mark.parametrize("notifications", [None, [], "all", 5])
def test_an_invalid_filter_is_refused_before_anything_is_sent(notifications: Json) -> None:
    line = Line()

    with pytest.raises(ProtocolError) as error_info:
        listen_to(line, notifications=notifications)
    assert (error_info.value.code, line.sent) == (INVALID_PARAMS, [])
