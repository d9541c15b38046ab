"""Completion, logging, subscriptions and mirrored headers, through the real handler."""

import json
from typing import Annotated, Any

import pytest

from mcp_baton import Argument, Context, Header, Image, Server, ToolError, ToolResult, ToolStep, Workflow, prompt_arg
from mcp_baton.protocol.envelope import LOG_LEVEL_KEY, LOG_LEVELS, RELATED_TASK_KEY, SERVER_INFO_KEY, TASK_ID_KEY
from mcp_baton.server.methods.subscriptions import SUBSCRIPTION_KEY
from tests.support.client import Answer, Client, Era
from tests.support.handler import MakeClient

INVALID_PARAMS, HEADER_MISMATCH = -32602, -32020


def shop_server() -> Server:
    """Return a server with functions for completion, logging, subscriptions and mirrored headers."""
    server = Server("shop")

    @server.tool
    def talk(ctx: Context) -> str:
        for level in LOG_LEVELS:
            ctx.log(level, {"level": level}, logger="shop")
        return "done"

    @server.tool
    def whisper(ctx: Context) -> str:
        ctx.debug("not sent")
        return "done"

    @server.tool
    def sell(region: Annotated[str, Header("Region")], count: Annotated[int | None, "How many"] = None) -> str:
        return f"{region} {count}"

    @server.tool
    def show(size: str) -> ToolResult:
        return ToolResult([size, Image(b"abc")], {"size": size}, {"example.com/cost": 3})

    @server.prompt
    def ask(tone: str, name: str = "you", times: str = "1") -> str:
        return f"{tone} {name} {times}"

    @server.resource("docs://{topic}")
    def docs(topic: str) -> str:
        return topic

    step = ToolStep("show", tool="show", arguments={"size": prompt_arg("size")})
    server.add_workflow(Workflow(name="flow", description="show", arguments=[Argument("size")], steps=[step]))
    complete_shop(server)
    return server


def complete_shop(server: Server) -> None:
    @server.completion("ask", "tone")
    def tones(value: str) -> list[str]:
        return [tone for tone in ("kind", "keen", "curt") if tone.startswith(value)]

    @server.completion("docs://{topic}", "topic")
    async def topics(value: str, known: dict[str, Any]) -> list[str]:
        return [f"{value}{number} {sorted(known)}" for number in range(150)]

    @server.completion("ask", "name")
    def names(value: str) -> str:
        return value

    @server.completion("flow", "size")
    def sizes(_value: str) -> list[str]:
        raise ToolError("out of sizes")


@pytest.fixture
def client(make_client: MakeClient, era: Era) -> Client:
    return make_client(shop_server(), era=era)


def wire_status(era: Era, status: int) -> int:
    return 200 if era == "2025" else status


def complete(client: Client, kind: str, target: str, argument: str, value: str = "", **params: Any) -> Answer:
    ref = {"type": f"ref/{kind}", "name" if kind == "prompt" else "uri": target}
    return client.request("completion/complete", {"ref": ref, "argument": {"name": argument, "value": value}, **params})


def test_arguments_of_prompts_are_completed(client: Client) -> None:
    completion = complete(client, "prompt", "ask", "tone", "k").result["completion"]
    assert completion == {"values": ["kind", "keen"], "total": 2, "hasMore": False}
    assert complete(client, "prompt", "ask", "times").result["completion"]["values"] == []


def test_variables_of_templates_are_completed_with_the_known_arguments(client: Client) -> None:
    answer = complete(client, "resource", "docs://{topic}", "topic", "t", context={"arguments": {"a": "b"}})

    completion = answer.result["completion"]
    assert (len(completion["values"]), completion["total"], completion["hasMore"]) == (100, 150, True)
    assert completion["values"][0] == "t0 ['a']"


@pytest.mark.parametrize(
    ("target", "argument", "reason"),
    [("flow", "size", "out of sizes"), ("ask", "name", "")],
    ids=["an error", "a text in place of a list"],
)
def test_a_failed_completion_is_an_error_with_a_reason(client: Client, target: str, argument: str, reason: str) -> None:
    answer = complete(client, "prompt", target, argument, "abc")

    assert (answer.refusal, reason in answer.error["message"]) == ((200, -32603), True)


@pytest.mark.parametrize(
    ("kind", "target", "argument"),
    [
        ("prompt", "ask", "size"),
        ("prompt", "nobody", "tone"),
        ("resource", "docs://x", "topic"),
        ("tool", "ask", "tone"),
    ],
)
def test_an_unknown_argument_has_no_completion(client: Client, era: Era, kind: str, target: str, argument: str) -> None:
    assert complete(client, kind, target, argument).refusal == (wire_status(era, 400), INVALID_PARAMS)


