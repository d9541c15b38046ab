"""Results that frameworks and clients of each revision understand (docs/tools.md, What a tool may return)."""

import logging
import sys
from datetime import date
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel

from mcp_baton import (
    Context,
    Image,
    Message,
    ProtocolError,
    ResourceLink,
    Server,
    Text,
    ToolError,
    ToolResult,
    ask_user,
    fetch,
    step,
)
from mcp_baton.testing import Client, Connect, Era, JsonRpcError
from tests.support.handler import MakeClient
from tests.typed import returning

DONE, NULL = [{"type": "text", "text": "Done."}], [{"type": "text", "text": "null"}]
LINK = ResourceLink("note://one", "one")


class Receipt(BaseModel):
    total: float


def text(words: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": words}]


@pytest.mark.parametrize(
    ("returns", "returned", "content", "value"),
    [
        (None, None, DONE, None),
        (Any, None, DONE, None),
        (ToolResult, ToolResult(), DONE, None),
        (ToolResult, ToolResult(structured={"total": 1.0}), text('{"total":1.0}'), {"total": 1.0}),
        (str | None, None, NULL, {"result": None}),
        (Receipt | None, None, NULL, {"result": None}),
        (str, "", text(""), {"result": ""}),
        (list[str], [], text("[]"), {"result": []}),
        (Text, Text(5), text("5"), None),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_a_result_without_a_value_has_one_text(
    baton: Connect, returns: Any, returned: Any, content: Any, value: Any
) -> None:
    server = Server("results", task_ids="text")
    server.tool(returning(returned, returns))
    result = baton(server).call_tool("do")

    assert (list(result.content), result.structured, result.is_error) == (content, value, False)


type AnyList = list[Any]


@pytest.mark.parametrize(
    "returns",
    [
        list,
        list[Any],
        AnyList,
        list[Any] | None,
        Annotated[list[object], "x"],
        tuple[Any, ...],
        object,
        Image,
        ToolResult,
        ResourceLink | None,
        tuple[Text, ...],
        list[str | Image],
    ],
)
def test_a_type_whose_values_may_be_content_has_no_output_schema(baton: Connect, returns: Any) -> None:
    def links(numbers: bool = False) -> Any:
        return [1, "a"] if numbers else [Text("see"), LINK]

    server = Server("s")
    links.__annotations__["return"] = returns
    server.tool(links)
    client = baton(server)

    assert "outputSchema" not in client.list_tools()[0]
    assert [block["type"] for block in client.call_tool("links").content] == ["text", "resource_link"]
    if returns == list[Any]:
        assert client.call_tool("links", {"numbers": True}).structured == {"result": [1, "a"]}


@pytest.mark.parametrize("returns", [str, dict, list[str], Receipt, dict[str, Any], tuple[int, str]])
def test_content_without_structured_content_is_an_error_if_a_schema_is_published(
    baton: Connect, returns: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")
    server.tool(returning(ToolResult(["text"]), returns))
    client = baton(server)

    assert "outputSchema" in client.list_tools()[0]
    with caplog.at_level(logging.ERROR):
        result = client.call_tool("do")
    assert result.is_error
    assert result.text.startswith("internal error in do")
    assert "return ToolResult(structured=…), or declare ToolResult" in caplog.text


def notes_server() -> Server:
    server = Server("notes", task_ids="text")

    @server.tool
    def one(size: int = 1, error: str = "") -> str:
        if error:
            raise ToolError(error)
        return "x" * size

    @server.workflow
    def flow() -> None:
        """Write notes."""
        ask_user("name", "Whose notes?")
        step(one)(size=2)

    return server


@pytest.fixture
def notes(baton: Connect) -> Client:
    return baton(notes_server())


def call_one(client: Client, **arguments: Any) -> list[str]:
    task_id = client.call_workflow("flow").task_id
    result = client.call_tool("one", {**arguments, "task_id": task_id})
    assert result.is_error is ("error" in arguments)
    return [str(block["text"]) for block in result.content]


def test_the_text_that_says_how_to_continue_is_the_last_block_of_a_result(notes: Client) -> None:
    value, note = call_one(notes)
    assert (value, "Recorded as step 'one'" in note) == ("x", True)


def test_it_is_in_the_first_block_of_an_error(notes: Client) -> None:
    [text] = call_one(notes, error="no paper")
    note, error = text.split("\n\n")
    assert note.startswith("Recorded as step 'one', which failed (0 of 2 done).")
    assert error == "no paper"


@pytest.mark.parametrize("arguments", [{"size": 9_000}, {"error": "x" * 9_000}])
def test_it_is_the_first_and_the_last_block_of_a_long_result(notes: Client, arguments: dict[str, Any]) -> None:
    first, *_, last = call_one(notes, **arguments)
    assert first.startswith("Recorded as step 'one'")
    assert last == first.split("\n\n")[0]


@pytest.mark.parametrize(
    ("code", "data", "sent"),
    [
        (-32_050, {"at": [date(2026, 1, 2)], "load": float("nan")}, {"at": ["2026-01-02"], "load": None}),
        (-32_050, Receipt(total=1), {"total": 1.0}),
        (-32_050, {"lock": object()}, None),
        (True, None, None),
    ],
    ids=["values of Python", "a model", "no JSON", "no code"],
)
def test_the_data_of_an_error_is_json_and_other_data_is_an_internal_error(
    make_client: MakeClient, code: Any, data: Any, sent: Any, era: Era
) -> None:
    server = Server("errors")

    @server.tool
    def refuse() -> None:
        raise ProtocolError(code, "no", data)

    answer = make_client(server, era=era).call_tool("refuse")
    if sent is None:
        assert answer.result["content"][0]["text"].startswith("internal error in refuse (id ")
    else:
        assert (answer.error["code"], answer.error["data"]) == (code, sent)


def test_the_first_revision_gets_texts_instead_of_links(make_client: MakeClient) -> None:
    server = Server("links")
    server.tool(name="links")(lambda: [Text("see"), LINK])
    server.prompt(name="ask")(lambda: [Message("user", LINK)])
    client = make_client(server, era="2025")
    text = {"type": "text", "text": "Resource one: note://one"}
    for revision, expected in (("2025-03-26", text), ("2025-06-18", LINK.to_json())):
        headers = {"MCP-Protocol-Version": revision}
        call = client.request("tools/call", {"name": "links", "arguments": {}}, headers=headers)
        prompt = client.request("prompts/get", {"name": "ask", "arguments": {}}, headers=headers)
        assert call.result["content"] == [{"type": "text", "text": "see"}, expected]
        assert prompt.result["messages"] == [{"role": "user", "content": expected}]


def test_the_error_of_a_missing_capability_names_the_capability(make_client: MakeClient) -> None:
    server = Server("asking")

    @server.tool
    def form(ctx: Context) -> str:
        return str(ctx.elicit("Really?", bool).data)

    @server.tool
    def url(ctx: Context) -> str:
        return str(ctx.elicit_url("Sign in", "https://example.com"))

    client = make_client(server, era="2026")
    messages = [
        client.request("tools/call", {"name": name, "arguments": {}}).error["message"] for name in ("form", "url")
    ]
    assert messages == [
        "Missing required client capability: elicitation",
        "Missing required client capability: elicitation.url",
    ]


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        (None, "the prompt returned None; return a text, content, a Message"),
        ([{"role": "user"}], "the prompt returned a value of the type dict; return a text, content, a Message"),
        (Message("system", "Be kind."), "a message with the role 'system', which MCP does not have; give it 'user'"),
        ([{"role": "tool", "content": "x"}], "a message with the role 'tool', which MCP does not have"),
    ],
)
def test_the_error_of_a_prompt_that_returns_no_valid_messages_says_what_to_return(
    baton: Connect, returned: object, problem: str
) -> None:
    server = Server("shop")
    server.prompt(returning(returned))
    with pytest.raises(JsonRpcError, match=problem):
        baton(server).get_prompt("do")


def test_the_last_message_of_a_prompt_is_the_users(baton: Connect, era: Era) -> None:
    server = Server("prompts")

    @server.tool
    def one(error: str = "") -> str:
        if error:
            raise ToolError(error)
        return "done"

    @server.resource("docs://policy")
    def policy() -> str:
        return "Be kind."

    @server.workflow
    def failing() -> None:
        step(one)(error="no paper")

    @server.workflow
    def asking() -> None:
        ask_user("name", "Whose?")

    @server.workflow
    def reading() -> None:
        fetch("policy", "docs://policy")

    client = baton(server)
    for name, request in (("failing", "Continue as described."), ("asking", "Continue as described.")):
        run = client.get_prompt(name)
        assert [message.role for message in run.messages[-2:]] == ["assistant", "user"]
        assert (run.messages[-2].text, run.messages[-1].text) == (run.handoff, request)
    assert client.get_prompt("reading").messages[-1].role == "user"


def test_next_leaves_out_a_call_that_would_fail_again_and_the_text_keeps_it(baton: Connect) -> None:
    server = Server("loop")

    @server.tool
    def find(title: str) -> str:
        raise ToolError("there is no such book")

    @server.workflow
    def lend(title: str) -> None:
        step(find)(title=title)

    client = baton(server)
    run = client.call_workflow("lend", {"title": "Nope"})
    resume_call = {"tool": "lend", "arguments": {"task_id": run.task_id}}
    assert run.next == [resume_call]
    assert 'Call find with {"title": "Nope"' in run.text
    assert "not retryable: correct the cause first" in run.text
    assert run.pause.to_dict()["suggestedTool"] == "find"


def test_a_validator_that_ends_the_process_ends_only_its_call(baton: Connect) -> None:
    server = Server("shop")

    def check(number: int) -> int:
        return number or sys.exit(1)

    @server.tool
    def order(number: Annotated[int, AfterValidator(check)]) -> int:
        return number

    @server.workflow
    def order_one(number: Annotated[int, AfterValidator(check)]) -> None:
        step(order)(number=number)

    client = baton(server)
    assert client.call_tool("order", {"number": 0}).is_error
    with pytest.raises(JsonRpcError, match="-32603"):
        client.call_workflow("order_one", {"number": 0})
    assert client.call_workflow("order_one", {"number": 1}).completed
