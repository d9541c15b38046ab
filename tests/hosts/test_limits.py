"""What hosts refuse, cut or leave out, and that nothing here comes near it. docs/hosts.md has the limits' sources."""

from collections.abc import Iterator
from typing import Any

import pytest

import orders  # noqa: F401 - registers its workflow
import sales  # noqa: F401 - registers its workflow
import shop
from mcp_baton import Argument, Server, Step, ToolError, Workflow, constant, prompt_arg
from mcp_baton.testing import Connect
from mcp_baton.testing.client import Client
from mcp_baton.testing.wire import Era
from tests.clients.server import server as clients_server
from tests.hosts.host import CHARACTERS_A_TOKEN, GIVES_UP_S, MOST_TOKENS, Host, everything, refused, text_alone
from tests.hosts.phrases import Call, read
from tests.hosts.servers import LARGE, Shop, refund, without

type JsonDict = dict[str, Any]

MOST_TEXT = 2_048
MOST_DESCRIPTION = 600
BEGIN: JsonDict = {"order_id": "A-17"}


def many_models(server: Server) -> Server:
    """A tool of unions, which JSON Schema writes as composition."""

    @server.tool
    def choose(what: int | str | None = None, how: list[int] | dict[str, str] | None = None) -> int | str:
        """Choose."""
        return what or str(how)

    return server


def servers() -> Iterator[Server]:
    yield shop.server
    yield clients_server
    yield many_models(Shop().server(without("amount", "approved_by")))


@pytest.fixture(params=servers(), ids=lambda server: server.options.name)
def listed(request: pytest.FixtureRequest, baton: Connect, era: Era) -> list[JsonDict]:
    return baton(request.param, era=era).list_tools()


def called(client: Client, tool: str, arguments: JsonDict) -> JsonDict:
    params: JsonDict = {"name": tool, "arguments": arguments}
    return dict(client.request("tools/call", params))


def test_no_host_omits_a_listed_tool(listed: list[JsonDict]) -> None:
    assert listed
    assert {tool["name"]: refused(tool) for tool in listed if refused(tool)} == {}


def test_the_description_of_a_workflow_is_short_and_names_the_way_to_continue(listed: list[JsonDict]) -> None:
    [twin] = [tool for tool in listed if tool["name"] == "refund_order"]
    assert len(twin["description"]) < MOST_DESCRIPTION
    assert "task_id" in twin["description"]
    assert "task_id" in twin["inputSchema"]["properties"]
    assert not twin["inputSchema"].get("required")


def test_the_message_equals_the_text(baton: Connect, era: Era) -> None:
    client = baton(Shop().server(without("approved_by")), era=era)
    paused = called(client, "refund_order", BEGIN)
    assert paused["structuredContent"]["message"] == text_alone(paused)
    assert read(text_alone(paused)).calls
    done = called(client, "refund_order", {"order_id": "B-2"})
    assert done["structuredContent"]["message"] == text_alone(done)


def test_the_outcome_of_a_call_is_last_in_the_text_and_in_the_structure(baton: Connect, era: Era) -> None:
    client = baton(Shop().server(without("approved_by")), era=era)
    [call, *_] = read(text_alone(called(client, "refund_order", BEGIN))).calls
    made = called(client, call.tool, {**call.arguments, "approved_by": "Ada"})
    assert made["structuredContent"]["baton_next"] == made["content"][-1]["text"]
    assert read(made["content"][-1]["text"]).calls[0].tool == "refund_order"


def test_a_tool_that_returns_text_also_has_the_outcome(baton: Connect) -> None:
    client = baton(Shop().server(Step("mark", tool="mark"), refund()))
    [call, *_] = read(text_alone(called(client, "refund_order", BEGIN))).calls
    made = called(client, call.tool, {**call.arguments, "colour": "red"})
    assert (made["structuredContent"]["result"], text_alone(made).split("\n")[0]) == ("red", "red")
    assert made["structuredContent"]["baton_next"] == made["content"][-1]["text"]


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("refund_order", {}, "order_id"),
        ("refund_order", {"order_id": "A-17", "amount": "much"}, "amount"),
        ("refund_order", {"task_id": "0" * 34}, "task"),
        ("refund", {"order_id": "A-17", "amount": "<missing: amount>", "task_id": "TASK"}, "amount"),
        ("refund", {"order_id": "A-17", "amount": 30.0, "task_id": "TASK"}, "approval"),
    ],
)
def test_an_error_is_text_and_its_first_block_has_the_problem(
    baton: Connect, era: Era, tool: str, arguments: JsonDict, named: str
) -> None:
    client = baton(Shop().server(without("approved_by")), era=era)
    called(client, "refund_order", BEGIN)
    [task] = client.tasks()
    sent = {name: task.task_id if value == "TASK" else value for name, value in arguments.items()}
    failed = called(client, tool, sent)
    assert failed["isError"] is True
    assert "structuredContent" not in failed
    assert named in failed["content"][0]["text"]


