"""Hostile requests through the real handler, many of each kind, in both eras (docs/http.md)."""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.protocol.envelope import CAPABILITIES_KEY, TASKS_EXTENSION, VERSION_KEY
from tests.examples import examples
from tests.hostile_requests.strategies import HEADER_TEXTS, METAS, VALUES, broken_bodies, wrong_envelopes, wrong_params
from tests.hostile_requests.valid import ERAS, VALID, Params
from tests.hostile_requests.wire import ORIGIN, HostileClient, check_id
from tests.support.client import Era

EXAMPLES = 90
HEADERS = [
    "MCP-Protocol-Version",
    "Mcp-Method",
    "Mcp-Name",
    "Mcp-Param-Region",
    "Content-Type",
    "Accept",
    "Origin",
    "Host",
    "Content-Length",
    "Mcp-Session-Id",
    "Last-Event-ID",
]
ALL = [(era, *request) for era in ERAS for request in VALID[era]]
# These strategies are created once, because hypothesis validates each new strategy before its first use.
REQUESTS = {era: st.sampled_from(VALID[era]) for era in ERAS}
WRONG_PARAMS = {era: wrong_params(VALID[era]) for era in ERAS}
WRONG_ENVELOPES = {era: wrong_envelopes(VALID[era]) for era in ERAS}
HEADER_NAMES = st.one_of(st.sampled_from(HEADERS), st.sampled_from(HEADERS).map(str.upper), HEADER_TEXTS.filter(bool))
SINGLE_HEADERS = st.dictionaries(HEADER_NAMES, HEADER_TEXTS, max_size=4)
REPEATED_HEADERS = st.none() | st.dictionaries(HEADER_NAMES, st.lists(HEADER_TEXTS, max_size=3), max_size=3)
BATCH_REVISIONS = st.sampled_from([None, "2025-03-26", "2025-03-26", "2025-06-18", "2026-07-28", "x"])
BATCHES = st.lists(VALUES | WRONG_ENVELOPES["2025"], max_size=5)


@pytest.fixture(autouse=True)
def _works_afterwards(hostile: HostileClient) -> Iterator[None]:
    yield
    hostile.check_echo()


def stateless(params: Params) -> Params:
    """Return the params with the `_meta` that the 2026 era requires."""
    return {**params, "_meta": {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {"extensions": {TASKS_EXTENSION: {}}}}}


BROKEN_BODIES = {era: broken_bodies([(method, stateless(params)) for method, params in VALID[era]]) for era in ERAS}


def post_bytes(hostile: HostileClient, body: bytes, headers: dict[str, str]) -> None:
    """Post bytes in Base64, as API Gateway passes on binary bodies."""
    answer = hostile.post(base64.b64encode(body).decode(), headers, isBase64Encoded=True)
    check_id(answer, body)


@pytest.mark.parametrize(("era", "method", "params"), ALL, ids=[f"{era} {method}" for era, method, _ in ALL])
def test_the_valid_requests_reach_their_method(hostile: HostileClient, era: Era, method: str, params: Params) -> None:
    answer = hostile.request(era, method, params)
    assert "error" not in answer.messages[-1] or answer.error["code"] in {-32602, -32020}


@pytest.mark.parametrize("era", ERAS)
@examples(4 * EXAMPLES)
@given(st.data())
def test_params_with_one_change_are_answered(hostile: HostileClient, era: Era, data: st.DataObject) -> None:
    method, params = data.draw(WRONG_PARAMS[era])
    if era == "2026" or "_meta" not in params:
        hostile.request(era, method, {name: value for name, value in params.items() if name != "_meta"})
    else:
        hostile.request(era, method, params)


@pytest.mark.parametrize("era", ERAS)
@examples(2 * EXAMPLES)
@given(st.data())
def test_a_meta_of_any_shape_is_answered(hostile: HostileClient, era: Era, data: st.DataObject) -> None:
    method, params = data.draw(REQUESTS[era])
    meta = data.draw(METAS)
    if isinstance(meta, dict) and data.draw(st.booleans()):
        hostile.request(era, method, params, meta)
        return
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}})
    answer = hostile.post(body, {"MCP-Protocol-Version": "2026-07-28" if era == "2026" else "2025-11-25"})
    check_id(answer, body.encode())


