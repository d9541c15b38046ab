"""A request's era, revision, capabilities and options, read from the request alone."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.envelope import (
    CAPABILITIES_KEY,
    HANDSHAKE_REVISIONS,
    LOG_LEVEL_KEY,
    REVISIONS,
    TASKS_EXTENSION,
    VERSION_KEY,
    Era,
    classify,
    decode_header,
)
from mcp_baton.protocol.jsonrpc import (
    HEADER_MISMATCH,
    HTTP_STATUS,
    INVALID_PARAMS,
    UNSUPPORTED_PROTOCOL_VERSION,
    Notification,
    RequestMessage,
)

STATELESS = "2026-07-28"
META: dict[str, Any] = {VERSION_KEY: STATELESS, CAPABILITIES_KEY: {}}


def request(method: str = "tools/list", meta: Any = None, **params: Any) -> RequestMessage:
    return RequestMessage(1, method, params if meta is None else {**params, "_meta": meta})


def headers(method: str = "tools/list", version: str = STATELESS, name: str = "") -> dict[str, str]:
    return {"mcp-protocol-version": version, "mcp-method": method, **({"mcp-name": name} if name else {})}


def refusal_of(message: RequestMessage | Notification, http_headers: dict[str, str]) -> ProtocolError:
    with pytest.raises(ProtocolError) as error_info:
        classify(message, http_headers)
    return error_info.value


@pytest.mark.parametrize("revision", HANDSHAKE_REVISIONS)
def test_a_handshake_request_has_the_revision_of_its_header(revision: str) -> None:
    envelope = classify(request(), {"mcp-protocol-version": revision})

    assert (envelope.era, envelope.revision, envelope.capabilities) == (Era.HANDSHAKE, revision, {})


def test_client_capabilities_are_unknown_without_a_session() -> None:
    assert not classify(request(), {"mcp-protocol-version": HANDSHAKE_REVISIONS[0]}).is_known


def test_a_stateless_request_contains_all_its_options() -> None:
    meta = {**META, CAPABILITIES_KEY: {"extensions": {TASKS_EXTENSION: {}}}, "progressToken": "p"}

    envelope = classify(request(meta=meta | {LOG_LEVEL_KEY: "warning"}), headers())

    assert (envelope.era, envelope.revision) == (Era.STATELESS, STATELESS)
    assert (envelope.progress_token, envelope.log_level, envelope.speaks_tasks) == ("p", "warning", True)


@pytest.mark.parametrize(
    "capabilities", [{}, {"extensions": {}}, {"extensions": [TASKS_EXTENSION]}, {"extensions": None}]
)
def test_a_client_supports_tasks_only_if_it_declares_the_extension(capabilities: Any) -> None:
    assert not classify(request(meta={**META, CAPABILITIES_KEY: capabilities}), headers()).speaks_tasks


@pytest.mark.parametrize(
    ("meta", "revision"),
    [(None, "2024-11-05"), *(({**META, VERSION_KEY: text}, text) for text in ("1999-01-01", "2025-11-25", ""))],
)
def test_an_unknown_revision_is_refused_and_the_supported_ones_are_listed(meta: Any, revision: str) -> None:
    refusal = refusal_of(request(meta=meta), headers(version=revision))

    assert refusal.code == UNSUPPORTED_PROTOCOL_VERSION
    assert refusal.data == {"supported": list(REVISIONS), "requested": revision}


@pytest.mark.parametrize(
    ("meta", "http_headers"),
    [
        pytest.param(None, headers(), id="only the header has 2026"),
        pytest.param({CAPABILITIES_KEY: {}}, headers(), id="no version"),
        pytest.param({VERSION_KEY: STATELESS}, headers(), id="no capabilities"),
        pytest.param({**META, VERSION_KEY: 2026}, headers(), id="version is a number"),
        pytest.param({**META, CAPABILITIES_KEY: []}, headers(), id="capabilities are a list"),
        pytest.param({**META, CAPABILITIES_KEY: None}, headers(), id="capabilities are null"),
        pytest.param({**META, "progressToken": True}, headers(), id="progress token is a boolean"),
        pytest.param({**META, "progressToken": 1.5}, headers(), id="progress token is a fraction"),
        pytest.param({**META, "progressToken": {}}, headers(), id="progress token is an object"),
        pytest.param({**META, "progressToken": "p" * 1_001}, headers(), id="progress token is long"),
        pytest.param({**META, LOG_LEVEL_KEY: "loud"}, headers(), id="unknown log level"),
        pytest.param({**META, LOG_LEVEL_KEY: ["info"]}, headers(), id="log level is a list"),
        pytest.param([], {}, id="meta is a list"),
        pytest.param("x", {}, id="meta is a string"),
        pytest.param({"progressToken": False}, {}, id="2025: progress token is a boolean"),
        pytest.param({LOG_LEVEL_KEY: 3}, {}, id="2025: log level is a number"),
    ],
)
def test_malformed_request_metadata_is_invalid_params(meta: Any, http_headers: dict[str, str]) -> None:
    assert refusal_of(request(meta=meta), http_headers).code == INVALID_PARAMS


def test_discovery_is_always_stateless() -> None:
    assert refusal_of(request("server/discover"), {}).code == INVALID_PARAMS
    assert classify(request("server/discover", META), headers("server/discover")).era is Era.STATELESS


def test_the_metadata_of_initialize_decides_its_era_and_its_header_does_not() -> None:
    for http_headers in ({}, headers("initialize"), {"mcp-protocol-version": "2099-01-01"}):
        envelope = classify(request("initialize"), http_headers)
        assert (envelope.era, envelope.revision) == (Era.HANDSHAKE, "2025-03-26")
    # The 2026 revision has no such method, so a request of that revision is refused later.
    assert classify(request("initialize", META), headers("initialize")).era is Era.STATELESS


CALL = request("tools/call", META, name="refund")
CALL_HEADERS = headers("tools/call", name="refund")


@pytest.mark.parametrize(
    ("message", "http_headers"),
    [
        *(
            pytest.param(CALL, {key: CALL_HEADERS[key] for key in CALL_HEADERS if key != missing}, id=f"no {missing}")
            for missing in CALL_HEADERS
        ),
        pytest.param(CALL, CALL_HEADERS | {"mcp-protocol-version": "2025-11-25"}, id="another version"),
        pytest.param(CALL, CALL_HEADERS | {"mcp-method": "tools/list"}, id="another method"),
        pytest.param(CALL, CALL_HEADERS | {"mcp-method": "Tools/Call"}, id="another case"),
        pytest.param(CALL, CALL_HEADERS | {"mcp-name": "cancel"}, id="another name"),
        pytest.param(CALL, CALL_HEADERS | {"mcp-name": "=?base64?!!?="}, id="broken base64"),
        pytest.param(CALL, CALL_HEADERS | {"mcp-name": "=?base64?/w==?="}, id="base64 that is not UTF-8"),
    ],
)
def test_headers_that_contradict_the_body_are_refused(message: RequestMessage, http_headers: dict[str, str]) -> None:
    assert refusal_of(message, http_headers).code == HEADER_MISMATCH


@pytest.mark.parametrize(
    ("method", "field"),
    [
        *(("tools/call", "name"), ("prompts/get", "name"), ("resources/read", "uri")),
        *((f"tasks/{verb}", "taskId") for verb in ("get", "update", "cancel")),
    ],
)
def test_the_name_header_equals_the_methods_field_and_only_tasks_may_omit_it(method: str, field: str) -> None:
    message = request(method, META, **{field: "x"})

    assert classify(message, headers(method, name="x")).era is Era.STATELESS
    assert refusal_of(message, headers(method, name="y")).code == HEADER_MISMATCH
    if method.startswith("tasks/"):
        classify(message, headers(method))
    else:
        assert refusal_of(message, headers(method)).code == HEADER_MISMATCH


def test_a_missing_name_field_is_refused_later_by_the_method() -> None:
    assert classify(request("tools/call", META), headers("tools/call", name="x")).era is Era.STATELESS


@given(st.text())
def test_any_name_can_be_sent_in_base64(name: str) -> None:
    encoded_name = "=?base64?" + base64.b64encode(name.encode()).decode() + "?="

    assert decode_header(encoded_name) == name
    assert classify(request("tools/call", META, name=name), headers("tools/call", name=encoded_name))


@pytest.mark.parametrize("value", ["", "refund", "=?base64?", "=?base64?=", "?=", "=?base64?abc", "=?BASE64?YQ==?="])
def test_a_header_without_the_base64_sentinel_is_unchanged(value: str) -> None:
    assert decode_header(value) == value


@pytest.mark.parametrize("meta", [{}, META, {VERSION_KEY: STATELESS}])
def test_a_notification_needs_no_headers(meta: dict[str, Any]) -> None:
    assert classify(Notification("notifications/cancelled", {"_meta": meta}), {}).progress_token is None


def test_a_notification_of_an_unknown_revision_is_refused() -> None:
    http_headers = {"mcp-protocol-version": "1"}

    assert refusal_of(Notification("notifications/initialized", {}), http_headers).code == UNSUPPORTED_PROTOCOL_VERSION


@pytest.mark.parametrize("token", ["", "t" * 1_000, 0, 7, 2**70])
def test_a_progress_token_is_a_string_or_an_integer(token: str | int) -> None:
    assert classify(request(meta={"progressToken": token}), {}).progress_token == token


@pytest.mark.parametrize("code", [HEADER_MISMATCH, INVALID_PARAMS, UNSUPPORTED_PROTOCOL_VERSION])
def test_every_refusal_has_http_status_400(code: int) -> None:
    assert HTTP_STATUS[code] == 400
