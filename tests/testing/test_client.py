"""The client of a server in the same process: its requests, and how it reads the replies."""

import asyncio
import inspect
import sys
from functools import partial
from typing import Annotated

import pytest

from mcp_baton import Header, Server, ToolStep, Workflow
from mcp_baton.aws import handler
from mcp_baton.exceptions import SettingsError
from mcp_baton.settings import Settings
from mcp_baton.tasks.dynamodb.items import Limits
from mcp_baton.testing import AsyncClient, Client, Era, JsonRpcError, aconnect, connect
from mcp_baton.transport.exchange import stream_opener
from tests.testing.conftest import BOTH_ERAS

pytestmark = pytest.mark.disable_socket

INVALID_PARAMS = -32602
UNKNOWN_ID = "0" * 34
ORDER = {"order_id": "A-17"}
MAIL = {"to": "kim@example.com", "text": "Refunded A-17"}


@BOTH_ERAS
def test_a_run_has_its_pause_and_task_and_can_be_continued(client: Client) -> None:
    run = client.get_prompt("refund_order", ORDER)
    task = client.task(run.task_id)
    assert (run.paused, run.completed, run.meta["task_status"]) == (True, False, "working")
    assert (run.pause.step, run.pause.error, run.pause.retryable) == ("refund", "connection timeout", True)
    assert run.pause.to_dict() == {
        "type": "toolError",
        "failedStep": "refund",
        "error": "connection timeout",
        "retryable": True,
        "suggestedTool": "refund",
    }
    assert run.steps == task.steps == {"fetch": "completed", "refund": "failed", "notify": "pending"}
    assert run.handoff.startswith("Step 'refund' failed: ")
    assert (run.messages[0].role, run.messages[0].text[:26]) == ("user", "I want to refund an order.")
    assert run.next == run.meta.get("next", [])
    assert (task.status, task.paused, task.pause.type) == ("working", True, "toolError")
    assert set(task.variables) == {
        "_workflow.progress",
        "_workflow.result.fetch",
        "_workflow.result.refund",
        "_workflow.pause_reason",
    }
    assert task.shown["taskId"] == task.task_id

    result = client.call_tool("refund", {**ORDER, "amount": 30.0}, task=run.task_id)
    assert (result.recorded, result.value["refund_id"]) == (True, "R-A-17")
    assert result.steps == {"fetch": "completed", "refund": "completed", "notify": "pending"}
    assert client.resume(run.task_id).completed
    assert client.task(run.task_id).variables["_workflow.result.notify"] == MAIL


def test_a_completed_run_has_neither_a_pause_nor_a_handoff(client: Client) -> None:
    client.tool_returns("refund", {"refund_id": "R-1", "amount": 30.0})
    run = client.get_prompt("refund_order", ORDER)
    assert (run.completed, run.paused, run.handoff) == (True, False, "")
    with pytest.raises(AttributeError, match=r"Run\(completed; fetch=completed refund=completed"):
        _ = run.pause


def test_a_prompt_has_messages_and_no_task(client: Client) -> None:
    run = client.get_prompt("greeting", {"name": "Kim"})
    assert [message.text for message in run.messages] == ["Greet Kim."]
    assert (run.paused, run.completed, run.steps, run.meta) == (False, False, {}, {})
    with pytest.raises(AttributeError, match="no task"):
        _ = run.task_id


@BOTH_ERAS
def test_a_result_has_the_tools_value_in_every_form(orders: Server, era: Era) -> None:
    @orders.tool
    def names() -> list[str]:
        return ["Kim", "Sam"]

    @orders.tool
    def undeclared():  # type: ignore[no-untyped-def]  # noqa: ANN202 - under test
        return {"a": [1, None]}

    with connect(orders, era=era) as client:
        assert client.call_tool("names").value == ["Kim", "Sam"]
        assert client.call_tool("names").structured == {"result": ["Kim", "Sam"]}
        assert client.call_tool("undeclared").value == {"a": [1, None]}
        assert client.call_tool("undeclared").structured is None
        failure = client.call_tool("refund", {**ORDER, "amount": 1.0})
        assert (failure.is_error, failure.text, failure.value) == (True, "connection timeout", None)
        assert failure.recorded is False