@pytest.mark.parametrize("era", ERAS)
@examples(2 * EXAMPLES)
@given(st.data())
def test_an_envelope_with_one_change_is_answered(hostile: HostileClient, era: Era, data: st.DataObject) -> None:
    message = data.draw(WRONG_ENVELOPES[era])
    headers = {"MCP-Protocol-Version": "2025-11-25"}
    if era == "2026":
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": str(message.get("method"))}
        if isinstance(message.get("params"), dict):
            message["params"] = stateless(message["params"])
            headers["Mcp-Name"] = str(message["params"].get("name", message["params"].get("uri")))
    body = json.dumps(message)
    check_id(hostile.post(body, headers), body.encode())


@pytest.mark.parametrize("era", ERAS)
@examples(2 * EXAMPLES)
@given(st.data())
def test_bodies_that_are_cut_spliced_or_in_another_encoding_are_answered(
    hostile: HostileClient, era: Era, data: st.DataObject
) -> None:
    body = data.draw(BROKEN_BODIES[era])
    post_bytes(hostile, body, {"MCP-Protocol-Version": "2026-07-28" if era == "2026" else "2025-11-25"})


@pytest.mark.parametrize("era", ERAS)
@examples(2 * EXAMPLES)
@given(st.data())
def test_headers_of_any_kind_are_answered(hostile: HostileClient, era: Era, data: st.DataObject) -> None:
    method, params = data.draw(REQUESTS[era])
    single, several = data.draw(SINGLE_HEADERS), data.draw(REPEATED_HEADERS)
    params = stateless(params) if era == "2026" else params
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    check_id(hostile.post(body, single, multiValueHeaders=several), body.encode())


@examples(EXAMPLES)
@given(
    origin=st.sampled_from([ORIGIN, "https://evil.example", f"{ORIGIN}.evil.example", "null", "*"]) | HEADER_TEXTS,
    method=st.sampled_from(["OPTIONS", "OPTIONS", "POST", "GET", "DELETE", "PUT"]),
    requested_method=st.none() | HEADER_TEXTS,
    names=st.none() | HEADER_TEXTS | st.lists(HEADER_TEXTS).map(",".join),
    repeated=st.booleans(),
)
def test_requests_of_web_pages_are_answered(
    hostile: HostileClient, origin: str, method: str, requested_method: str | None, names: str | None, repeated: bool
) -> None:
    several = {
        "origin": [origin, origin] if repeated else [origin],
        **({} if requested_method is None else {"access-control-request-method": [requested_method]}),
        **({} if names is None else {"access-control-request-headers": [names]}),
    }
    answer = hostile.post("{}", multiValueHeaders=several, httpMethod=method)
    preflight = origin == ORIGIN and not repeated and method == "OPTIONS" and requested_method is not None
    assert (answer.status == 204) == preflight
    for name in answer.headers.get("Access-Control-Allow-Headers", "token").split(", "):
        assert re.fullmatch(r"[!-~]+", name)


@examples(EXAMPLES)
@given(st.data())
def test_batches_of_arbitrary_values_are_refused(hostile: HostileClient, data: st.DataObject) -> None:
    revision, messages = data.draw(BATCH_REVISIONS), data.draw(BATCHES)
    answer = hostile.post(json.dumps(messages), {} if revision is None else {"MCP-Protocol-Version": revision})
    assert answer.refusal == (400, -32600)


@examples(EXAMPLES)
@given(identifier=VALUES, members=st.dictionaries(st.sampled_from(["result", "error"]), VALUES, min_size=1))
def test_answers_to_questions_that_were_not_asked_are_refused(
    hostile: HostileClient, identifier: Any, members: dict[str, Any]
) -> None:
    answer = hostile.post(json.dumps({"jsonrpc": "2.0", "id": identifier, **members}))
    assert answer.refusal == (400, -32600)


@pytest.mark.parametrize("era", ERAS)
@examples(EXAMPLES)
@given(st.data())
def test_notifications_are_accepted_or_refused_and_write_nothing(
    hostile: HostileClient, era: Era, data: st.DataObject
) -> None:
    method, params = data.draw(WRONG_PARAMS[era])
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    answer = hostile.post(
        json.dumps(message), {"MCP-Protocol-Version": "2026-07-28" if era == "2026" else "2025-11-25"}
    )
    assert answer.status in {202, 400}
    assert hostile.writes == []
