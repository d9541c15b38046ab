"""The tasks page as an MCP App (SEP-1865): which clients are told of it, and how they read it (docs/console.md)."""

from typing import Any

import pytest

from mcp_baton import Argument, RegistrationError, Server, ToolStep, Workflow, WorkflowError
from mcp_baton.console.page import text
from mcp_baton.protocol.envelope import CAPABILITIES_KEY
from tests.server.test_known_clients import handshake
from tests.support.client import Client, Era, JsonDict
from tests.support.handler import MakeClient

URI = "ui://baton/tasks"
MIME = "text/html;profile=mcp-app"
EXTENSION = "io.modelcontextprotocol/ui"
SHOWS_PAGES: JsonDict = {"extensions": {EXTENSION: {"mimeTypes": [MIME]}}}
OTHER_CAPABILITIES: list[JsonDict] = [
    {},
    {"extensions": {}},
    {"extensions": {EXTENSION: {"mimeTypes": ["image/svg+xml"]}}},
    {"extensions": {EXTENSION: True}},
    {"extensions": []},
    {"apps": {}},
]
"""Capabilities of clients that cannot show the page."""


def server_of(*, tool: bool = True) -> Server:
    server = Server("s")

    @server.tool
    def one(order: str) -> str:
        return order

    server.add_workflow(Workflow(name="flow", description="work", steps=[ToolStep("one", tool="one")], tool=tool))
    return server


def ask(client: Client, method: str, capabilities: JsonDict, params: JsonDict | None = None) -> Any:
    if client.era == "2026":
        return client.request(method, params, {CAPABILITIES_KEY: capabilities}).result
    return client.request(method, params, headers=handshake(client, capabilities)).result


def announced_capabilities(client: Client, capabilities: JsonDict) -> JsonDict:
    if client.era == "2026":
        return dict(client.request("server/discover", {}, {CAPABILITIES_KEY: capabilities}).result["capabilities"])
    info = {"name": "c", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info}
    return dict(client.request("initialize", params).result["capabilities"])


def workflow_tool(client: Client, capabilities: JsonDict) -> JsonDict:
    [flow_tool] = [tool for tool in ask(client, "tools/list", capabilities)["tools"] if tool["name"] == "flow"]
    return dict(flow_tool)


@pytest.fixture
def client(make_client: MakeClient, era: Era) -> Client:
    return make_client(server_of(), era=era)


def test_a_client_that_shows_pages_gets_the_page(client: Client) -> None:
    capabilities = announced_capabilities(client, SHOWS_PAGES)

    assert capabilities["extensions"][EXTENSION] == {"mimeTypes": [MIME]}
    assert capabilities["resources"] == {}


@pytest.mark.parametrize("capabilities", OTHER_CAPABILITIES)
def test_other_clients_are_not_told_of_the_page(client: Client, capabilities: JsonDict) -> None:
    assert EXTENSION not in announced_capabilities(client, capabilities).get("extensions", {})
    assert "task_action" not in workflow_tool(client, capabilities)["inputSchema"]["properties"]


def test_a_server_without_workflow_tools_has_no_page(make_client: MakeClient, era: Era) -> None:
    client = make_client(server_of(tool=False), era=era)

    assert EXTENSION not in announced_capabilities(client, SHOWS_PAGES).get("extensions", {})
    assert client.request("resources/read", {"uri": URI}).error["code"] == (-32002 if era == "2025" else -32602)


def test_only_workflow_tools_name_the_page_and_they_name_it_to_every_client(client: Client) -> None:
    for capabilities in (SHOWS_PAGES, {}):
        meta_by_tool = {tool["name"]: tool.get("_meta") for tool in ask(client, "tools/list", capabilities)["tools"]}
        assert meta_by_tool == {"one": None, "flow": {"ui": {"resourceUri": URI}}}


def test_the_page_can_be_read_and_connects_only_to_its_host(client: Client) -> None:
    assert client.request("resources/list").result["resources"] == []
    [contents] = client.request("resources/read", {"uri": URI}).result["contents"]

    assert (contents["uri"], contents["mimeType"], contents["text"]) == (URI, MIME, text())
    assert contents["text"].lower().startswith("<!doctype html>")
    # Without `csp` in `_meta`, a host lets the page connect to no address.
    assert contents["_meta"] == {"ui": {"prefersBorder": True}}


def test_the_schema_has_the_pages_actions_for_clients_that_show_it(client: Client) -> None:
    tool = workflow_tool(client, SHOWS_PAGES)

    assert list(tool["inputSchema"]["properties"]) == ["task_id", "task_action", "task_result"]
    assert tool["inputSchema"]["properties"]["task_action"]["anyOf"][0]["enum"] == [
        "show",
        "list",
        "cancel",
        "complete",
    ]
    assert {"board", "tasks"} <= tool["outputSchema"]["properties"].keys()
    assert "required" not in tool["inputSchema"]


def test_a_list_that_depends_on_the_client_is_private(make_client: MakeClient) -> None:
    client = make_client(server_of(), era="2026")

    assert ask(client, "tools/list", SHOWS_PAGES)["cacheScope"] == "private"
    assert ask(client, "tools/list", {})["cacheScope"] == "public"
    assert client.request("resources/read", {"uri": URI}).result["cacheScope"] == "public"


def test_a_server_cannot_use_the_pages_uri() -> None:
    with pytest.raises(RegistrationError, match="reserved for Baton"):
        Server("s").resource(URI)(lambda: "mine")


@pytest.mark.parametrize("name", ["task_action", "task_result"])
def test_a_workflow_tool_cannot_have_arguments_with_these_names(name: str) -> None:
    def build(*, tool: bool) -> None:
        server = server_of()
        step = ToolStep("one", tool="one")
        server.add_workflow(Workflow(name="x", description="x", steps=[step], arguments=[Argument(name)], tool=tool))
        server.check()

    with pytest.raises(WorkflowError, match=f"'{name}': this name is taken, by the workflow's tool"):
        build(tool=True)
    build(tool=False)


def test_a_caller_without_the_scopes_of_any_workflow_has_no_page(make_client: MakeClient, era: Era) -> None:
    server = Server("s")
    server.add_tool(lambda: "done", name="one", requires=["orders:write"])
    server.add_workflow(Workflow(name="flow", description="work", steps=[ToolStep("one", tool="one")]))
    client = make_client(server, era=era)

    assert "error" in client.request("resources/read", {"uri": URI}).messages[-1]
    assert EXTENSION not in announced_capabilities(client, SHOWS_PAGES).get("extensions", {})
