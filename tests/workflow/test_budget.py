"""Budgets: Baton limits the size of its answers, and clients can read the omitted values (docs/storage.md, Budgets)."""

import json
from collections.abc import Mapping
from urllib.parse import quote

import pytest

from mcp_baton import Context, Fetch, RegistrationError, Server, ToolError, ToolStep, Workflow
from mcp_baton.present.view import variables_in
from mcp_baton.protocol.budget import MAX_ANSWER_BYTES
from mcp_baton.protocol.json import dumps, loads
from mcp_baton.tasks.ids import new_task_id
from mcp_baton.tools.resource import value_uri
from tests.fakes import Wire, listening
from tests.noise import noise
from tests.sent import Requests
from tests.support.client import Answer, Client, Era, JsonDict, Table
from tests.support.handler import MakeClient

ODD = 'a/b %2F?#é "q"'
"""The name of a variable with characters that a URI must escape."""


def value_server() -> Server:
    """Return a server with a workflow that pauses and a tool that sets variables of any size."""
    server = Server("s")

    @server.tool
    def keep(ctx: Context, sizes: dict[str, int], seed: int | None = None) -> str:
        assert ctx.task is not None
        for name, size in sizes.items():
            ctx.task[name] = "x" * size if seed is None else noise(size, seed)
        return "kept"

    @server.tool
    def fails() -> None:
        raise ToolError("no")

    server.add_workflow(Workflow(name="flow", description="wait", steps=[ToolStep("wait", tool="fails")]))
    return server


@pytest.fixture
def client(make_client: MakeClient) -> Client:
    return make_client(value_server(), era="2026")


def begin(client: Client, sizes: Mapping[str, int], seed: int | None = None) -> str:
    """Return a task with variables of these sizes. With a seed, their texts cannot be compressed."""
    task = client.get_prompt("flow").task_id
    if sizes:
        answer = client.call_tool("keep", {"sizes": dict(sizes), "seed": seed}, task=task)
        assert answer.meta["recorded"] is True
        assert "oversized" not in answer.meta
    return task


def read(client: Client, uri: str) -> Answer:
    return client.request("resources/read", {"uri": uri})


def text_at(client: Client, uri: str) -> str:
    [contents] = read(client, uri).result["contents"]
    assert (contents["uri"], contents["mimeType"]) == (uri, "application/json")
    text: str = contents["text"]
    return text


def read_in_pieces(client: Client, uri: str) -> tuple[JsonDict, int]:
    """Read a value that does not fit into one response. Return the answer and the size of the largest piece."""
    with listening(Wire()) as wire:
        read(client, uri)
    [(status, headers)] = wire.heads
    # It is not an event: clients limit the size of events.
    assert (status, headers["Content-Type"]) == (200, "application/json")
    return json.loads(wire.data), max(map(len, wire.pieces))


def test_values_in_the_item_are_shown_and_one_outside_is_named(client: Client, requests: Requests) -> None:
    task = begin(client, {"big": 400_000}, seed=1)
    client.call_tool("keep", {"sizes": {"small": 3}}, task=task)
    requests.take()
    meta = client.task("get", task).meta
    assert requests.take() == ["GetItem"]
    assert meta["small"] == "xxx"
    assert meta["big"] == {"bytes": 400_002, "uri": f"baton://tasks/{task}/big"}
    assert meta["omitted"] == ["big"]
    assert meta["_workflow.pause_reason"]["type"] == "toolError"
    assert set(client.variables(task)) == set(variables_in(meta)) - {"omitted"}
    assert len(client.variables(task)["big"]) == 400_000
    requests.take()
    assert set(variables_in(client.task_with("none", task).meta)) == {"_workflow.progress", "_workflow.pause_reason"}
    assert requests.take() == ["GetItem"]


@pytest.mark.parametrize("value", ["some", "", True, 1, ["all"], {"all": True}])
def test_an_unknown_choice_of_variables_is_refused(client: Client, requests: Requests, value: object) -> None:
    answer = client.task_with(value, new_task_id(0))
    assert answer.refusal == (400, -32602)
    assert "mcp-baton/variables" in answer.error["message"]
    assert requests.take() == []


def test_an_answer_shows_the_smallest_values_and_stays_within_its_budget(client: Client) -> None:
    sizes = {"a": 2_500_000, "b": 1_000, "c": 1_400_000, "d": 5_000_000}
    task = begin(client, sizes)
    answer = client.task_with("all", task)
    assert len(answer.body.encode()) <= MAX_ANSWER_BYTES
    assert answer.meta["omitted"] == ["d"]
    assert {name: len(answer.meta[name]) for name in "abc"} == {name: sizes[name] for name in "abc"}
    assert answer.meta["d"] == {"bytes": 5_000_002, "uri": value_uri(task, "d")}
    second_task = begin(client, {**sizes, "a": 2_700_000})
    assert set(client.task_with("all", second_task).meta["omitted"]) == {"a", "d"}


def test_lone_surrogates_do_not_exceed_the_budget(make_client: MakeClient) -> None:
    server = value_server()

    @server.tool
    def odd(ctx: Context) -> str:
        assert ctx.task is not None
        ctx.task["a"], ctx.task["b"] = "\ud800", "é" * 1_900_000
        return "kept"

    client = make_client(server)
    task = client.get_prompt("flow").task_id
    assert client.call_tool("odd", task=task).meta["recorded"] is True
    answer = client.task_with("all", task)
    assert (answer.meta["a"], answer.meta["b"]) == ("\ufffd", "é" * 1_900_000)
    assert len(answer.body.encode()) <= MAX_ANSWER_BYTES


