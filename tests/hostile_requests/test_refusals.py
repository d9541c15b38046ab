"""Section 8's table of refusals in both eras, where a well-formed request of that era is refused before it is run.

What is the same for every era, the rows of malformed bodies above all, stands in `tests/unit/protocol/test_jsonrpc.py`.
"""

import base64
import json
from typing import Any

import pytest

from mcp_baton.protocol.envelope import CAPABILITIES_KEY, VERSION_KEY
from tests.e2e.support import Answer, Era
from tests.hostile_requests.conftest import MAX_BODY_BYTES
from tests.hostile_requests.valid import ERAS
from tests.hostile_requests.wire import ORIGIN, Rude

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
REVISION = {"2025": "2025-11-25", "2026": "2026-07-28"}
RUN = {"name": "flow", "arguments": {"text": "never"}}


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> Era:
    """Each era in turn."""
    return "2025" if request.param == "2025" else "2026"


@pytest.fixture(autouse=True)
def _nothing_is_run(rude: Rude) -> Any:
    """No refusal comes after something was written."""
    rude.written.clear()
    yield
    assert rude.written == []


def run_message(era: Era, **members: Any) -> dict[str, Any]:
    """A request that would run a workflow, if it got that far."""
    meta = {"_meta": {VERSION_KEY: REVISION["2026"], CAPABILITIES_KEY: {}}} if era == "2026" else {}
    return {"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {**RUN, **meta}, **members}


def send(rude: Rude, era: Era, body: str, headers: dict[str, str] | None = None, **changes: Any) -> Answer:
    """Post a body with the headers that are right for it."""
    right = {"MCP-Protocol-Version": REVISION[era], "Mcp-Method": "prompts/get", "Mcp-Name": "flow"}
    return rude.post(body, {**right, **(headers or {})}, **changes)


@pytest.mark.parametrize(
    ("headers", "changes", "status"),
    [
        ({"Origin": "https://evil.example"}, {}, 403),
        ({"Origin": "null"}, {}, 403),
        ({"Origin": ""}, {}, 403),
        ({"Content-Type": "text/plain"}, {}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, {}, 415),
        ({"Content-Type": "application/json5"}, {}, 415),
        ({"Content-Type": ""}, {}, 415),
        *[({}, {"path": path, "resource": path}, 404) for path in ("/other", "/", "/mcp/x", "/mcpx", "/MCP")],
        *[({}, {"httpMethod": method}, 405) for method in ("GET", "DELETE", "PUT", "HEAD", "PATCH")],
        ({}, {"httpMethod": "OPTIONS"}, 405),
        ({"Access-Control-Request-Method": "POST"}, {"httpMethod": "OPTIONS"}, 405),
        ({"Origin": ORIGIN}, {"httpMethod": "OPTIONS"}, 405),
        ({"Origin": "https://evil.example"}, {"path": "/other", "resource": "/other"}, 403),
        ({"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}, {"httpMethod": "OPTIONS"}, 403),
    ],
)
def test_what_is_wrong_with_the_http_request_is_refused_with_its_status(
    rude: Rude, era: Era, headers: dict[str, str], changes: dict[str, Any], status: int
) -> None:
    answer = send(rude, era, json.dumps(run_message(era)), headers, **changes)
    assert answer.status == status
    assert answer.headers.get("Allow") == ("POST" if status == 405 else None)


@pytest.mark.parametrize("size", [MAX_BODY_BYTES + 1, MAX_BODY_BYTES * 3])
def test_a_body_over_the_limit_is_too_large_whatever_is_in_it(rude: Rude, era: Era, size: int) -> None:
    assert send(rude, era, json.dumps(run_message(era)).ljust(size)).status == 413
    assert send(rude, era, "[" * size).status == 413
    encoded = base64.b64encode(b"\xff" * size).decode()
    assert send(rude, era, encoded, isBase64Encoded=True).status == 413


def test_a_body_at_the_limit_is_read(rude: Rude, era: Era) -> None:
    body = json.dumps(run_message(era, method="nothing")).ljust(MAX_BODY_BYTES)
    answer = send(rude, era, body, {"Mcp-Method": "nothing"})
    assert answer.error["code"] == METHOD_NOT_FOUND
    assert answer.status == (200 if era == "2025" else 404)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("{", PARSE_ERROR),
        ("", PARSE_ERROR),
        ("\ufeff{}", PARSE_ERROR),
        ("null", INVALID_REQUEST),
        ("{}", INVALID_REQUEST),
        ("[]", INVALID_REQUEST),
        ('{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}', INVALID_PARAMS),
    ],
)
def test_what_is_no_json_or_no_json_rpc_is_refused(rude: Rude, era: Era, body: str, code: int) -> None:
    assert send(rude, era, body).refusal == (400, code)


@pytest.mark.parametrize("levels", [65, 200, 5_000, 30_000])
@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}")])
def test_a_body_of_more_than_64_levels_is_refused(rude: Rude, era: Era, levels: int, opened: str, closed: str) -> None:
    deep = opened * (levels - 1) + "1" + closed * (levels - 1)
    body = json.dumps(run_message(era)).removesuffix("}") + f', "x": {deep}}}'
    answer = send(rude, era, body)
    assert answer.refusal == (400, INVALID_REQUEST)
    assert "64 levels" in answer.error["message"]


@pytest.mark.parametrize("number", ["1" * 4_301, "1e400", "-1e400", "NaN", "Infinity", "01", "0x1", "1_0"])
def test_a_number_that_cannot_be_kept_is_no_json(rude: Rude, era: Era, number: str) -> None:
    body = json.dumps(run_message(era)).removesuffix("}") + f', "x": {number}}}'
    assert send(rude, era, body).refusal == (400, PARSE_ERROR)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32", "cp037"])
def test_another_encoding_than_utf8_is_no_json(rude: Rude, era: Era, encoding: str) -> None:
    body = base64.b64encode(json.dumps(run_message(era)).encode(encoding)).decode()
    assert send(rude, era, body, isBase64Encoded=True).refusal == (400, PARSE_ERROR)