@BOTH_ERAS
def test_a_call_with_an_unknown_task_is_not_recorded(client: Client) -> None:
    result = client.call_tool("fetch_order", ORDER, task=UNKNOWN_ID)
    assert (result.recorded, result.is_error, result.steps) == (False, False, {})


@BOTH_ERAS
def test_a_rejected_request_raises_the_servers_error(client: Client) -> None:
    with pytest.raises(JsonRpcError) as error_info:
        client.get_prompt("refund_order", {})
    assert (error_info.value.code, error_info.value.data) == (INVALID_PARAMS, None)
    assert "order_id" in error_info.value.message
    with pytest.raises(JsonRpcError) as unknown_method:
        client.request("tasks/nothing")
    assert unknown_method.value.code == -32601
    assert unknown_method.value.status == (404 if client.era == "2026" else 200)


@BOTH_ERAS
def test_a_task_can_be_cancelled_and_completed(client: Client) -> None:
    client.tool_raises("refund", "no")
    first_id, second_id = (client.get_prompt("refund_order", ORDER).task_id for _ in range(2))
    assert client.cancel(first_id).status == "cancelled"
    completed_task = client.complete(second_id, {"by": "hand"})
    assert (completed_task.status, completed_task.result) == ("completed", {"by": "hand"})
    assert client.task(first_id).result is None


