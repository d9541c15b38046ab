"""Identities of callers (docs/http.md): requests without an identity are rejected, and nothing is run for them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from mcp_baton import Server, ToolStep, Workflow
from mcp_baton.aws import handler
from mcp_baton.settings import Settings
from mcp_baton.tasks.ids import new_question
from mcp_baton.tasks.texts import MAX_OWNER_BYTES
from tests.support.client import Answer, Client, Era, Script, Table
from tests.support.handler import MakeClient

INVALID_REQUEST = -32600
PAGE = "https://app.example.com"
FORBIDDEN = (403, INVALID_REQUEST)


@pytest.fixture
def server(script: Script) -> Server:
    new_server = Server("s")

    @new_server.tool
    def work() -> int:
        return script.play("work", 1)

    new_server.add_workflow(Workflow(name="flow", description="work", steps=[ToolStep("only", tool="work")]))
    return new_server


@pytest.fixture
def client(server: Server, make_client: MakeClient) -> Client:
    return make_client(server, owner=None, allowed_origins=frozenset({PAGE}))


def call(method: str = "tools/call", **members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "work", "arguments": {}}, **members}


def notification() -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}


REQUESTS: dict[str, Callable[[Client], Answer]] = {
    "a tool": lambda client: client.call_tool("work"),
    "a workflow": lambda client: client.get_prompt("flow"),
    "a list": lambda client: client.request("tools/list"),
    "no method": lambda client: client.request("nothing"),
    "a batch": lambda client: client.post(json.dumps([call()])),
    "a notification": lambda client: client.post(json.dumps(notification())),
    "an answer": lambda client: client.post(json.dumps({"jsonrpc": "2.0", "id": new_question(), "result": {}})),
    "no JSON": lambda client: client.post("{"),
    "another content type": lambda client: client.post("{}", {"Content-Type": "text/plain"}),
}


@pytest.mark.parametrize("send", REQUESTS.values(), ids=REQUESTS)
def test_every_request_without_an_identity_is_refused_and_runs_nothing(
    client: Client, era: Era, script: Script, table: Table, send: Callable[[Client], Answer]
) -> None:
    answer = send(client.in_era(era))
    assert answer.refusal == FORBIDDEN
    assert "authorizer" in answer.error["message"]
    assert "BATON_ALLOW_ANONYMOUS=on" in answer.error["message"]
    assert (script.calls, table.items) == ([], [])


def test_a_page_can_read_the_error_for_a_missing_identity(client: Client) -> None:
    answer = client.request("tools/list", headers={"Origin": PAGE})
    assert answer.refusal == FORBIDDEN
    assert answer.headers["Access-Control-Allow-Origin"] == PAGE


def test_a_local_server_names_the_option_for_the_owner_header(server: Server) -> None:
    client = Client(handler(server, settings=Settings(local_only=True)), owner=None)
    assert "--owner-header" in client.request("tools/list").error["message"]


LONGEST = ["a" * MAX_OWNER_BYTES, "é" * (MAX_OWNER_BYTES // 2), '"' + "a" * (MAX_OWNER_BYTES - 4)]
"""The last one is stored as JSON, which adds three bytes."""


@pytest.mark.parametrize("owner", LONGEST, ids=["ascii", "two bytes each", "as JSON"])
def test_the_longest_identity_can_own_tasks_and_a_longer_one_is_refused(
    server: Server, make_client: MakeClient, era: Era, script: Script, table: Table, owner: str
) -> None:
    allowed_client = make_client(server, owner=owner, era=era)
    assert allowed_client.variables(allowed_client.get_prompt("flow").task_id)
    script.take()
    item_count = len(table.items)
    other_client = allowed_client.as_owner(f"{owner}a")
    for answer in (other_client.get_prompt("flow"), other_client.call_tool("work"), other_client.request("tools/list")):
        assert answer.refusal == FORBIDDEN
        assert str(MAX_OWNER_BYTES) in answer.error["message"]
    assert (script.calls, len(table.items)) == ([], item_count)
