"""Texts of exceptions appear only in the log. Clients see the name of the function and an id of the log entry."""

import json
from collections.abc import Callable, Iterator
from typing import Annotated, Any, cast

import pytest
from pydantic import AfterValidator, BaseModel, PlainSerializer, field_serializer

from mcp_baton import Argument, Fetch, Server, ToolStep, Workflow, constant, prompt_arg
from mcp_baton.tasks.record import RESULT_PREFIX
from tests.support.client import Answer, Client, Table
from tests.support.handler import MakeClient

ROLE = "arn:aws:iam::123456789012:role/payments"
URL = "https://bank.example.com/pay?api_key=sk-live-1"
SECRET = f"User: {ROLE} is not authorized; GET {URL} answered 403"
REQUEST_ID = "api-1"
"""The id of each request, from `support.proxy_event`."""


def internal_error(name: str) -> str:
    return f"internal error in {name} (id {REQUEST_ID})"


def break_down() -> Any:
    raise RuntimeError(SECRET)


def refuse(_: object) -> Any:
    return break_down()


class Receipt(BaseModel):
    """A model whose serialization fails."""

    number: int = 1

    @field_serializer("number")
    def dump(self, _: int) -> int:
        """Fail."""
        return cast("int", break_down())


CHECKED_INT = Annotated[int, AfterValidator(refuse)]
DUMPED_INT = Annotated[int, PlainSerializer(refuse)]


def broken_server(*, mask_errors: bool = True) -> Server:
    """Return a server with broken functions of every kind."""
    server = Server("broken", mask_errors=mask_errors)
    add_tools(server)
    add_resources(server)
    add_prompts(server)
    add_workflows(server)
    return server


def add_tools(server: Server) -> None:
    server.tool(name="raises")(break_down)

    @server.tool
    async def raises_later() -> None:
        break_down()

    @server.tool
    def checks(amount: Annotated[int, AfterValidator(refuse)]) -> int:
        return amount

    @server.tool
    def declares() -> int:
        return cast("int", SECRET)

    @server.tool
    def dumps() -> Receipt:
        return Receipt()


def add_resources(server: Server) -> None:
    @server.resource("docs://raises", name="raises_docs")
    def docs() -> str:
        return str(break_down())

    @server.resource("docs://dumps", name="dumps_docs")
    def dumped_docs() -> Receipt:
        return Receipt()

    @server.resource("pages://{number}", name="pages")
    def pages(number: Annotated[int, AfterValidator(refuse)]) -> str:
        return str(number)

    @server.completion("pages://{number}", "number")
    def numbers(value: str) -> Iterator[str]:
        yield value
        break_down()


def add_prompts(server: Server) -> None:
    @server.prompt
    def greeting() -> str:
        return str(break_down())

    @server.prompt
    def dumped_greeting() -> list[Any]:
        return [Receipt()]


def add_workflows(server: Server) -> None:
    for name in ("raises", "raises_later", "declares", "dumps"):
        server.add_workflow(Workflow(name=f"flow_{name}", description="work", steps=[ToolStep("only", tool=name)]))
    steps = [ToolStep("only", tool="checks", arguments={"amount": constant(1)})]
    server.add_workflow(Workflow(name="flow_checks", description="work", steps=steps))
    server.add_workflow(
        Workflow(name="flow_docs", description="read", steps=[Fetch("only", resources=["docs://raises"])])
    )
    for name, kind in (("checked_argument", CHECKED_INT), ("dumped_argument", DUMPED_INT)):
        steps = [ToolStep("only", tool="checks", arguments={"amount": prompt_arg("n")})]
        server.add_workflow(Workflow(name=name, description="work", arguments=[Argument("n", type=kind)], steps=steps))


def assert_masked(answer: Answer, log: str) -> None:
    """Check that the answer contains no part of the secret, and that the log contains the secret and the id."""
    text = json.dumps([answer.messages, dict(answer.headers)])
    assert not any(part in text for part in (ROLE, "sk-live-1", "RuntimeError", "authorized"))
    assert SECRET in log
    assert REQUEST_ID in log


