"""Reading proxy events, and results in their formats."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.exceptions import EventError
from mcp_baton.protocol.http import HttpRequest, HttpResponse
from mcp_baton.transport import events
from mcp_baton.transport.events import UnreadableBody, format_of, http_request
from tests.examples import JSON

REST: dict[str, Any] = {
    "resource": "/mcp",
    "path": "/mcp",
    "httpMethod": "POST",
    "headers": {"Accept": "text/event-stream", "Content-Type": "application/json", "Host": "a1b2c3.execute-api.eu"},
    "multiValueHeaders": {
        "Accept": ["application/json", "text/event-stream"],
        "Content-Type": ["application/json"],
        "Host": ["a1b2c3.execute-api.eu"],
    },
    "queryStringParameters": None,
    "pathParameters": None,
    "stageVariables": None,
    "requestContext": {
        "accountId": "123456789012",
        "apiId": "a1b2c3",
        "domainName": "a1b2c3.execute-api.eu",
        "httpMethod": "POST",
        "identity": {"sourceIp": "192.0.2.7", "userArn": None, "apiKeyId": None},
        "path": "/prod/mcp",
        "requestId": "f4f8c9d1-rest",
        "resourcePath": "/mcp",
        "stage": "prod",
    },
    "body": '{"jsonrpc":"2.0","id":1,"method":"ping"}',
    "isBase64Encoded": False,
}
HTTP_API: dict[str, Any] = {
    "version": "2.0",
    "routeKey": "$default",
    "rawPath": "/prod/mcp",
    "rawQueryString": "",
    "cookies": ["theme=dark", "lang=de"],
    "headers": {"accept": "application/json,text/event-stream", "content-type": "application/json"},
    "requestContext": {
        "accountId": "123456789012",
        "apiId": "d4e5f6",
        "http": {"method": "POST", "path": "/prod/mcp", "protocol": "HTTP/1.1", "sourceIp": "192.0.2.7"},
        "requestId": "JKJaXmPLvHcESHA=",
        "routeKey": "$default",
        "stage": "prod",
    },
    "body": '{"jsonrpc":"2.0","id":1,"method":"ping"}',
    "isBase64Encoded": False,
}
FUNCTION_URL: dict[str, Any] = {
    **HTTP_API,
    "rawPath": "/mcp",
    "requestContext": {**HTTP_API["requestContext"], "stage": "$default", "domainName": "xyz.lambda-url.eu.on.aws"},
}


def parse_event(event: object) -> HttpRequest:
    form, http_event = format_of(event)
    return http_request(http_event, form, allow_anonymous=True)


def http_api(*, stage: str = "prod", **members: Any) -> HttpRequest:
    return parse_event(HTTP_API | {"requestContext": HTTP_API["requestContext"] | {"stage": stage}} | members)


@pytest.mark.parametrize("event", [REST, HTTP_API, FUNCTION_URL], ids=["rest", "http api", "function url"])
def test_every_kind_of_event_yields_the_same_request(event: dict[str, Any]) -> None:
    incoming = parse_event(event)
    assert (incoming.method, incoming.path) == ("POST", "/mcp")
    assert incoming.body == b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    assert incoming.headers["content-type"] == "application/json"
    assert incoming.headers["accept"].replace(" ", "") == "application/json,text/event-stream"
    assert (incoming.owner, incoming.source) == ("anonymous", "192.0.2.7")


@pytest.mark.parametrize("event", [REST, HTTP_API])
@pytest.mark.parametrize(
    ("body", "encoded"), [("%%%", True), ("Zm9v\n", True), ("ü", True), ("YQ", True), ("\ud800", False)]
)
def test_an_invalid_body_is_the_clients_mistake(event: dict[str, Any], body: str, encoded: bool) -> None:
    with pytest.raises(UnreadableBody):
        parse_event(event | {"body": body, "isBase64Encoded": encoded})


def test_repeated_headers_are_joined_and_replace_single_ones() -> None:
    event = REST | {"headers": {"X-A": "last", "X-B": "only here"}, "multiValueHeaders": {"x-a": ["first", "last"]}}
    assert parse_event(event).headers == {"x-a": "first, last", "x-b": "only here"}


@pytest.mark.parametrize("members", [{"headers": None, "multiValueHeaders": None}, {"headers": {"X": None}}])
def test_null_headers_are_ignored(members: dict[str, Any]) -> None:
    assert parse_event({"httpMethod": "GET", "path": "/mcp"} | members).headers == {}


def test_header_names_are_lowercased() -> None:
    event = REST | {"headers": {"CONTENT-TYPE": "a", "mcp-Protocol-VERSION": "b"}, "multiValueHeaders": None}
    assert parse_event(event).headers == {"content-type": "a", "mcp-protocol-version": "b"}


def test_cookies_of_format_2_become_one_header() -> None:
    assert parse_event(HTTP_API).headers["cookie"] == "theme=dark; lang=de"
    assert "cookie" not in http_api(cookies=[]).headers


@pytest.mark.parametrize(
    ("members", "path"),
    [
        ({"resource": "/mcp", "path": "/orders/mcp"}, "/mcp"),
        ({"resource": "/{proxy+}", "path": "/mcp"}, "/mcp"),
        ({"resource": "/{proxy+}", "path": "/orders/mcp", "pathParameters": {"proxy": "mcp"}}, "/mcp"),
        ({"resource": "/{proxy+}", "path": "/a/b/c", "pathParameters": {"proxy": "b/c"}}, "/b/c"),
        ({"resource": "/{a}/{b+}", "path": "/x/{b+}/y", "pathParameters": {"a": "{b+}", "b": "y"}}, "/{b+}/y"),
        ({"resource": "/{proxy+}", "path": "/mcp", "pathParameters": {"proxy": None}}, "/mcp"),
        ({"resource": "$default", "path": "/mcp"}, "/mcp"),
        ({"resource": None, "path": "/mcp"}, "/mcp"),
        ({"resource": "/", "path": "/orders"}, "/"),
    ],
)
def test_a_rest_path_does_not_have_the_base_path_of_a_custom_domain(members: dict[str, Any], path: str) -> None:
    assert parse_event(REST | members).path == path


@pytest.mark.parametrize(
    ("stage", "raw", "route", "path"),
    [
        ("prod", "/prod/mcp", "$default", "/mcp"),
        ("prod", "/prod", "$default", "/"),
        ("prod", "/production/mcp", "$default", "/production/mcp"),
        ("prod", "/mcp", "$default", "/mcp"),
        ("$default", "/$default/mcp", "$default", "/$default/mcp"),
        ("prod", "/prod/mcp", "ANY /{proxy+}", "/mcp"),
        ("mcp", "/mcp", "POST /mcp", "/mcp"),
        ("prod", "/orders/mcp", "POST /mcp", "/mcp"),
    ],
)
def test_a_format_2_path_does_not_have_its_stage(stage: str, raw: str, route: str, path: str) -> None:
    assert http_api(stage=stage, rawPath=raw, routeKey=route).path == path


@pytest.mark.parametrize("raw", ["/mcp", "/tools/mcp", "/tools/v1/mcp"])
def test_a_format_2_path_of_a_greedy_route_does_not_have_the_base_path_of_a_custom_domain(raw: str) -> None:
    parameters = {"proxy": "mcp"}
    assert http_api(stage="v1", rawPath=raw, routeKey="ANY /{proxy+}", pathParameters=parameters).path == "/mcp"


@pytest.mark.parametrize(
    ("event", "culprit"),
    [
        ({"Records": [{"eventSource": "aws:sqs"}]}, "Records"),
        ({"lone \ud800": 1}, r"members: lone \\ud800\)"),
        ({}, "none"),
        ([], "list"),
        (None, "NoneType"),
        ({"httpMethod": "POST"}, "path"),
        ({"httpMethod": None, "path": "/mcp"}, "httpMethod"),
        ({"version": "2.0", "rawPath": "/mcp"}, "method"),
        (REST | {"headers": {"X": 1}, "multiValueHeaders": None}, "X"),
        (REST | {"multiValueHeaders": {"X": ["a", 1]}}, "X"),
        (REST | {"headers": "X: a"}, "headers"),
        (REST | {"body": {"jsonrpc": "2.0"}}, "body"),
        (HTTP_API | {"cookies": [1]}, "cookie"),
        (HTTP_API | {"requestContext": {"http": []}}, "http"),
    ],
)
def test_an_event_of_another_kind_is_refused_with_the_reason(event: object, culprit: str) -> None:
    with pytest.raises(EventError, match=culprit) as error_info:
        parse_event(event)
    assert "API Gateway" in str(error_info.value)


MEMBERS = sorted({*REST, *HTTP_API})


@given(st.dictionaries(st.sampled_from(MEMBERS), JSON, max_size=4), st.sampled_from([{}, REST, HTTP_API]))
def test_any_event_is_parsed_or_raises_an_event_error(members: dict[str, Any], base: dict[str, Any]) -> None:
    try:
        incoming = parse_event(base | members)
    except (EventError, UnreadableBody):
        return
    assert isinstance(incoming.method, str)
    assert isinstance(incoming.path, str)
    assert isinstance(incoming.body, bytes)
    assert all(isinstance(part, str) for pair in incoming.headers.items() for part in pair)


@pytest.mark.parametrize("event", [REST, HTTP_API])
@given(body=st.binary())
def test_every_response_has_its_exact_bytes(event: dict[str, Any], body: bytes) -> None:
    answer = format_of(event)[0].result(HttpResponse(200, {}, body))
    encoded = answer["isBase64Encoded"]
    assert (base64.b64decode(answer["body"]) if encoded else answer["body"].encode()) == body


def test_format_2_responses_have_separate_cookies() -> None:
    response = HttpResponse(200, {"Set-Cookie": "a=1", "X": "y"})
    assert events.HTTP_API.result(response)["cookies"] == ["a=1"]
    assert events.HTTP_API.result(response)["headers"] == {"X": "y"}
    assert events.REST_API.result(response)["headers"] == {"Set-Cookie": "a=1", "X": "y"}
