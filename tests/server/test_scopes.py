"""The parts of a server that callers see with their scopes, through the real handler (docs/tools.md, Scopes)."""

from typing import Any

import pytest

from mcp_baton import Argument, Context, Server, ToolError, ToolStep, Workflow, prompt_arg
from mcp_baton.testing import Client, Connect, Era, JsonRpcError

READ, WRITE = "orders:read", "orders:write"
INVALID_PARAMS = -32602


@pytest.fixture
def orders() -> Server:
    server = Server("orders")
    failures = [ToolError("connection timeout")]

    @server.tool
    def fetch(order_id: str, ctx: Context) -> str:
        return str(ctx.claims.get("scope"))

    @server.tool(requires=[READ, WRITE])
    def refund(order_id: str) -> str:
        if failures:
            raise failures.pop()
        return order_id

    @server.resource("docs://{topic}", requires=[READ])
    def docs(topic: str) -> str:
        return topic

    @server.resource("docs://index", requires=[READ])
    def index() -> str:
        return "index"

    @server.prompt(requires=[READ])
    def greeting(name: str) -> str:
        return name

    @server.completion("greeting", "name")
    def names(value: str) -> list[str]:
        return [value]

    server.add_workflow(
        Workflow(
            name="refund_order",
            description="refund an order",
            arguments=[Argument("order_id", required=True)],
            steps=[
                ToolStep("fetch", tool="fetch", arguments={"order_id": prompt_arg("order_id")}),
                ToolStep("refund", tool="refund", arguments={"order_id": prompt_arg("order_id")}),
            ],
        )
    )
    return server


def names_in(client: Client, method: str, key: str) -> list[str]:
    result: Any = client.request(method)
    return [item["name"] for item in result[key]]


def all_names(client: Client) -> list[str]:
    return [
        *names_in(client, "tools/list", "tools"),
        *names_in(client, "resources/list", "resources"),
        *names_in(client, "resources/templates/list", "resourceTemplates"),
        *names_in(client, "prompts/list", "prompts"),
    ]


@pytest.mark.parametrize(
    ("scope", "names"),
    [
        ("", ["fetch"]),
        (WRITE, ["fetch"]),
        (READ, ["fetch", "index", "docs", "greeting"]),
        (f"{READ} {WRITE}", ["fetch", "refund", "refund_order", "index", "docs", "greeting", "refund_order"]),
    ],
)
def test_lists_show_only_what_the_callers_scopes_allow(
    baton: Connect, orders: Server, era: Era, scope: str, names: list[str]
) -> None:
    assert all_names(baton(orders, era=era).with_claims(scope=scope)) == names


@pytest.mark.parametrize(
    ("method", "params", "unknown_params"),
    [
        ("tools/call", {"name": "refund", "arguments": {"order_id": "A"}}, {"name": "reverse", "arguments": {}}),
        ("tools/call", {"name": "refund_order", "arguments": {"order_id": "A"}}, {"name": "sell_order"}),
        ("prompts/get", {"name": "greeting", "arguments": {"name": "K"}}, {"name": "parting", "arguments": {}}),
        ("prompts/get", {"name": "refund_order", "arguments": {"order_id": "A"}}, {"name": "sell_order"}),
        ("resources/read", {"uri": "docs://index"}, {"uri": "docs:///"}),
        ("resources/read", {"uri": "docs://a"}, {"uri": "x://a"}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "greeting"}, "argument": {"name": "name", "value": "K"}},
            {"ref": {"type": "ref/prompt", "name": "parting"}, "argument": {"name": "name", "value": "K"}},
        ),
    ],
)
def test_without_the_scopes_a_name_is_refused_as_unknown(
    baton: Connect, orders: Server, era: Era, method: str, params: dict[str, Any], unknown_params: dict[str, Any]
) -> None:
    client = baton(orders, era=era)

    def refusal(request_params: dict[str, Any]) -> tuple[int, int, str]:
        with pytest.raises(JsonRpcError) as error_info:
            client.request(method, request_params)
        name = request_params.get("name") or request_params.get("uri") or request_params["ref"]["name"]
        return error_info.value.status, error_info.value.code, error_info.value.message.replace(name, "NAME")

    assert refusal(params) == refusal(unknown_params)
    client.with_claims(scope=f"{READ} {WRITE}").request(method, params)


def test_a_tool_accepts_a_task_id_only_if_the_caller_sees_a_workflow_that_uses_the_tool(
    baton: Connect, orders: Server
) -> None:
    client = baton(orders)
    writer, reader = client.with_claims(scope=f"{READ} {WRITE}"), client.with_claims(scope=READ)
    task = writer.get_prompt("refund_order", {"order_id": "A-17"}).task_id
    arguments = {"order_id": "A-17", "task_id": task}

    assert [list(tool["inputSchema"]["properties"]) for tool in reader.list_tools()] == [["order_id"]]
    assert "task_id" in reader.call_tool("fetch", arguments).text
    assert reader.call_tool("fetch", arguments).is_error
    assert not reader.call_tool("fetch", {"order_id": "A-17"}).is_error
    assert writer.call_tool("fetch", arguments).recorded


def test_a_resume_uses_the_scopes_of_its_own_caller(baton: Connect, orders: Server) -> None:
    client = baton(orders)
    writer = client.with_claims(scp=[READ, WRITE])
    run = writer.get_prompt("refund_order", {"order_id": "A"})
    assert run.pause.type == "toolError"
    with pytest.raises(JsonRpcError, match="Unknown prompt: refund_order") as error_info:
        client.get_prompt("refund_order", {}, run.task_id)
    assert error_info.value.code == INVALID_PARAMS
    with pytest.raises(JsonRpcError, match="Unknown tool: refund"):
        client.call_tool("refund", {"order_id": "A"}, task=run.task_id)
    assert writer.get_prompt("refund_order", {}, run.task_id).completed


@pytest.mark.parametrize("method", ["tools/list", "prompts/list", "resources/list", "server/discover"])
def test_lists_are_private_once_anything_requires_scopes(baton: Connect, orders: Server, method: str) -> None:
    client, open_client = baton(orders), baton(Server("open"))
    for scoped_client in (client, client.with_claims(scope=f"{READ} {WRITE}")):
        assert scoped_client.request(method)["cacheScope"] == "private"
    assert open_client.request(method)["cacheScope"] == "public"


def test_tools_can_read_claims_and_not_change_them(baton: Connect, orders: Server) -> None:
    @orders.tool
    def tamper(ctx: Context) -> str:
        claims: Any = ctx.claims
        try:
            claims["scope"] = WRITE
        except TypeError:
            return str(dict(claims))
        return "changed"

    client = baton(orders, owner="kim")
    assert client.call_tool("fetch", {"order_id": "A"}).value == "None"
    assert client.with_claims(scope=READ).call_tool("fetch", {"order_id": "A"}).value == READ
    assert client.call_tool("tamper").value == "{'sub': 'kim'}"
