"""JSON-RPC messages: requests of clients and replies."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.json import MAX_DEPTH
from mcp_baton.protocol.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    Malformed,
    Notification,
    RequestMessage,
    Response,
    error_message,
    parse_body,
    parse_message,
)
from tests.examples import JSON

PING: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def parse(value: object) -> object:
    return parse_body(json.dumps(value).encode())


def refusal_of(body: bytes) -> ProtocolError:
    with pytest.raises(ProtocolError) as error_info:
        parse_body(body)
    return error_info.value


@pytest.mark.parametrize("request_id", [1, 0, -7, 2**70, "", "a-1", "ü"])
def test_a_request_keeps_its_id_as_it_is(request_id: str | int) -> None:
    assert parse({**PING, "id": request_id}) == RequestMessage(request_id, "ping", {})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"result": {"a": 1}}, Response(7, {"a": 1}, None), id="result"),
        pytest.param({"result": {}, "error": None}, Response(7, {}, None), id="result and a null error"),
        pytest.param({"error": {"code": 1}}, Response(7, None, {"code": 1}), id="error"),
    ],
)
def test_a_clients_response_is_distinguished_from_a_request(fields: dict[str, Any], expected: Response) -> None:
    assert parse({"jsonrpc": "2.0", "id": 7, **fields}) == expected


@pytest.mark.parametrize(
    ("message", "known_id", "code"),
    [
        pytest.param(None, None, INVALID_REQUEST, id="null"),
        pytest.param("ping", None, INVALID_REQUEST, id="a string"),
        pytest.param(7, None, INVALID_REQUEST, id="a number"),
        pytest.param({}, None, INVALID_REQUEST, id="an empty object"),
        pytest.param({"id": 1, "method": "ping"}, 1, INVALID_REQUEST, id="no jsonrpc"),
        pytest.param({**PING, "jsonrpc": "1.0"}, 1, INVALID_REQUEST, id="another jsonrpc"),
        pytest.param({**PING, "jsonrpc": 2.0}, 1, INVALID_REQUEST, id="jsonrpc as a number"),
        pytest.param({"jsonrpc": "2.0", "id": 1}, 1, INVALID_REQUEST, id="no method"),
        pytest.param({**PING, "method": 5}, 1, INVALID_REQUEST, id="method is not a string"),
        pytest.param({**PING, "method": None}, 1, INVALID_REQUEST, id="method is null"),
        pytest.param({**PING, "id": None}, None, INVALID_REQUEST, id="id is null"),
        pytest.param({**PING, "id": True}, None, INVALID_REQUEST, id="id is a boolean"),
        pytest.param({**PING, "id": 1.5}, None, INVALID_REQUEST, id="id is a fraction"),
        pytest.param({**PING, "id": [1]}, None, INVALID_REQUEST, id="id is a list"),
        pytest.param({**PING, "id": "i" * 1_001}, None, INVALID_REQUEST, id="id is long"),
        pytest.param({**PING, "params": []}, 1, INVALID_PARAMS, id="params is a list"),
        pytest.param({**PING, "params": "x"}, 1, INVALID_PARAMS, id="params is a string"),
        pytest.param({"jsonrpc": "2.0", "result": {}}, None, INVALID_REQUEST, id="a response without an id"),
        pytest.param({"jsonrpc": "2.0", "id": 1, "result": 5}, 1, INVALID_REQUEST, id="result is not an object"),
        pytest.param({"jsonrpc": "2.0", "id": 1, "error": "x"}, 1, INVALID_REQUEST, id="error is not an object"),
        pytest.param({"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}}, 1, INVALID_REQUEST, id="both"),
    ],
)
def test_a_malformed_message_is_refused_with_any_id_it_has(message: object, known_id: int | None, code: int) -> None:
    malformed = parse(message)

    assert isinstance(malformed, Malformed)
    assert (malformed.id, malformed.error.code) == (known_id, code)


def test_null_stands_for_an_optional_member_that_is_left_out() -> None:
    assert parse({**PING, "params": None}) == parse(PING)
    params = {"_meta": {"progressToken": None, "a": 1}, "cursor": None, "arguments": {"keep": None}, "result": None}
    message = parse({**PING, "params": params})
    assert isinstance(message, RequestMessage)
    assert message.params == {"_meta": {"a": 1}, "arguments": {"keep": None}, "result": None}
    assert parse({"jsonrpc": "2.0", "id": None, "method": "notifications/initialized"}) == Notification(
        "notifications/initialized", {}
    )


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"   ", id="blanks"),
        pytest.param(b"{", id="cut off"),
        pytest.param(b"{'a': 1}", id="python"),
        pytest.param(b'{"a": 1} {"b": 2}', id="two values"),
        pytest.param(b'{"a": NaN}', id="NaN"),
        pytest.param(b'{"a": 1e999}', id="a number beyond floats"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}", id="a number of 5000 digits"),
        pytest.param(b'{"a": "\xff"}', id="not UTF-8"),
        pytest.param(b'{"a": "\xed\xa0\x80"}', id="a surrogate in UTF-8"),
        pytest.param('{"a": 1}'.encode("utf-16"), id="UTF-16"),
    ],
)
def test_a_body_that_is_not_json_in_utf8_is_a_parse_error(body: bytes) -> None:
    assert refusal_of(body).code == PARSE_ERROR


def deep_body(levels: int, innermost: str) -> bytes:
    """Return a request whose body has `levels` levels of containers."""
    inner_levels = {"1": 0, "[]": 1}.get(innermost, 2)
    containers = "[" * (levels - 2 - inner_levels) + innermost + "]" * (levels - 2 - inner_levels)
    return b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + containers.encode() + b"}}"


@pytest.mark.parametrize("innermost", ["1", "[]", '[[], ["x"]]'])
def test_a_body_may_have_at_most_64_levels(innermost: str) -> None:
    assert isinstance(parse_body(deep_body(MAX_DEPTH, innermost)), RequestMessage)
    for body in (deep_body(MAX_DEPTH + 1, innermost), b"[" * 100_000):
        error = refusal_of(body)
        assert (error.code, "64" in error.message) == (INVALID_REQUEST, True)


def test_brackets_inside_strings_do_not_count_as_levels() -> None:
    assert isinstance(parse({**PING, "params": {"text": "[{" * 500}}), RequestMessage)


@pytest.mark.parametrize("size", [0, 1, 2])
def test_a_batch_is_refused(size: int) -> None:
    assert refusal_of(json.dumps([PING] * size).encode()).code == INVALID_REQUEST


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": JSON,
        "method": st.just("ping") | JSON,
        "params": JSON,
        "result": JSON,
        "error": JSON,
    },
)


@given(FIELDS | JSON)
def test_every_json_value_is_classified_without_an_exception(value: Any) -> None:
    message = parse_message(value)

    assert isinstance(message, RequestMessage | Notification | Response | Malformed)
    if isinstance(message, Malformed):
        assert message.error.code in {INVALID_REQUEST, INVALID_PARAMS}


@given(st.binary(max_size=40))
def test_every_body_is_parsed_or_refused(body: bytes) -> None:
    try:
        outcome: object = parse_body(body)
    except ProtocolError as error:
        outcome = error

    if isinstance(outcome, ProtocolError):
        assert outcome.code in {PARSE_ERROR, INVALID_REQUEST}
    else:
        assert isinstance(outcome, RequestMessage | Notification | Response | Malformed | list)


@pytest.mark.parametrize("data", [{}, [], 0, "", False])
def test_an_errors_data_is_sent_even_if_it_is_empty(data: Any) -> None:
    error = error_message(1, ProtocolError(-32602, "no", data))["error"]

    assert isinstance(error, dict)
    assert error["data"] == data
