"""Invalid input: each case gets a specific error, none gets a 500, and nothing is run or stored (docs/http.md).

Other tests cover requests that are refused before their method is known: malformed messages and envelopes in
tests/protocol, invalid HTTP requests in `test_origins.py`, and the ways to name a task in
tests/tools/test_runner.py.
"""

import base64
import gzip
import json
from typing import Any

import pytest

from mcp_baton import Argument, Server, ToolStep, Workflow, prompt_arg
from tests.support.client import Client, Era, Script, Table
from tests.support.handler import MakeClient

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602


@pytest.fixture
def client(make_client: MakeClient, script: Script) -> Client:
    server = Server("s")

    @server.tool
    def work(amount: float) -> float:
        return script.play("work", amount)

    @server.resource("docs://{topic}")
    def docs(topic: str) -> str:
        return script.play("docs", topic)

    @server.prompt
    def greeting(name: str) -> str:
        return script.play("greeting", name)

    server.add_workflow(
        Workflow(
            name="flow",
            description="work",
            arguments=[Argument("amount", required=True, type=float), Argument("days", type=list[int])],
            steps=[ToolStep("only", tool="work", arguments={"amount": prompt_arg("amount")})],
        )
    )
    return make_client(server, allowed_origins=frozenset({"https://good.example"}), max_body_bytes=10_000)


@pytest.fixture
def no_changes(client: Client, script: Script, table: Table) -> Any:
    """Check at the end of the test that no function was called and no task was created."""
    yield
    assert script.calls == []
    assert table.items == []


def message(method: str = "tools/list", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def wire_status(era: Era, status: int = 400) -> int:
    """Return 200 for a client of the 2025 era, which treats other HTTP statuses as transport errors."""
    return 200 if era == "2025" else status


@pytest.mark.usefixtures("no_changes")
@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("nothing", {}, "nothing"),
        ("", {}, ""),
        ("flow", {}, "'amount'"),
        ("flow", {"days": "[1]"}, "'amount'"),
        ("flow", {"amount": "many"}, "'amount'"),
        ("flow", {"amount": ""}, "'amount'"),
        ("flow", {"amount": None}, "'amount'"),
        ("flow", {"amount": "1", "days": "[1"}, "'days'"),
        ("flow", {"amount": "1", "days": '["one"]'}, "'days'"),
        ("flow", {"amount": "1", "colour": "red"}, "'colour'"),
        ("greeting", {}, "'name'"),
        ("greeting", {"name": "Kim", "age": "7"}, "'age'"),
    ],
)
def test_an_error_names_the_unknown_prompt_or_the_unknown_missing_or_invalid_argument(
    client: Client, era: Era, name: str, arguments: dict[str, Any], text: str
) -> None:
    answer = client.in_era(era).get_prompt(name, arguments)
    assert answer.refusal == (wire_status(era), INVALID_PARAMS)
    assert text in answer.error["message"]


@pytest.mark.usefixtures("no_changes")
@pytest.mark.parametrize("arguments", [{}, {"amount": "many"}, {"amount": None}, {"amount": 1, "colour": "red"}])
def test_invalid_arguments_are_an_error_of_the_tool(client: Client, era: Era, arguments: dict[str, Any]) -> None:
    result = client.in_era(era).call_tool("work", arguments).result
    assert result["isError"] is True
    assert ("colour" if "colour" in arguments else "amount") in result["content"][0]["text"]


@pytest.mark.usefixtures("no_changes")
@pytest.mark.parametrize("uri", ["docs://a/b", "nothing://a", "", "docs://"])
def test_an_unknown_resource_is_named(client: Client, era: Era, uri: str) -> None:
    answer = client.in_era(era).request("resources/read", {"uri": uri})
    assert answer.refusal == ((200, -32002) if era == "2025" else (400, INVALID_PARAMS))
    assert answer.error["data"] == {"uri": uri}


@pytest.mark.usefixtures("no_changes")
@pytest.mark.parametrize("method", ["nothing", "tools", "tools/List", "", "prompts/run"])
def test_an_unknown_method_is_refused(client: Client, era: Era, method: str) -> None:
    assert client.in_era(era).request(method).refusal == (wire_status(era, 404), METHOD_NOT_FOUND)


@pytest.mark.usefixtures("no_changes")
@pytest.mark.parametrize("ttl", ["soon", 0, -1, 1.5, True, []])
def test_an_invalid_ttl_is_refused(client: Client, ttl: Any) -> None:
    params = {"name": "flow", "arguments": {"amount": "1"}, "task": {"ttl": ttl}}
    assert client.request("prompts/get", params).refusal == (200, INVALID_PARAMS)


@pytest.mark.usefixtures("no_changes")
@pytest.mark.parametrize("size", [0, 1, 2])
@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2026-07-28"])
def test_a_batch_gets_one_error_that_says_what_to_do(client: Client, revision: str, size: int) -> None:
    calls = [message("tools/call", name="work", arguments={"amount": 1.0})] * size
    answer = client.post(json.dumps(calls), {"MCP-Protocol-Version": revision})
    assert answer.refusal == (400, INVALID_REQUEST)
    assert "send each message by itself" in answer.body


def run_message() -> str:
    return json.dumps(message("prompts/get", name="flow", arguments={"amount": "1"}))


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON"])
def test_a_content_types_case_and_parameters_do_not_matter(client: Client, content_type: str) -> None:
    assert client.post(run_message(), {"Content-Type": content_type}).status == 200


@pytest.mark.usefixtures("no_changes")
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"resource": "/approvals/{id}", "path": "/approvals/a", "pathParameters": {"id": "a"}},
        {"resource": "/callbacks/{id}", "path": "/callbacks/a", "pathParameters": {"id": "a"}},
    ],
)
def test_a_compressed_body_is_refused_with_the_name_of_its_header(client: Client, changes: Any) -> None:
    compressed = base64.b64encode(gzip.compress(json.dumps(message()).encode())).decode()
    answer = client.post(compressed, {"Content-Encoding": "GZip"}, isBase64Encoded=True, **changes)

    assert (answer.status, "Unsupported Content-Encoding gzip" in answer.body) == (415, True)