@pytest.mark.parametrize("tool", ["raises", "raises_later", "checks", "declares", "dumps"])
def test_an_exception_in_a_tool_is_hidden(make_client: MakeClient, caplog: pytest.LogCaptureFixture, tool: str) -> None:
    arguments = {"amount": 1} if tool == "checks" else {}
    answer = make_client(broken_server()).call_tool(tool, arguments)
    assert answer.result["isError"] is True
    assert answer.result["content"] == [{"type": "text", "text": internal_error(tool)}]
    if tool == "declares":  # the log has the line and the type, and not the value
        assert "a value of the type str, but it declares int" in caplog.text
        assert SECRET not in caplog.text
    assert_masked(answer, caplog.text + (SECRET if tool == "declares" else ""))


@pytest.mark.parametrize("name", ["raises", "raises_later", "checks", "declares", "dumps", "raises_docs"])
def test_an_exception_in_a_step_is_only_in_the_log(make_client: MakeClient, table: Table, name: str) -> None:
    client = make_client(broken_server())
    answer = client.get_prompt("flow_docs" if name == "raises_docs" else f"flow_{name}")
    assert answer.meta["pause_reason"]["error"] == internal_error(name)
    assert internal_error(name) in answer.handoff
    variables = client.variables(answer.task_id)
    assert variables["_workflow.pause_reason"]["error"] == internal_error(name)
    assert variables[f"{RESULT_PREFIX}only"] == {"error": internal_error(name)}
    assert not any(part in answer.body + repr(table.items) for part in (ROLE, "sk-live-1"))


def test_an_exception_in_a_continuation_is_recorded_without_its_text(make_client: MakeClient, table: Table) -> None:
    client = make_client(broken_server())
    task = client.get_prompt("flow_raises").task_id
    answer = client.call_tool("raises", task=task)
    assert answer.meta["recorded"] is True
    assert answer.meta["pause_reason"]["error"] == internal_error("raises")
    assert not any(part in answer.body + repr(table.items) for part in (ROLE, "sk-live-1"))


def read(uri: str) -> Callable[[Client], Answer]:
    return lambda client: client.request("resources/read", {"uri": uri})


REQUESTS: dict[str, tuple[str, Callable[[Client], Answer]]] = {
    "resource": ("raises_docs", read("docs://raises")),
    "resource that cannot be dumped": ("dumps_docs", read("docs://dumps")),
    "resource whose argument is checked": ("pages", read("pages://1")),
    "prompt": ("greeting", lambda client: client.get_prompt("greeting")),
    "prompt that cannot be dumped": ("dumped_greeting", lambda client: client.get_prompt("dumped_greeting")),
    "completion": (
        "completion of 'pages://{number}' 'number'",
        lambda client: client.request(
            "completion/complete",
            {"ref": {"type": "ref/resource", "uri": "pages://{number}"}, "argument": {"name": "number", "value": "1"}},
        ),
    ),
}


@pytest.mark.parametrize("kind", REQUESTS)
def test_an_exception_in_a_resource_prompt_or_completion_is_hidden_from_clients(
    make_client: MakeClient, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    name, ask = REQUESTS[kind]
    answer = ask(make_client(broken_server()))
    assert answer.error["code"] == -32603
    assert internal_error(name) in answer.error["message"]
    assert_masked(answer, caplog.text)


@pytest.mark.parametrize("workflow", ["checked_argument", "dumped_argument"])
def test_an_exception_in_a_workflow_argument_is_hidden_from_clients(
    make_client: MakeClient, caplog: pytest.LogCaptureFixture, table: Table, workflow: str
) -> None:
    answer = make_client(broken_server()).get_prompt(workflow, {"n": "1"})
    assert (answer.error["code"], answer.error["data"]) == (-32603, {"correlationId": REQUEST_ID})
    assert_masked(answer, caplog.text)
    assert table.items == []


def test_the_error_for_a_damaged_task_does_not_show_its_contents(
    make_client: MakeClient, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    client = make_client(broken_server())
    task = client.get_prompt("flow_raises").task_id
    table.replace({**table.item(task), "status": {"S": SECRET}})
    answer = client.task("get", task)
    assert answer.error == {
        "code": -32603,
        "message": "The task store could not do this.",
        "data": {"correlationId": REQUEST_ID},
    }
    assert_masked(answer, caplog.text)


def test_a_server_can_show_the_texts_of_exceptions(make_client: MakeClient) -> None:
    client = make_client(broken_server(mask_errors=False))
    assert client.call_tool("raises").result["content"] == [{"type": "text", "text": SECRET}]
    assert client.get_prompt("flow_checks").meta["pause_reason"]["error"] == SECRET
    assert SECRET in client.request("resources/read", {"uri": "docs://raises"}).error["message"]
