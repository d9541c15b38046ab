"""Links that decide one approval: the token is the only credential (docs/approvals.md, Links)."""

import json
import logging
from base64 import b64decode, b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from mcp_baton import ApprovalRequest
from mcp_baton.approvals.link import page
from mcp_baton.settings import Settings
from mcp_baton.tasks.dynamodb.table import TaskTable
from mcp_baton.testing import Client, Connect
from tests.approvals.bank import CALL, Bank, kim, waiting_ids

LINK_SETTINGS = Settings(approval_links=True, base_url="https://api.example.com/v1")


class LinkServer:
    """A server that sends an approval link with each notification."""

    def __init__(self, baton: Connect, settings: Settings = LINK_SETTINGS) -> None:
        self.bank, self.requests = Bank(), list[ApprovalRequest]()
        self.bank.server.on_approval(self.requests.append)
        self.client: Client = baton(self.bank.server, settings=settings)

    def token(self) -> str:
        self.client.call_tool("pay", CALL)
        link = self.requests[-1].link
        assert link is not None
        assert link.startswith("https://api.example.com/v1/approve/")
        return link.rpartition("/")[2]

    def send(self, method: str, token: str, body: Any = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
        request_headers = {"Content-Type": "application/json", "Accept": "application/json", **headers}
        wire = self.client.as_owner(None).wire
        data = b"" if body is None else json.dumps(body).encode()
        event = wire._request(method, f"/approve/{token}", request_headers, data, "test")  # noqa: SLF001
        response, _ = wire.stage.function.invoke(event, None)
        text = response["body"]
        text = b64decode(text).decode() if response.get("isBase64Encoded") else text
        is_json = response["headers"].get("Content-Type") == "application/json"
        return response["statusCode"], json.loads(text) if is_json else text, response["headers"]


def test_a_link_decides_its_approval_once(baton: Connect) -> None:
    server = LinkServer(baton)
    token = server.token()
    _, record, _ = server.send("GET", token)
    decision = {"decision": "approve", "digest": record["digest"], "reason": "by mail"}
    status, answer, _ = server.send("POST", token, decision)
    statuses = [server.send(method, token, body)[0] for method, body in (("GET", None), ("POST", decision))]

    assert (status, answer["state"], answer["decidedFrom"], answer["reason"]) == (200, "approved", "link", "by mail")
    assert statuses == [404, 404]
    assert not server.client.call_tool("pay", CALL).is_error


def test_opening_a_link_changes_nothing(baton: Connect) -> None:
    server = LinkServer(baton)
    token = server.token()
    for method, accept in (("GET", "text/html"), ("HEAD", "*/*"), ("GET", "application/json")):
        assert server.send(method, token, Accept=accept)[0] == 200
    status, html, headers = server.send("GET", token, Accept="text/html")

    assert (status, html, len(waiting_ids(server.client))) == (200, page(), 1)
    assert (headers["Cache-Control"], headers["Referrer-Policy"]) == ("no-store", "no-referrer")
    script = html.partition("<script>")[2].partition("</script>")[0]
    expected = b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{expected}'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]


def expire(server: LinkServer, token: str) -> str:
    server.client.clock.advance(7_201)
    return token


def decide_elsewhere(server: LinkServer, token: str) -> str:
    kim(server.client).deny(waiting_ids(server.client)[0])
    return token


def forge(_server: LinkServer, token: str) -> str:
    return token[:-1] + ("A" if token[-1] != "A" else "B")


def unknown_token(_server: LinkServer, _token: str) -> str:
    return "x" * 43


def empty_token(_server: LinkServer, _token: str) -> str:
    return ""


@pytest.mark.parametrize("spoil", [expire, decide_elsewhere, forge, unknown_token, empty_token])
def test_all_invalid_tokens_have_the_same_answer(baton: Connect, spoil: Callable[[LinkServer, str], str]) -> None:
    server = LinkServer(baton)
    token = spoil(server, server.token())
    answers = [
        server.send("GET", token)[:2],
        server.send("POST", token, {"decision": "approve", "digest": "0" * 64})[:2],
    ]

    assert (
        answers == [(404, {"error": "This link is not valid: it was used, it has expired, or it does not exist."})] * 2
    )


def test_a_decision_by_link_needs_the_digest_that_the_person_saw(baton: Connect) -> None:
    server = LinkServer(baton)
    token = server.token()

    assert server.send("POST", token, {"decision": "approve", "digest": "0" * 64})[0] == 409
    assert server.send("POST", token, {"decision": "approve"})[0] == 400
    assert server.send("DELETE", token)[0] == 405


def test_links_are_off_unless_the_operator_turns_them_on(baton: Connect) -> None:
    server = LinkServer(baton, Settings(base_url="https://api.example.com"))
    server.client.call_tool("pay", CALL)

    assert server.requests[0].link is None
    assert server.send("GET", "x" * 43)[0] == 404


def test_a_foreign_page_cannot_decide(baton: Connect) -> None:
    server = LinkServer(baton)
    token = server.token()
    digest = server.send("GET", token)[1]["digest"]
    decision = {"decision": "approve", "digest": digest}

    assert server.send("POST", token, decision, Origin="https://evil.example.com", Host="api.example.com")[0] == 403
    assert server.send("POST", token, decision, Origin="https://api.example.com", Host="api.example.com")[0] == 200


def test_a_token_is_in_no_log_no_item_and_no_result(
    baton: Connect, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG, "mcp_baton")
    items, put = list[str](), TaskTable.put

    def note(table: TaskTable, item: Any, *arguments: Any) -> None:
        items.append(str(item))
        put(table, item, *arguments)

    monkeypatch.setattr(TaskTable, "put", note)
    server = LinkServer(baton)
    token = server.token()
    result = server.client.call_tool("pay", CALL)
    server.send("GET", token)
    server.send("POST", token, {"decision": "approve", "digest": "0"})

    assert any("LINK#" in item for item in items)
    for text in (caplog.text, str(items), str(result), str(kim(server.client).approvals())):
        assert token not in text
