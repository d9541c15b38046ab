"""Questions to the client in the 2025 era: a question is sent on a stream, and its answer arrives with another
request."""

import asyncio
import json
from typing import Any

import pytest

from mcp_baton import Context, Server, ToolStep, Workflow, elicitation, sampling
from mcp_baton.testing import Connect, Era
from tests.support.client import BOUND_S, Answer, Client, JsonDict, Sink, Table
from tests.support.handler import MakeClient, Submit

HEADERS = {"MCP-Protocol-Version": "2025-11-25"}
FORM: Any = {"type": "object", "properties": {"name": {"type": "string"}}}
ACCEPTED = {"action": "accept", "content": {"name": "Kim"}}
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "blue"}, "model": "m-1"}
RESERVE_MS = 5_000


def asking_server() -> Server:
    server = Server("asking")

    @server.tool
    def who(ctx: Context) -> str:
        answer = ctx.elicit("name", "Who?", FORM)
        return str(answer.content["name"]) if answer.accepted else answer.action

    @server.tool
    async def colour(ctx: Context) -> str:
        (reply,) = await ctx.aask(sampling("colour", "Which?", max_tokens=5))
        return str(reply.text)

    @server.tool
    def where(ctx: Context) -> list[str]:
        return [root.uri for root in ctx.list_roots("where").roots]

    @server.tool
    def both(ctx: Context) -> list[str]:
        name, reply = ctx.ask(elicitation("name", "Who?", FORM), sampling("colour", "Which?"))
        return [name.content["name"], reply.text]

    server.add_workflow(Workflow(name="flow", description="ask", steps=[ToolStep("ask", tool="who")]))
    return server


def respond(client: Client, question: JsonDict, **message: Any) -> Answer:
    return client.post(json.dumps({"jsonrpc": "2.0", "id": question["id"], **message}), HEADERS)


def text_of(message: JsonDict) -> str:
    text: str = message["result"]["content"][0]["text"]
    return text


def questions_in(table: Table) -> int:
    return sum(item["sk"]["S"] == "QUESTION" for item in table.items)


@pytest.mark.parametrize(
    ("tool", "method", "result", "text"),
    [
        ("who", "elicitation/create", ACCEPTED, "Kim"),
        ("who", "elicitation/create", {"action": "decline"}, "decline"),
        ("colour", "sampling/createMessage", SAMPLED, "blue"),
        ("where", "roots/list", {"roots": [{"uri": "file:///work"}]}, '["file:///work"]'),
    ],
)
def test_a_question_is_sent_on_the_stream_and_its_answer_arrives_with_another_request(
    make_client: MakeClient, submit: Submit, table: Table, tool: str, method: str, result: JsonDict, text: str
) -> None:
    # Another function with its own store object receives the answer. The two share only the table.
    client, other_client, sink = make_client(asking_server()), make_client(asking_server()), Sink()

    call = submit(sink, lambda: client.call_tool(tool))
    question = sink.next()
    assert (question["method"], question["jsonrpc"]) == (method, "2.0")
    assert questions_in(table) == 1
    answer = respond(other_client, question, result=result)

    assert (answer.status, answer.body) == (202, "")
    assert text_of(sink.next()) == text
    assert call.result(BOUND_S).body == ""
    assert questions_in(table) == 0


def test_a_question_without_an_answer_in_time_is_an_error_of_the_tool(
    make_client: MakeClient, submit: Submit, table: Table
) -> None:
    client, sink = make_client(asking_server(), question_ms=1), Sink()

    submit(sink, lambda: client.call_tool("who"))
    question, message = sink.next(), sink.next()

    assert message["result"]["isError"] is True
    assert text_of(message) == "The client did not answer elicitation/create within 0.001 s."
    assert questions_in(table) == 0
    assert respond(client, question, result=ACCEPTED).refusal == (400, -32600)


def test_only_the_asked_owner_can_answer_and_only_once(make_client: MakeClient, submit: Submit) -> None:
    client, sink = make_client(asking_server()), Sink()

    submit(sink, lambda: client.call_tool("both"))
    first, second = sink.next(), sink.next()
    assert first["id"] != second["id"]
    forged_answer = respond(client.as_owner("mallory"), second, result={"action": "cancel"})
    assert forged_answer.refusal == (400, -32600)
    assert respond(client, second, result=SAMPLED).status == 202
    assert respond(client, second, result={"action": "cancel"}).refusal == (400, -32600)
    respond(client, first, result=ACCEPTED)

    assert sink.next()["result"]["structuredContent"] == {"result": ["Kim", "blue"]}
    assert respond(client, second, result=SAMPLED).refusal == (400, -32600)


def test_a_step_of_a_workflow_and_a_continuation_may_ask(make_client: MakeClient, submit: Submit) -> None:
    client, sink = make_client(asking_server()), Sink()
    submit(sink, lambda: client.get_prompt("flow"))
    respond(client, sink.next(), result=ACCEPTED)
    assert sink.next()["result"]["_meta"]["task_status"] == "completed"
    task = client.get_prompt("flow").task_id

    submit(sink, lambda: client.call_tool("who", task=task))
    respond(client, sink.next(), result=ACCEPTED)

    assert sink.next()["result"]["_meta"]["recorded"] is True
    assert client.variables(task)["_workflow.result.ask"] == "Kim"


def test_a_tool_that_cannot_ask_fails_with_the_reason(make_client: MakeClient, submit: Submit, table: Table) -> None:
    client, call = make_client(asking_server()), {"name": "who", "arguments": {}}
    json_answer = client.request("tools/call", call)
    no_stream_answer = submit(
        Sink(), lambda: client.request("tools/call", call, headers={"Accept": "application/json"})
    ).result(BOUND_S)

    for answer in (json_answer, no_stream_answer):
        assert answer.result["isError"] is True
        assert "elicitation/create" in answer.result["content"][0]["text"]
    assert questions_in(table) == 0


def test_a_question_and_an_answer_fail_if_the_store_is_unavailable(make_client: MakeClient, submit: Submit) -> None:
    client, sink = make_client(asking_server(), table_name="no-such-table"), Sink()

    submit(sink, lambda: client.call_tool("who")).result(BOUND_S)

    assert respond(client, {"id": "baton-" + "0" * 32}, result=ACCEPTED).status == 503


@pytest.mark.parametrize("in_background", [False, True])
@pytest.mark.parametrize("lengths", [[300_000] * 7, [6_100_000]])
def test_questions_that_fit_no_answer_are_an_error(baton: Connect, lengths: list[int], *, in_background: bool) -> None:
    server = Server("asking")

    @server.tool(task="optional" if in_background else "forbidden")
    def review(ctx: Context) -> int:
        return len(ctx.ask(*(elicitation(f"q{number}", "x" * length, FORM) for number, length in enumerate(lengths))))

    client = baton(server)
    result = client.start_task("review").result if in_background else client.call_tool("review")
    assert result.is_error
    assert result.text.startswith(f"The client cannot be asked: the questions have {sum(lengths) // 10_000}")


@pytest.mark.parametrize("era", ["2025", "2026"])
def test_the_tasks_of_a_task_group_may_ask(baton: Connect, era: Era) -> None:
    server = Server("asking")

    @server.tool
    async def names(ctx: Context) -> list[str]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ctx.aask(elicitation(key, key, str))) for key in ("first", "last")]
        return [task.result()[0].data or "" for task in tasks]

    client = baton(server, era=era)
    client.answers({"first": {"value": "Kim"}, "last": {"value": "Lee"}})
    assert client.call_tool("names").value == ["Kim", "Lee"]
