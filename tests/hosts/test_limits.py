"""Tools and results stay within the limits beyond which hosts reject, cut or omit them. docs/hosts.md has the
limits' sources.
"""

from collections.abc import Iterator
from typing import Any

import pytest

import orders  # noqa: F401 - registers its workflow
import sales  # noqa: F401 - registers its workflow
import shop
from mcp_baton import Server, ToolError, ToolStep, Workflow, constant
from mcp_baton.testing import Connect
from mcp_baton.testing.client import Client
from mcp_baton.testing.mcp_client import Era
from tests.clients.server import server as clients_server
from tests.hosts.host import CHARACTERS_A_TOKEN, MAX_TOKENS, Host, everything, omission_reasons, text_only
from tests.hosts.phrases import Call, read
from tests.hosts.servers import LARGE, Shop, without

type JsonDict = dict[str, Any]


def many_models(server: Server) -> Server:
    """Add a tool with unions, which JSON Schema expresses as composition."""

    @server.tool
    def choose(value: int | str | None = None, options: list[int] | dict[str, str] | None = None) -> int | str:
        return value or str(options)

    return server


def servers() -> Iterator[Server]:
    yield shop.server
    yield clients_server
    yield many_models(Shop().server(without("amount", "approved_by")))


@pytest.fixture(params=servers(), ids=lambda server: server.options.name)
def listed_tools(request: pytest.FixtureRequest, baton: Connect, era: Era) -> list[JsonDict]:
    return baton(request.param, era=era).list_tools()


def call_tool(client: Client, tool: str, arguments: JsonDict) -> JsonDict:
    params: JsonDict = {"name": tool, "arguments": arguments}
    return dict(client.request("tools/call", params))


def test_no_host_omits_a_listed_tool(listed_tools: list[JsonDict]) -> None:
    assert listed_tools
    assert {tool["name"]: omission_reasons(tool) for tool in listed_tools if omission_reasons(tool)} == {}


def test_the_result_of_a_workflow_fits_a_host_even_if_its_tools_do_not(baton: Connect) -> None:
    server = Server("long")

    @server.tool
    def write(text: str, other: str, third: str = "") -> dict[str, str]:
        if third == "fail":
            raise ToolError("z" * 200_000)
        return {"text": text + LARGE, "other": other}

    arguments = {"text": constant("y" * 480), "other": constant("z" * 480)}
    steps = [ToolStep(f"write-{number}", tool="write", arguments=arguments) for number in range(99)]
    failing = ToolStep("fails", tool="write", arguments={**arguments, "third": constant("fail")}, guidance="g" * 2_000)
    server.add_workflow(Workflow(name="early", description="write", steps=[failing, *steps]))
    server.add_workflow(Workflow(name="late", description="write", steps=[*steps, failing]))
    client = baton(server)
    for name in ("early", "late"):
        result = call_tool(client, name, {})
        assert result["structuredContent"]["task_status"] == "working"
        assert len(everything(result)) < MAX_TOKENS * CHARACTERS_A_TOKEN
        assert len(read(result["content"][0]["text"]).calls) >= 1


STEP_S = 18.0
STEPS = 9


def slow(clients: list[Client]) -> Server:
    """Return a server with nine steps of 18 seconds each."""
    server = Server("slow")

    @server.tool
    def work(on: int) -> int:
        clients[0].clock.advance(STEP_S)
        return on

    steps = [ToolStep(f"work-{number}", tool="work", arguments={"on": constant(number)}) for number in range(STEPS)]
    server.add_workflow(Workflow(name="plod", description="plod", steps=steps))
    return server


def test_a_host_with_a_time_limit_of_a_minute_gets_each_answer(baton: Connect, era: Era) -> None:
    """Three steps fit into a call: they use up the budget of 50 s, and the host has waited 54 s."""
    clients: list[Client] = []
    clients.append(baton(slow(clients), era=era))
    client, call, calls = clients[0], Call("plod", {}), 0
    host = Host(client, text_only)
    while not read(text := host.call(call)).done:
        assert not text.startswith("Error: "), text
        next_call = read(text).continue_call
        assert next_call is not None, text
        call, calls = next_call, calls + 1
    assert (calls + 1, client.calls("work")) == (3, [{"on": number} for number in range(STEPS)])
    [task] = client.tasks()
    assert task.status == "completed"