def test_tasks_of_all_pages_are_listed_newest_first(orders: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_baton.tasks.dynamodb.items.Limits", partial(Limits, page_size=3))
    with connect(orders) as client:
        client.remaining_s(3)
        task_ids = [client.get_prompt("refund_order", {"order_id": "A"}).task_id for _ in range(8)]
        assert [task.task_id for task in client.tasks()] == task_ids[::-1]


@BOTH_ERAS
def test_a_workflow_is_called_as_a_tool(client: Client) -> None:
    run = client.call_workflow("refund_order", ORDER)
    assert (run.paused, run.completed, run.pause.error, run.is_error) == (True, False, "connection timeout", False)
    assert run.steps == {"fetch": "completed", "refund": "failed", "notify": "pending"}
    assert run.handoff == run.text == run.messages[0].text
    assert [call["tool"] for call in run.next] == ["refund_order"]
    assert client.call_workflow("refund_order", task=run.task_id).completed
    assert client.call_workflow("refund_order", {"order_id": "B"}).completed


def test_the_result_of_a_workflow_that_did_not_run_has_the_reason(client: Client) -> None:
    run = client.call_workflow("refund_order")
    assert (run.is_error, run.paused, run.completed, run.structured, run.next) == (True, False, False, None, [])
    assert repr(run).startswith('Run(error "Missing: order_id')


def test_an_unauthenticated_caller_is_anonymous_if_that_is_allowed(orders: Server) -> None:
    with connect(orders, owner=None, settings=Settings(allow_anonymous=True)) as client:
        task_id = client.get_prompt("refund_order", ORDER).task_id
        assert [task.task_id for task in client.as_owner("anonymous").tasks()] == [task_id]
        assert client.as_owner("alice").tasks() == []


@BOTH_ERAS
def test_the_client_lists_the_servers_tools_and_resources(client: Client) -> None:
    names = [tool["name"] for tool in client.list_tools()]
    assert names == ["fetch_order", "refund", "send_mail", "refund_order"]
    assert client.list_tools()[0]["description"] == "Fetch one order."
    page = client.read_resource("docs://mail")
    assert (page.uri, page.mime_type, page.text, page.data) == ("docs://mail", "text/markdown", "# mail", b"")
    assert client.read_resource("docs://logo").data == b"\x89PNG"


@BOTH_ERAS
def test_names_and_arguments_in_headers_may_contain_any_character(era: Era) -> None:
    server = Server("s")

    @server.tool
    def region(name: Annotated[str, Header("Region")], on: Annotated[bool, Header("On")] = True) -> str:
        return f"{name} {on}"

    @server.prompt(name="Grüße")
    def greeting() -> str:
        return "Hallo"

    with connect(server, era=era) as client:
        assert client.call_tool("region", {"name": "Ostsee ☂", "on": False}).value == "Ostsee ☂ False"
        assert client.call_tool("region", {"name": "=?base64?eA==?="}).value == "=?base64?eA==?= True"
        assert client.get_prompt("Grüße").messages[0].text == "Hallo"


def test_a_task_of_another_connection_can_be_resumed(orders: Server) -> None:
    orders.add_workflow(Workflow(name="r", description="r", steps=[ToolStep("one", tool="send_mail")]))
    with connect(orders) as client:
        task_id = client.get_prompt("refund_order", ORDER).task_id
        client.stage.workflow_of_task.clear()
        assert client.resume(task_id).completed


def test_a_server_is_not_changed_and_its_connections_share_nothing(orders: Server) -> None:
    tools = dict(orders.tools)
    with connect(orders) as first_client, connect(orders) as second_client:
        first_client.tool_returns("fetch_order", {"total": 1.0})
        first_client.clock.advance(10_000)
        first_client.store.fails("PutItem", times=None)
        first_client.remaining_s(2)
        assert second_client.call_tool("fetch_order", {"order_id": "A"}).value["total"] == 30.0
        task_id = second_client.get_prompt("refund_order", ORDER).task_id
        assert second_client.task(task_id).status == "working"
        assert first_client.tasks() == []
        assert first_client.calls("fetch_order") == []
    assert orders.tools == tools


def test_a_request_leaves_no_context_variables(orders: Server) -> None:
    with connect(orders, era="2025") as client:
        client.list_tools()
        assert stream_opener.get() is None


def test_settings_are_applied(orders: Server) -> None:
    with connect(orders, settings=Settings(max_tasks_per_owner=1)) as client:
        assert client.get_prompt("refund_order", ORDER).meta
        assert client.get_prompt("refund_order", ORDER).meta == {}


def test_invalid_arguments_of_connect_are_refused(orders: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="'2026' or '2025'"), connect(orders, era="2024"):  # type: ignore[arg-type]
        pass

    with pytest.raises(TypeError, match="give it the Server"), connect(handler(orders)):  # type: ignore[arg-type]
        pass
    monkeypatch.delitem(sys.modules, "mcp_baton.local.embedded", raising=False)
    monkeypatch.setitem(sys.modules, "moto.core.botocore_stubber", None)
    with pytest.raises(SettingsError, match=r"mcp-baton\[local\]"), connect(orders):
        pass


@pytest.mark.enable_socket  # an event loop needs a pair of sockets
def test_requests_of_the_asynchronous_client_can_run_at_the_same_time(orders: Server, era: Era) -> None:
    async def use_client() -> None:
        async with aconnect(orders, era=era) as client:
            run = await client.get_prompt("refund_order", ORDER)
            assert run.pause.type == "toolError"
            refund, mail = await asyncio.gather(
                client.call_tool("refund", {**ORDER, "amount": 30.0}, task=run.task_id),
                client.call_tool("send_mail", MAIL, task=run.task_id),
            )
            assert (refund.recorded, mail.recorded) == (True, True)
            assert (await client.resume(run.task_id)).completed
            assert client.calls("send_mail") == [MAIL]
            assert await client.as_owner("sam").tasks() == []

    asyncio.run(use_client())


def test_the_asynchronous_client_has_all_methods_of_the_client() -> None:
    requests = {name for name, value in vars(Client).items() if inspect.isfunction(value) and not name.startswith("_")}

    assert {name for name in requests if inspect.iscoroutinefunction(getattr(AsyncClient, name, None))} == requests
