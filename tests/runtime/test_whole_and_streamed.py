from pathlib import Path
from typing import Any

import pytest

from emulators.delivery import Reaction
from emulators.runtime_api import RuntimeApi
from tests.runtime.conftest import Start


def test_a_handler_that_opens_no_stream_sends_a_whole_response(api: RuntimeApi, start: Start) -> None:
    start("plain.whole")
    answer = api.invoke({"name": "Zoë"}).wait()
    assert answer.kind == "response"
    assert answer.json() == {
        "event": {"name": "Zoë"},
        "can_stream": True,
        "request_id": "00000000-0000-4000-8000-000000000001",
    }
    assert "lambda-runtime-function-response-mode" not in answer.headers


def test_a_streamed_response_has_api_gateways_format_and_the_return_value_is_ignored(
    api: RuntimeApi, start: Start
) -> None:
    function = start("plain.streamed")
    event = {"status": 207, "headers": {"Content-Type": "text/event-stream"}, "parts": ["one ", "", "two"]}
    answer = api.invoke(event).wait()
    assert (answer.kind, answer.whole) == ("response", True)
    assert answer.headers["content-type"] == "application/vnd.awslambda.http-integration-response"
    assert answer.headers["lambda-runtime-function-response-mode"] == "streaming"
    assert answer.headers["transfer-encoding"] == "chunked"
    assert answer.headers["trailer"] == "Lambda-Runtime-Function-Error-Type, Lambda-Runtime-Function-Error-Body"
    assert answer.prelude == {"statusCode": 207, "headers": {"Content-Type": "text/event-stream"}}
    assert answer.chunks[1:] == [b"one ", b"two"]
    assert answer.trailers == {}
    # The handler's return value is not even JSON.
    assert b"ERROR" not in function.log.read_bytes()


SEVERAL = {"link": ["<a>", "<b>"], "X-Two": ["2"]}
PROXY_RESPONSES = [
    (
        {
            "statusCode": 202,
            "headers": {"Content-Type": "text/html", "X-Retry": 3},
            "body": "ä",
            "isBase64Encoded": False,
        },
        {"statusCode": 202, "headers": {"Content-Type": "text/html", "X-Retry": "3"}},
        "ä".encode(),
    ),
    (
        {
            "statusCode": 200,
            "headers": {"Link": "<a>", "X-One": "1"},
            "multiValueHeaders": SEVERAL,
            "cookies": ["a=1", "b=2"],
            "body": "AP/+",
            "isBase64Encoded": True,
        },
        {"statusCode": 200, "headers": {"X-One": "1"}, "multiValueHeaders": SEVERAL, "cookies": ["a=1", "b=2"]},
        b"\x00\xff\xfe",
    ),
    ({"statusCode": 204}, {"statusCode": 204, "headers": {}}, b""),
]


def test_a_proxy_response_is_streamed_as_a_streaming_integration_requires(api: RuntimeApi, start: Start) -> None:
    start("plain.returned")
    for response, prelude, body in PROXY_RESPONSES:
        answer = api.invoke(response).wait()
        assert (answer.kind, answer.whole, answer.trailers) == ("response", True, {})
        assert answer.headers["content-type"] == "application/vnd.awslambda.http-integration-response"
        assert answer.headers["lambda-runtime-function-response-mode"] == "streaming"
        assert (answer.prelude, answer.streamed) == (prelude, body)


def test_any_other_return_value_is_posted_as_it_is(api: RuntimeApi, start: Start) -> None:
    start("plain.returned", AWS_EXECUTION_ENV="AWS_Lambda_python3.13")  # there, awslambdaric escapes no character
    values: list[object] = [None, "done", "lone \ud800", 7, [1], {}, {"batchItemFailures": []}, {"statusCode": "done"}]
    for value in values:
        answer = api.invoke(value).wait()
        assert (answer.kind, answer.json()) == ("response", value)
        assert "lambda-runtime-function-response-mode" not in answer.headers


def test_an_invalid_proxy_response_is_a_function_error(api: RuntimeApi, start: Start) -> None:
    start("plain.returned")
    wrong: Any = {"body": {}}, {"body": "%", "isBase64Encoded": True}, {"headers": ["a"]}
    for member in (*wrong, {"multiValueHeaders": {"A": [{}]}}):
        answer = api.invoke({"statusCode": 200, **member}).wait()
        error: Any = answer.json()
        assert (answer.kind, error["errorType"]) == ("error", "MalformedProxyResponse"), member