def test_the_result_of_a_workflow_fits_a_host_even_if_its_tools_do_not(baton: Connect) -> None:
    server = Server("long")

    @server.tool
    def write(text: str, other: str, third: str = "") -> dict[str, str]:
        """Write much."""
        if third == "fail":
            raise ToolError("z" * 200_000)
        return {"text": text + LARGE, "other": other}

    words = {"text": constant("y" * 480), "other": constant("z" * 480)}
    steps = [Step(f"write-{number}", tool="write", arguments=words) for number in range(99)]
    failing = Step("fails", tool="write", arguments={**words, "third": constant("fail")}, guidance="g" * 2_000)
    server.add_workflow(Workflow(name="early", description="write", steps=[failing, *steps]))
    server.add_workflow(Workflow(name="late", description="write", steps=[*steps, failing]))
    client = baton(server)
    for name in ("early", "late"):
        result = called(client, name, {})
        assert result["structuredContent"]["task_status"] == "working"
        assert len(result["content"][0]["text"].encode()) < MOST_TEXT
        assert len(everything(result)) < MOST_TOKENS * CHARACTERS_A_TOKEN
        assert len(read(result["content"][0]["text"]).calls) >= 1


def test_a_large_result_is_a_link(baton: Connect) -> None:
    server = Server("long")

    @server.tool
    def find(of: str) -> str:
        """Find a document."""
        return of + LARGE

    find_it = Step("find", tool="find", arguments={"of": prompt_arg("of")})
    server.add_workflow(Workflow(name="search", description="search", arguments=[Argument("of")], steps=[find_it]))
    client = baton(server)
    done = called(client, "search", {"of": "A"})
    linked = done["structuredContent"]["results"]["find"]
    assert linked["bytes"] >= len(LARGE)
    assert {"resource_link": linked["uri"]} in [{block["type"]: block.get("uri")} for block in done["content"]]
    assert LARGE in client.read_resource(linked["uri"]).text


STEP_S = 18.0
STEPS = 9


def slow(client_of: list[Client]) -> Server:
    """Nine steps of 18 seconds each."""
    server = Server("slow")

    @server.tool
    def work(on: int) -> int:
        """Work for a while."""
        client_of[0].clock.advance(STEP_S)
        return on

    steps = [Step(f"work-{number}", tool="work", arguments={"on": constant(number)}) for number in range(STEPS)]
    server.add_workflow(Workflow(name="plod", description="plod", steps=steps))
    return server


def test_a_host_with_a_time_limit_of_a_minute_gets_each_answer(baton: Connect, era: Era) -> None:
    """Three steps fit into a call: the budget of 50 s is used up after them, and the host has waited 54 s."""
    clients: list[Client] = []
    clients.append(baton(slow(clients), era=era))
    client, call, calls = clients[0], Call("plod", {}), 0
    host = Host(client, text_alone)
    while not read(shown := host.call(call)).done:
        assert not shown.startswith("Error: "), shown
        go_on = read(shown).go_on
        assert go_on is not None, shown
        call, calls = go_on, calls + 1
    assert (calls + 1, client.calls("work")) == (3, [{"on": number} for number in range(STEPS)])
    [task] = client.tasks()
    assert task.status == "completed"


def test_without_a_reply_budget_that_host_times_out(baton: Connect) -> None:
    clients: list[Client] = []
    server = slow(clients)
    clients.append(baton(with_budget(server, 600.0)))
    assert Host(clients[0], text_alone).call(Call("plod", {})).endswith("Request timed out")
    assert STEP_S * 4 > GIVES_UP_S


def with_budget(server: Server, seconds: float) -> Server:
    made = Server(server.options.name, reply_budget_s=seconds)
    made.include(server)
    return made