def test_in_2025_a_log_message_of_level_info_or_higher_opens_a_stream(make_client: MakeClient) -> None:
    client = make_client(shop_server())
    loud_answer, quiet_answer = client.call_tool("talk"), client.call_tool("whisper")

    assert loud_answer.headers["Content-Type"] == "text/event-stream"
    assert [note["level"] for note in loud_answer.notifications] == list(LOG_LEVELS[1:])
    assert loud_answer.notifications[0] == {"level": "info", "data": {"level": "info"}, "logger": "shop"}
    assert loud_answer.result["structuredContent"] == {"result": "done"}
    assert quiet_answer.headers["Content-Type"] == "application/json"


def test_in_2025_a_client_that_accepts_no_stream_gets_no_logs(make_client: MakeClient) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "talk", "arguments": {}}}
    headers = {"MCP-Protocol-Version": "2025-11-25", "Accept": "application/json"}
    answer = make_client(shop_server()).post(json.dumps(body), headers)

    assert answer.headers["Content-Type"] == "application/json"
    assert answer.result["structuredContent"] == {"result": "done"}


@pytest.mark.parametrize(
    ("accept", "streams"),
    [
        ("application/json", False),
        ("application/*", False),
        ("text/html", False),
        ("application/json, text/event-stream;q=0", False),
        ("*/*, text/event-stream; q=0.000", False),
        ("text/event-stream;q=.0, text/html", False),
        ("application/json, text/event-stream", True),
        ("application/json;q=0.5,TEXT/Event-Stream;Q=0.1", True),
        ("application/json, text/*;q=0.001", True),
        ("text/html;q=0, *; q=.2", True),
        ("*/*;q=0, text/event-stream", True),
        ("", True),
    ],
)
def test_messages_before_the_result_are_sent_only_to_clients_that_accept_a_stream(
    client: Client, accept: str, streams: bool
) -> None:
    meta = {"progressToken": 1, LOG_LEVEL_KEY: "info"}
    answer = client.request("tools/call", {"name": "talk", "arguments": {}}, meta, {"Accept": accept})

    assert (answer.headers["Content-Type"] == "text/event-stream", len(answer.notifications) > 0) == (streams, streams)
    assert answer.result["structuredContent"] == {"result": "done"}


@pytest.mark.parametrize("accept", ["text/event-stream", "text/*", "*/*, application/json;q=0"])
def test_a_client_that_accepts_only_streams_gets_each_answer_as_an_event(client: Client, era: Era, accept: str) -> None:
    result = client.request("tools/call", {"name": "whisper"}, headers={"Accept": accept})
    error = client.request("tools/call", {"name": "unknown"}, headers={"Accept": accept})

    kinds = ["text/event-stream", "text/event-stream" if era == "2025" else "application/json"]
    assert [answer.headers["Content-Type"] for answer in (result, error)] == kinds
    assert result.result["structuredContent"] == {"result": "done"}
    assert error.refusal == (wire_status(era, 400), INVALID_PARAMS)


def test_a_subscription_needs_a_client_that_accepts_a_stream(make_client: MakeClient) -> None:
    params: dict[str, Any] = {"notifications": {}}
    client = make_client(shop_server(), era="2026")
    answer = client.request("subscriptions/listen", params, headers={"Accept": "application/json"})
    assert answer.refusal == (400, -32600)
    assert "text/event-stream" in answer.error["message"]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        *((method, {"cursor": cursor}) for method in ("tools/list", "prompts/list") for cursor in ("", None)),
        *((method, {"cursor": ""}) for method in ("resources/list", "resources/templates/list")),
        ("tools/call", {"name": "whisper", "arguments": None, "task": None, "requestState": None}),
        ("tools/call", {"name": "whisper", "inputResponses": None}),
        ("prompts/get", {"name": "ask", "arguments": {"tone": "kind"}}),
        (
            "completion/complete",
            {
                "ref": {"type": "ref/prompt", "name": "ask", "title": None},
                "argument": {"name": "tone", "value": "k"},
                "context": {"arguments": None},
            },
        ),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "ask"}, "argument": {"name": "tone", "value": "k"}, "context": None},
        ),
    ],
)
def test_null_and_an_empty_cursor_count_as_left_out(client: Client, method: str, params: dict[str, Any]) -> None:
    meta = {"progressToken": None, LOG_LEVEL_KEY: None, TASK_ID_KEY: None, RELATED_TASK_KEY: None}
    answer = client.request(method, params, meta)
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.result