def test_a_disconnect_during_a_proxy_response_does_not_stop_the_runtime(api: RuntimeApi, start: Start) -> None:
    function = start("plain.returned")
    api.invoke({"statusCode": 200, "body": "a"}, Reaction(after_chunks=1, hang_up=True)).wait()
    assert api.invoke({"statusCode": 200, "body": "b"}).wait().streamed == b"b"
    assert b"ERROR" not in function.log.read_bytes()


def test_headers_with_several_values_and_cookies_have_their_own_members(api: RuntimeApi, start: Start) -> None:
    start("plain.streamed")
    headers = {"X-One": "1", "Link": ["<a>; rel=next", "<b>; rel=last"], "Set-Cookie": ["a=1", "b=2"]}
    answer = api.invoke({"headers": headers, "parts": [""]}).wait()
    assert answer.prelude == {
        "statusCode": 200,
        "headers": {"X-One": "1"},
        "multiValueHeaders": {"Link": ["<a>; rel=next", "<b>; rel=last"]},
        "cookies": ["a=1", "b=2"],
    }


def test_a_part_is_delivered_while_the_handler_still_runs(api: RuntimeApi, start: Start, gate: Path) -> None:
    start("plain.streamed")
    answer = api.invoke({"parts": ["first", "last"], "gate": str(gate)})
    assert answer.wait_chunks(2)[1:] == [b"first"]
    gate.write_bytes(b"")
    assert answer.wait().streamed == b"firstlast"


def test_whole_and_streamed_responses_reuse_two_connections(api: RuntimeApi, start: Start) -> None:
    start("plain.large")
    connections = {"whole": set[int](), "streamed": set[int]()}
    for number in range(40):
        whole_answer = api.invoke({"whole": True, "size": number}).wait()
        assert whole_answer.json() == "x" * number
        streamed_answer = api.invoke({"count": 3, "size": number + 1}).wait()
        assert streamed_answer.streamed == b"".join(bytes([piece]) * (number + 1) for piece in range(3))
        connections["whole"].add(whole_answer.connection)
        connections["streamed"].add(streamed_answer.connection)
    large_answer = api.invoke({"count": 12, "size": 1_000_003}).wait()
    assert large_answer.streamed == b"".join(bytes([piece]) * 1_000_003 for piece in range(12))
    assert len({*connections["streamed"], large_answer.connection}) == 1
    assert not connections["streamed"] & connections["whole"]


def test_the_invocation_id_is_returned_and_a_large_event_reaches_the_handler(api: RuntimeApi, start: Start) -> None:
    start("plain.streamed")
    part = "ü" * 3_000_000
    answer_with_id = api.invoke({"parts": [part]}, headers={"Lambda-Runtime-Invocation-Id": "b1946ac9"}).wait()
    answer_without_id = api.invoke({"parts": ["a"]}).wait()
    assert answer_with_id.streamed == part.encode()
    assert answer_with_id.headers["lambda-runtime-invocation-id"] == "b1946ac9"
    assert "lambda-runtime-invocation-id" not in answer_without_id.headers


def test_a_second_stream_is_rejected(api: RuntimeApi, start: Start) -> None:
    start("plain.twice")
    assert api.invoke({}).wait().streamed == b"RuntimeError"


def test_a_stream_of_an_ended_invocation_cannot_write_to_the_next(api: RuntimeApi, start: Start) -> None:
    start("plain.lingering")
    api.invoke({}).wait()
    assert api.invoke({}).wait().streamed == b"mine ClientGone ClientGone"


@pytest.mark.parametrize("reaction", [Reaction(then_close=True), Reaction(headers={"Connection": "close"})])
def test_a_connection_closed_between_invocations_is_reopened(api: RuntimeApi, start: Start, reaction: Reaction) -> None:
    start("plain.streamed")
    first_answer = api.invoke({"parts": ["a"]}, reaction).wait()
    second_answer = api.invoke({"parts": ["b"]}).wait()
    third_answer = api.invoke({"parts": ["c"]}).wait()
    assert [answer.streamed for answer in (first_answer, second_answer, third_answer)] == [b"a", b"b", b"c"]
    assert first_answer.connection != second_answer.connection == third_answer.connection
