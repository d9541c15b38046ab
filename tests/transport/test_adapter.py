"""The Lambda handler around an application."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from mcp_baton.exceptions import EventError
from mcp_baton.protocol.http import HttpRequest, HttpResponse
from mcp_baton.transport.adapter import LambdaAdapter
from mcp_baton.transport.exchange import Application, Exchange
from tests.fakes import FunctionContext, Wire, listening

REST: dict[str, Any] = {
    "resource": "/mcp",
    "path": "/mcp",
    "httpMethod": "POST",
    "headers": {"Content-Type": "application/json", "X-User": "mallory"},
    "requestContext": {"requestId": "gateway-id", "authorizer": {"claims": {"sub": "kim"}}},
    "body": "{}",
    "isBase64Encoded": False,
}
HTTP_API: dict[str, Any] = {
    "version": "2.0",
    "routeKey": "$default",
    "rawPath": "/mcp",
    "headers": {},
    "requestContext": {"http": {"method": "POST"}, "stage": "$default", "requestId": "gateway-id"},
    "body": "{}",
}


CONTEXT = FunctionContext(lambda: 1234, "lambda-id")


def adapt(app: Application, *, allow_anonymous: bool = False, streaming: bool = True) -> LambdaAdapter:
    return LambdaAdapter(app, allow_anonymous=allow_anonymous, streaming=streaming)


def send_stream(request: HttpRequest, exchange: Exchange) -> None:
    sink = exchange.open_stream(200, {"Content-Type": "text/event-stream"})
    sink.write(b"data: 1\n\n")
    sink.write(b"data: 2\n\n")


def fail(request: HttpRequest, exchange: Exchange) -> HttpResponse | None:
    raise LookupError("the secret cause")


def fail_in_stream(request: HttpRequest, exchange: Exchange) -> HttpResponse | None:
    exchange.open_stream(200, {}).write(b"started")
    raise LookupError("the secret cause")


def recording_app(record: Callable[[HttpRequest, Exchange], object]) -> Application:
    def app(request: HttpRequest, exchange: Exchange) -> HttpResponse:
        record(request, exchange)
        return HttpResponse(204)

    return app


def test_a_stream_is_sent_to_its_receiver_and_the_return_value_is_empty() -> None:
    with listening(Wire()) as wire:
        assert adapt(with_added_headers(send_stream))(REST, CONTEXT) == {}
    assert wire.heads == [(200, {**ADDED, "Content-Type": "text/event-stream"})]
    assert wire.data == b"data: 1\n\ndata: 2\n\n"


@pytest.mark.parametrize(("app", "streaming"), [(send_stream, False), (recording_app(lambda *_: None), True)])
def test_a_whole_response_does_not_open_the_stream(app: Application, streaming: bool) -> None:
    with listening(Wire()) as wire:
        answer = adapt(app, streaming=streaming)(REST, CONTEXT)
    assert answer["body"] == ("" if streaming else "data: 1\n\ndata: 2\n\n")
    assert wire.heads == []


def test_an_exchange_has_the_request_id_and_the_current_time_left() -> None:
    remaining_ms, readings = [1234], list[tuple[str, int | None]]()

    def record(_: HttpRequest, exchange: Exchange) -> None:
        readings.append((exchange.request_id, exchange.remaining_ms()))
        remaining_ms[0] -= 1
        readings.append((exchange.request_id, exchange.remaining_ms()))

    handler, context = adapt(recording_app(record)), FunctionContext(lambda: remaining_ms[0])
    handler(REST, context)
    handler(REST, None)
    handler(REST, context, "known-id")
    assert readings == [
        *(("gateway-id", 1234), ("gateway-id", 1233), ("gateway-id", None), ("gateway-id", None)),
        *(("known-id", 1232), ("known-id", 1231)),
    ]


@pytest.mark.parametrize("event", [REST, HTTP_API])
def test_an_invalid_body_is_a_bad_request_and_does_not_reach_the_application(event: dict[str, Any]) -> None:
    answer = adapt(fail)(event | {"body": "%%%", "isBase64Encoded": True}, CONTEXT)
    assert answer["statusCode"] == 400
    assert json.loads(answer["body"])["requestId"] == "gateway-id"


def test_an_event_that_is_not_http_raises() -> None:
    with pytest.raises(EventError):
        adapt(fail)({"Records": []}, CONTEXT)


def test_an_unexpected_exception_is_logged_and_not_shown_to_the_client(caplog: pytest.LogCaptureFixture) -> None:
    answer = adapt(fail)(REST, CONTEXT)
    assert answer["statusCode"] == 500
    assert answer["headers"]["Content-Type"] == "application/json"
    assert json.loads(answer["body"]) == {"error": "internal error", "requestId": "gateway-id"}
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert "gateway-id" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[0] is LookupError


def test_an_exception_in_a_stream_is_raised_to_the_receiver(caplog: pytest.LogCaptureFixture) -> None:
    with listening(Wire()) as wire, pytest.raises(LookupError, match="the secret cause"):
        adapt(fail_in_stream)(REST, CONTEXT)
    assert wire.data == b"started"
    assert caplog.records == []


def test_a_client_that_disconnects_is_not_an_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with listening(Wire(gone=True)):
        assert adapt(send_stream)(REST, CONTEXT) == {}
    assert [record.levelno for record in caplog.records] == [logging.INFO]


ADDED = {"Vary": "Origin", "X-Added": "yes"}


def with_added_headers(app: Application) -> Application:
    def add(request: HttpRequest, exchange: Exchange) -> HttpResponse | None:
        exchange.add_headers({"Vary": "Origin"})
        exchange.add_headers({"X-Added": "yes"})
        return app(request, exchange)

    return add


@pytest.mark.parametrize(
    ("app", "status", "own_headers"),
    [
        (lambda *_: HttpResponse(200, {"Vary": "Accept", "X": "y"}), 200, {"Vary": "Accept", "X": "y"}),
        (send_stream, 200, {"Content-Type": "text/event-stream"}),
        (fail, 500, {"Content-Type": "application/json"}),
    ],
    ids=["a whole response", "a stream in memory", "failed"],
)
def test_added_headers_are_on_every_response_but_do_not_replace_its_own(
    app: Application, status: int, own_headers: dict[str, str]
) -> None:
    answer = adapt(with_added_headers(app))(REST, CONTEXT)
    assert (answer["statusCode"], answer["headers"]) == (status, {**ADDED, **own_headers})


def test_added_headers_apply_to_one_response_only() -> None:
    def app(request: HttpRequest, exchange: Exchange) -> HttpResponse:
        if request.path == "/mcp":
            exchange.add_headers(ADDED)
        return HttpResponse(200)

    adapter = adapt(app)
    answers = [adapter({**REST, "resource": path}, CONTEXT) for path in ("/mcp", "/other")]
    assert [answer["headers"] for answer in answers] == [ADDED, {}]
