"""What tools do with their `Context`, in both eras, through the real handler."""

import asyncio
import json
from typing import Any

import pytest

from mcp_baton import Context, ProtocolError, Server, ToolError, elicitation
from mcp_baton.testing import Client, Era, connect
from mcp_baton.testing.answers import Unanswered
from tests.questions.test_asked_by_tools import FORM
from tests.support.client import Sink
from tests.support.handler import MakeClient, Submit


def with_tool(function: Any) -> Server:
    server = Server("s")
    server.tool(name="tool")(function)
    return server


def test_questions_without_keys_are_distinguished_by_their_place_and_text(era: Era) -> None:
    def tool(ctx: Context) -> list[Any]:
        first, second = ctx.elicit("How many?", int).data, ctx.elicit("How many?", int).data
        return [first, second, ctx.elicit("Who?", response_type=str).data]

    with connect(with_tool(tool), era=era) as client:
        client.answers({"How many?": {"value": 3}, "Who?": {"value": "Kim"}})
        assert client.call_tool("tool").value == [3, 3, "Kim"]


def test_a_question_without_a_key_keeps_its_key_over_the_rounds_and_has_another_in_another_place() -> None:
    def tool(ctx: Context, first: str = "A?") -> str:
        ctx.elicit(first, FORM)
        ctx.elicit("A?", FORM)
        return "done"

    def keys(client: Client, **arguments: Any) -> list[str]:
        question_keys: list[str] = []
        for _ in range(2):
            with pytest.raises(Unanswered) as error_info:
                client.call_tool("tool", arguments)
            question_keys.append(str(error_info.value.key))
            client.answers({question_keys[-1]: {}})
        assert client.call_tool("tool", arguments).value == "done"
        client.answers(None)
        client.answers({})
        return question_keys

    with connect(with_tool(tool)) as client:
        first, second = keys(client)
        assert keys(client) == [first, second]
        assert first != second
        other_key, same_key = keys(client, first="B?")
        assert (other_key != first, same_key) == (True, second)


@pytest.mark.parametrize("in_one_ask", [False, True])
def test_a_key_with_two_different_questions_in_one_call_is_refused_by_name(era: Era, in_one_ask: bool) -> None:
    def tool(ctx: Context) -> str:
        try:
            if in_one_ask:
                ctx.ask(elicitation("who", "Who?", FORM), elicitation("who", "Where?", FORM))
            else:
                ctx.elicit("Who?", FORM, key="who")
                ctx.elicit("Where?", FORM, key="who")
        except ValueError as error:
            return str(error)
        return "done"

    with connect(with_tool(tool), era=era) as client:
        client.answers({"who": {"name": "Kim"}})
        assert "'who'" in client.call_tool("tool").text


def test_a_url_question_has_an_elicitation_id_up_to_2025_11_25(make_client: MakeClient, submit: Submit) -> None:
    def tool(ctx: Context) -> str:
        return ctx.elicit_url("Please sign in.", "https://example.com").action

    client, sink = make_client(with_tool(tool)), Sink()
    submit(sink, lambda: client.call_tool("tool"))
    question = sink.next()
    body = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}}
    client.post(json.dumps(body), {"MCP-Protocol-Version": "2025-11-25"})

    identifier = question["params"].pop("elicitationId")
    assert question["params"] == {"mode": "url", "message": "Please sign in.", "url": "https://example.com"}
    assert identifier not in ("", question["id"])
    assert sink.next()["result"]["content"][0]["text"] == "accept"


def library() -> Server:
    server = Server("library")

    @server.resource("docs://{topic}", mime_type="text/markdown")
    def docs(topic: str) -> str:
        return f"# {topic}"

    @server.resource("logo://mine", mime_type="image/png")
    async def logo() -> bytes:
        await asyncio.sleep(0)
        return b"\x89PNG"

    @server.resource("rows://all")
    def rows(ctx: Context) -> list[int]:
        return [1, ctx.attempt]

    @server.resource("count://{number}")
    def count(number: int) -> str:
        return str(number)

    @server.resource("broken://mine")
    def broken() -> str:
        raise KeyError("lost")

    @server.resource("asking://mine")
    def asking(ctx: Context) -> str:
        return str(ctx.elicit("Who?", str).data)

    add_readers(server)
    return server


def add_readers(server: Server) -> None:
    @server.tool
    def read(uri: str, ctx: Context) -> list[Any]:
        try:
            (item,) = ctx.read_resource(uri)
        except (KeyError, ToolError, ProtocolError) as error:
            return [f"{type(error).__name__}: {error}"]
        return [item.uri, item.mime_type, repr(item.content)]

    @server.tool
    async def read_awaited(uri: str, ctx: Context) -> list[Any]:
        (item,) = await ctx.aread_resource(uri)
        return [item.uri, item.mime_type, repr(item.content)]

    @server.tool
    async def read_at_once(uri: str, ctx: Context) -> str:
        try:
            return repr(ctx.read_resource(uri)[0].content)
        except TypeError as error:
            raise ToolError(str(error)) from error


@pytest.mark.parametrize("tool", ["read", "read_awaited"])
@pytest.mark.parametrize(
    ("uri", "mime_type", "content"),
    [
        ("docs://refunds", "text/markdown", "# refunds"),
        ("logo://mine", "image/png", b"\x89PNG"),
        ("rows://all", "application/json", "[1,1]"),
    ],
)
def test_a_tool_reads_a_resource_of_its_server(tool: str, uri: str, mime_type: str, content: str | bytes) -> None:
    with connect(library()) as client:
        assert client.call_tool(tool, {"uri": uri}).value == [uri, mime_type, repr(content)]


def test_an_asynchronous_tool_must_await_an_asynchronous_resource() -> None:
    with connect(library()) as client:
        assert client.call_tool("read_at_once", {"uri": "docs://a"}).value == "'# a'"
        result = client.call_tool("read_at_once", {"uri": "logo://mine"})
        assert (result.is_error, "await" in result.text) == (True, True)


@pytest.mark.parametrize(
    ("uri", "error"),
    [
        ("docs://a/b", "ToolError: There is no resource docs://a/b."),
        ("count://many", "ToolError: count://many"),
        ("broken://mine", "KeyError: 'lost'"),
    ],
)
def test_a_resource_that_cannot_be_read_raises_in_the_tool(uri: str, error: str) -> None:
    with connect(library()) as client:
        assert client.call_tool("read", {"uri": uri}).value[0].startswith(error)


def test_a_resource_that_a_tool_reads_may_ask_the_client(era: Era) -> None:
    with connect(library(), era=era) as client:
        client.answers({"Who?": {"value": "Kim"}})
        assert client.call_tool("read", {"uri": "asking://mine"}).value[2] == "'Kim'"