def test_params_and_meta_may_be_null_in_2025(make_client: MakeClient) -> None:
    client = make_client(shop_server())
    for method, params in (("tools/list", None), ("tools/list", {"_meta": None}), ("tasks/list", {"cursor": ""})):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        assert client.post(body, {"MCP-Protocol-Version": "2025-11-25"}).result


def test_initialize_negotiates_the_revision_whatever_its_header_says(make_client: MakeClient) -> None:
    for revision in ("2026-07-28", "2099-01-01", "2025-06-18"):
        headers = {"MCP-Protocol-Version": revision}
        answer = make_client(shop_server()).request("initialize", {"protocolVersion": revision}, headers=headers)
        assert answer.result["protocolVersion"] == ("2025-06-18" if revision == "2025-06-18" else "2025-11-25")


@pytest.mark.parametrize("level", [None, *LOG_LEVELS])
def test_in_2026_the_request_chooses_the_log_level(make_client: MakeClient, level: str | None) -> None:
    answer = make_client(shop_server(), era="2026").call_tool("talk", meta={LOG_LEVEL_KEY: level} if level else None)

    levels = [] if level is None else list(LOG_LEVELS[LOG_LEVELS.index(level) :])
    assert [note["level"] for note in answer.notifications] == levels
    assert (answer.headers["Content-Type"] == "text/event-stream") is (level is not None)


@pytest.mark.parametrize("level", [*LOG_LEVELS, "loud", "INFO", "", None, 5, ["info"]], ids=repr)
def test_only_a_known_log_level_can_be_set_in_2025(make_client: MakeClient, level: Any) -> None:
    answer = make_client(shop_server()).request("logging/setLevel", {"level": level})
    if level in LOG_LEVELS:
        assert answer.result == {}
    else:
        assert answer.refusal == (200, INVALID_PARAMS)


def test_a_subscription_to_a_resource_is_acknowledged_in_2025(make_client: MakeClient) -> None:
    client = make_client(shop_server())
    for method in ("resources/subscribe", "resources/unsubscribe"):
        assert client.request(method, {"uri": "docs://shoes"}).result == {}
        assert client.request(method, {"uri": "other://shoes"}).refusal == (200, -32002)
        assert client.request(method).refusal == (200, INVALID_PARAMS)


@pytest.mark.parametrize(
    "method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"]
)
def test_methods_that_need_a_session_are_unknown_in_2026(make_client: MakeClient, method: str) -> None:
    client = make_client(shop_server(), era="2026")

    assert client.request(method, {"level": "info", "uri": "docs://shoes"}).refusal == (404, -32601)


def test_without_streaming_a_subscription_ends_at_once_and_in_2025_there_is_none(make_client: MakeClient) -> None:
    client = make_client(shop_server(), era="2026", listen_ms=10**9)
    params = {"notifications": {"toolsListChanged": True}}
    answer = client.request("subscriptions/listen", params)

    assert [message.get("method") for message in answer.messages] == ["notifications/subscriptions/acknowledged", None]
    assert answer.meta == {SUBSCRIPTION_KEY: 1}
    assert answer.result["resultType"] == "complete"
    assert SERVER_INFO_KEY in answer.result["_meta"]
    assert client.in_era("2025").request("subscriptions/listen", params).refusal == (200, -32601)


@pytest.mark.parametrize("headers", [{}, {"Mcp-Param-Region": "us-west2"}, {"Mcp-Param-Region": "=?base64?!?="}])
def test_a_header_that_differs_from_its_argument_is_refused(make_client: MakeClient, headers: dict[str, str]) -> None:
    client = make_client(shop_server(), era="2026")
    params = {"name": "sell", "arguments": {"region": "us-west1"}}

    assert client.request("tools/call", params, headers=headers).refusal == (400, HEADER_MISMATCH)
    answer = client.in_era("2025").request("tools/call", params, headers=headers)
    assert answer.result["structuredContent"] == {"result": "us-west1 None"}


def test_a_tool_result_is_sent_unchanged_and_its_structured_content_is_the_steps_value(
    make_client: MakeClient, era: Era
) -> None:
    client = make_client(shop_server(), era=era)
    answer = client.call_tool("show", {"size": "m"})
    run = client.get_prompt("flow", {"size": "s"})

    assert [block["type"] for block in answer.result["content"]] == ["text", "image"]
    assert answer.result["structuredContent"] == {"size": "m"}
    assert answer.meta == {"example.com/cost": 3}
    assert client.variables(run.task_id)["_workflow.result.show"] == {"size": "s"}
