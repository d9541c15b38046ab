"""Session ids of the 2025 era carry the client's capabilities, so that tools ask only what the client supports
(docs/http.md)."""

import json
from typing import Any

import pytest

from mcp_baton import Context, Server, ToolStep, Workflow
from tests.questions.test_asked_by_tools import FORM, questions_in
from tests.support.client import BOUND_S, Client, JsonDict, Sink, Table
from tests.support.handler import MakeClient, Submit

HEADER = "Mcp-Session-Id"


def asking_server() -> Server:
    server = Server("asking")

    @server.tool
    def who(ctx: Context) -> str:
        return str(ctx.elicit("Who?", FORM).content["name"])

    @server.tool
    def capabilities(ctx: Context) -> list[str]:
        return [name for name in ("elicitation", "elicitation.url", "sampling", "roots") if ctx.client_supports(name)]

    server.add_workflow(Workflow(name="flow", description="ask", steps=[ToolStep("ask", tool="who")]))
    return server


def handshake(client: Client, capabilities: Any) -> dict[str, str]:
    """Perform the handshake. Return the session header for further requests."""
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities,
        "clientInfo": {"name": "c", "version": "1"},
    }
    answer = client.request("initialize", params)
    assert answer.result["protocolVersion"] == "2025-11-25"
    return {HEADER: answer.headers[HEADER]}


def call(client: Client, tool: str, headers: dict[str, str], method: str = "tools/call") -> Any:
    return client.request(method, {"name": tool, "arguments": {}}, headers=headers)


def known_capabilities(client: Client, headers: dict[str, str]) -> list[str]:
    names: list[str] = call(client, "capabilities", headers).result["structuredContent"]["result"]
    return names


@pytest.mark.parametrize(
    ("capabilities", "names"),
    [
        ({}, []),
        ({"elicitation": {}}, ["elicitation"]),
        ({"elicitation": {"url": {}}, "roots": {"listChanged": True}}, ["elicitation.url", "roots"]),
        ({"elicitation": {"form": {}, "url": {}}, "sampling": {}}, ["elicitation", "elicitation.url", "sampling"]),
    ],
)
def test_a_tool_knows_what_the_client_declared_in_its_handshake(
    make_client: MakeClient, capabilities: JsonDict, names: list[str]
) -> None:
    client = make_client(asking_server())

    # This is another function, so it knows only what the client sends.
    assert known_capabilities(make_client(asking_server()), handshake(client, capabilities)) == names


@pytest.mark.parametrize("headers", [{}, {HEADER: "nonsense"}, {HEADER: "x" * 500}])
def test_without_a_valid_session_id_all_capabilities_are_assumed(
    make_client: MakeClient, headers: dict[str, str]
) -> None:
    assert len(known_capabilities(make_client(asking_server()), headers)) == 4


def test_two_handshakes_have_two_ids_and_invalid_capabilities_are_refused(make_client: MakeClient) -> None:
    client = make_client(asking_server())

    assert handshake(client, {}) != handshake(client, {})
    assert client.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": 5}).error["code"] == -32602


@pytest.mark.parametrize(("method", "name"), [("tools/call", "who"), ("prompts/get", "flow")])
def test_a_question_fails_at_once_if_the_client_has_not_declared_the_capability(
    make_client: MakeClient, submit: Submit, table: Table, method: str, name: str
) -> None:
    client, sink = make_client(asking_server()), Sink()
    headers = handshake(client, {"sampling": {}})
    error = "The client cannot be asked (elicitation/create): it has not declared the capability 'elicitation'."

    answer = submit(sink, lambda: call(client, name, headers, method)).result(BOUND_S)

    assert questions_in(table) == 0
    if name == "who":
        assert (answer.result["isError"], answer.result["content"][0]["text"]) == (True, error)
    else:
        pause = answer.meta["pause_reason"]
        assert (pause["type"], pause["retryable"], pause["error"]) == ("toolError", False, error)
        assert "asks the client" not in answer.handoff  # a separate call would fail too


def test_a_page_may_read_its_session_id(make_client: MakeClient) -> None:
    client = make_client(asking_server(), allowed_origins=frozenset({"https://app.example.com"}))
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}

    answer = client.post(json.dumps(body), {"Origin": "https://app.example.com"})

    assert HEADER in answer.headers["Access-Control-Expose-Headers"].split(", ")
    assert answer.headers[HEADER]
