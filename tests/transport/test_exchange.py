"""The reply of an exchange: a whole response, or a stream that begins with the first message."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from mcp_baton.protocol.http import ClientGone, HttpResponse
from mcp_baton.protocol.json import Json
from mcp_baton.transport.exchange import Exchange, json_response
from tests.fakes import Line

ANSWER: dict[str, Json] = {"jsonrpc": "2.0", "id": 1, "result": {"text": "ü\n\r\u2028"}}


def body(response: HttpResponse | None) -> object:
    assert response is not None
    return json.loads(response.body)


def test_a_stream_has_json_events_and_comments() -> None:
    line = Line()
    assert line.opened == []

    line.notify("m", {"a": "b\nc"})
    line.keep_alive()
    assert line.result(ANSWER) is None

    assert [(status, headers["Content-Type"]) for status, headers in line.opened] == [(200, "text/event-stream")]
    first_event, comment, last_event = line.sent
    assert first_event == b'event: message\ndata: {"jsonrpc":"2.0","method":"m","params":{"a":"b\\nc"}}\n\n'
    assert (comment[:1], comment[-2:]) == (b":", b"\n\n")
    assert last_event.count(b"\n") == 3
    assert json.loads(last_event.split(b"data: ")[1]) == ANSWER


TEXT_WITH_LINE_ENDS = "a\u2028b\u2029c\u0085d\n\r\x0b\x0c\x1c"


@pytest.mark.parametrize("in_pieces", [False, True])
def test_an_event_has_no_character_at_which_a_client_may_split_its_lines(in_pieces: bool) -> None:
    line = Line()

    line.notify(TEXT_WITH_LINE_ENDS, {})
    text = line.in_pieces(TEXT_WITH_LINE_ENDS) if in_pieces else TEXT_WITH_LINE_ENDS
    line.result({TEXT_WITH_LINE_ENDS: text})

    data = [json.loads(text[6:]) for text in b"".join(line.sent).decode().splitlines() if text.startswith("data: ")]
    assert data[0]["method"] == TEXT_WITH_LINE_ENDS
    assert data[-1] == {TEXT_WITH_LINE_ENDS: TEXT_WITH_LINE_ENDS}


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize("is_open", [False, True])
def test_a_long_result_is_one_json_object_unless_a_stream_is_open(in_pieces: bool, is_open: bool) -> None:
    line, text = Line(), "\u2028" * 1_000_000
    if is_open:
        line.keep_alive()

    assert line.result({"text": line.in_pieces(text) if in_pieces else text}) is None

    [(_, headers)] = line.opened
    assert headers["Content-Type"] == ("text/event-stream" if is_open else "application/json")
    assert json.loads(b"".join(line.sent).split(b"data: ")[-1]) == {"text": text}


@pytest.mark.parametrize(("takes_stream", "takes_json"), [(False, True), (True, True), (True, False)])
@pytest.mark.parametrize("text", ["x" * 6_200_001, '"' * 2_200_000])  # a body is a text, in which a quote has 4 bytes
def test_without_streaming_an_answer_of_more_than_6_mb_is_an_error(
    text: str, *, takes_stream: bool, takes_json: bool
) -> None:
    exchange = Exchange("r")
    exchange.choose_form(streams=takes_stream, may_stream=False, takes_stream=takes_stream, takes_json=takes_json)
    exchange.notify("m", {})

    response = exchange.finish(exchange.result({"jsonrpc": "2.0", "id": 7, "result": {"text": text}}))

    assert response
    begin = b"" if takes_json else b"event: message\ndata: "
    assert response.body.startswith(begin)
    answer: Any = json.loads(response.body.removeprefix(begin))
    assert (answer["id"], answer["error"]["code"]) == (7, -32603)
    assert "The request was carried out, but its answer has more than 6 MB" in answer["error"]["message"]


def test_an_error_has_its_http_status_unless_a_stream_is_open() -> None:
    line = Line()

    error_before_stream = line.error(404, {"error": 1})
    line.notify("m", {})
    error_in_stream = line.error(404, {"error": 2})

    assert error_before_stream is not None
    assert (error_before_stream.status, body(error_before_stream)) == (404, {"error": 1})
    assert error_in_stream is None
    assert b'{"error":2}' in line.sent[-1]


def test_a_client_that_accepts_only_streams_gets_an_event_and_errors_keep_their_status() -> None:
    line = Line()
    line.choose_form(streams=False, may_stream=False, takes_stream=True, takes_json=False)

    refused = line.error(400, {"error": 1})
    assert line.error(200, {"error": 2}) is None
    assert line.result(ANSWER) is None

    assert refused is not None
    assert (refused.status, len(line.sent)) == (400, 2)


def test_nothing_is_written_after_a_client_has_disconnected() -> None:
    line = Line(patience=1)

    line.notify("first", {})
    states = [line.gone]
    line.notify("second", {})
    assert [*states, line.gone] == [False, True]
    line.patience = 1000
    line.notify("third", {})

    assert line.result(ANSWER) is None
    assert len(line.sent) == 1


def test_a_client_may_disconnect_while_the_stream_opens() -> None:
    class ClosingLine(Line):
        def open_stream(self, status: int, headers: Mapping[str, str]) -> "Line":
            super().open_stream(status, headers)
            raise ClientGone

    line = ClosingLine()

    line.notify("m", {})

    assert line.gone
    assert line.result(ANSWER) is None


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("\ud800", "\ufffd"),
        ("\\\udfff\\ud800", "\\\ufffd\\ud800"),
        ("\\ud800", "\\ud800"),
        ("🎉\ud83c", "🎉\ufffd"),
        ("\udf89\ud83c" + "\udf89\udf89", "\ufffd🎉\ufffd"),
    ],
)
def test_lone_surrogates_do_not_break_a_reply(text: str, sent: str) -> None:
    line = Line()
    line.keep_alive()
    line.result({"text": line.in_pieces(text), "beside": text})

    assert body(json_response(200, {text: text})) == {sent: sent}
    assert json.loads(b"".join(line.sent).split(b"data: ")[-1]) == {"text": sent, "beside": sent}
    message = {"id": "\ud800", "result": text}
    assert body(json_response(200, message)) == json.loads(json.dumps(message))  # JSON joins the halves of a pair