def test_a_variable_named_omitted_can_be_read(client: Client) -> None:
    task = begin(client, {"omitted": 3})
    assert client.task("get", task).meta["omitted"] == "xxx"
    client.call_tool("keep", {"sizes": {"big": 5_000_000}}, task=task)
    assert sorted(client.task("get", task).meta["omitted"]) == ["big", "omitted"]
    assert text_at(client, value_uri(task, "omitted")) == '"xxx"'


def test_a_final_result_is_shown_or_named_if_it_exceeds_the_budget(client: Client, era: Era) -> None:
    task = begin(client, {"other": 100})
    task_result = {"text": "y" * 4_100_000}
    assert client.task("cancel", task, result=task_result).status == 200
    uri = f"baton://tasks/{task}/_workflow.result"
    answer = client.in_era(era).task("result" if era == "2025" else "get", task)
    assert answer.result["result"] == {"bytes": len(dumps(task_result)), "uri": uri}
    assert answer.meta["omitted"] == ["_workflow.result"]
    [contents] = read_in_pieces(client, uri)[0]["result"]["contents"]
    assert json.loads(contents["text"]) == task_result
    assert client.task_with("none", task).result["status"] == "completed"


@pytest.mark.parametrize("name", ["_workflow.progress", "_workflow.result.wait", "small", ODD])
def test_a_value_is_a_resource_with_its_json_as_text(client: Client, name: str) -> None:
    task = begin(client, {"small": 5, ODD: 7})
    uri = f"baton://tasks/{task}/{quote(name, safe='')}"
    assert loads(text_at(client, uri)) == client.variables(task)[name]


def test_reading_a_value_outside_the_item_reads_one_more_item(client: Client, requests: Requests) -> None:
    task = begin(client, {"big": 400_000}, seed=1)
    requests.take()
    answer = read(client, value_uri(task, "big"))
    assert requests.take() == ["GetItem", "GetItem"]
    assert answer.headers["Content-Type"] == "application/json"
    assert loads(answer.result["contents"][0]["text"]) == client.variables(task)["big"]
    assert (answer.result["ttlMs"], answer.result["cacheScope"]) == (0, "private")


def test_a_long_value_is_sent_in_small_pieces(client: Client) -> None:
    task = begin(client, {"big": 5_999_998})
    message, largest_piece = read_in_pieces(client, value_uri(task, "big"))
    assert message["result"]["contents"][0]["text"] == '"' + "x" * 5_999_998 + '"'
    assert largest_piece < 200_000


def test_a_long_value_is_refused_with_its_size_if_it_cannot_be_streamed(client: Client) -> None:
    task = begin(client, {"big": 5_000_000})
    answer = read(client, value_uri(task, "big"))
    assert answer.refusal == (400, -32600)
    assert answer.error["data"]["bytes"] == 5_000_002
    assert "5000002 bytes" in answer.error["message"]
    assert "stream" in answer.error["message"]


def test_unknown_foreign_and_expired_values_give_the_same_error(client: Client, table: Table) -> None:
    task, expired_task = begin(client, {"small": 3}), begin(client, {"small": 3})
    table.expire(expired_task)
    answers = [
        read(client.as_owner("bob"), value_uri(task, "small")),
        read(client, value_uri(expired_task, "small")),
        read(client, value_uri(new_task_id(0), "small")),
        read(client, value_uri(task, "smaller")),
        read(client, value_uri(task, "_workflow.result")),
        *[read(client, uri) for uri in (f"baton://tasks/{task}", "baton://", "baton://x/y/z", "BATON://tasks/a/b")],
        *[read(client, f"baton://tasks/{task}/{name}") for name in ("", "small/", "%ff", "sm%61ll%")],
    ]
    assert {answer.refusal for answer in answers} == {(400, -32602)}
    assert {answer.error["message"].partition(": ")[0] for answer in answers} == {"Unknown resource"}
    assert {tuple(answer.error["data"]) for answer in answers} == {("uri",)}
    assert text_at(client, f"baton://tasks/{task}/sm%61ll") == '"xxx"'


def test_values_of_durable_workflows_are_resources_that_are_not_listed(client: Client, make_client: MakeClient) -> None:
    begin(client, {"small": 3})
    assert client.request("server/discover").result["capabilities"]["resources"] == {}
    assert client.request("resources/list").result["resources"] == []
    assert client.request("resources/templates/list").result["resourceTemplates"] == []
    plain_server = Server("plain")
    plain_server.tool(name="work")(lambda: 1)
    plain_server.add_workflow(
        Workflow(name="flow", description="w", steps=[ToolStep("one", tool="work")], durable=False)
    )
    plain_client = make_client(plain_server, era="2026")
    assert "resources" not in plain_client.request("server/discover").result["capabilities"]


@pytest.mark.parametrize("uri", ["baton://tasks/{task}/{name}", "baton://mine", "Baton://mine"])
def test_a_servers_resource_cannot_replace_a_value(uri: str) -> None:
    with pytest.raises(RegistrationError, match="baton://"):
        Server("s").resource(uri)


def test_a_template_that_matches_every_uri_does_not_get_values(make_client: MakeClient) -> None:
    server = value_server()

    @server.resource("{+uri}")
    def everything(uri: str) -> str:
        return uri

    step = Fetch("read", resources=["baton://tasks/a/b"])
    server.add_workflow(Workflow(name="reads", description="read", steps=[step]))
    client = make_client(server)
    assert client.get_prompt("reads").meta["pause_reason"]["type"] == "toolError"
    assert read(client, "docs://x").result["contents"][0]["text"] == "docs://x"
    assert read(client, value_uri(new_task_id(0), "x")).refusal == (200, -32002)
