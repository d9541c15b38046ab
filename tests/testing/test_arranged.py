"""What a test can prepare: results of tools, failures and kills."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from pydantic import BaseModel

from mcp_baton import Context, Server, ToolError, ToolStep, Workflow, constant
from mcp_baton.settings import Settings
from mcp_baton.testing import Client, JsonRpcError, Killed, connect
from mcp_baton.testing.function import Clock, Function, Handler, Invocations

pytestmark = pytest.mark.disable_socket

ORDER = {"order_id": "A-17"}
REFUND: dict[str, Any] = {"order_id": "A-17", "amount": 30.0}
INTERNAL_ERROR = -32603


def test_calls_has_the_accepted_calls_of_steps_and_clients(client: Client) -> None:
    assert client.call_tool("refund", {"amount": 1.0}).is_error
    assert client.calls("refund") == []
    task = client.get_prompt("refund_order", ORDER).task_id
    client.call_tool("refund", {**ORDER, "amount": "12.5"}, task=task)
    assert client.calls("refund") == [REFUND, {**ORDER, "amount": "12.5"}]
    assert client.calls("fetch_order") == [ORDER]


class Money(BaseModel):
    """A type that pydantic checks."""

    amount: float


def test_calls_is_not_changed_when_a_tool_changes_its_arguments() -> None:
    server = Server("s")

    @server.tool
    def spoil(items: Any, money: Money | None = None) -> int:
        items[1].clear()
        return 1

    with connect(server) as client:
        client.call_tool("spoil", {"items": [1, [2]]})
        client.calls("spoil")[0]["items"] = 5
        assert client.calls("spoil") == [{"items": [1, [2]]}]


@dataclass(frozen=True, slots=True)
class Receipt:
    """A plain type, checked without pydantic."""

    number: int


@pytest.fixture
def typed_server() -> Server:
    """Tools with different return types. None of them may run."""
    server = Server("typed_server")

    @server.tool
    def money() -> Money:
        raise AssertionError

    @server.tool
    async def receipt(ctx: Context) -> Receipt:
        raise AssertionError

    @server.tool
    def anything() -> Any:
        raise AssertionError

    return server


def test_tool_returns_accepts_an_object_or_json(typed_server: Server) -> None:
    with connect(typed_server) as client:
        client.tool_returns("money", Money(amount=1.5))
        assert client.call_tool("money").value == {"amount": 1.5}
        client.tool_returns("money", {"amount": 2})
        assert client.call_tool("money").structured == {"amount": 2.0}
        client.tool_returns("anything", [1, None])
        assert client.call_tool("anything").value == [1, None]
        client.tool_returns("money", "much")
        assert client.call_tool("money").is_error


@pytest.mark.enable_socket  # an event loop needs a pair of sockets
def test_tool_returns_and_tool_raises_work_for_asynchronous_tools(typed_server: Server) -> None:
    with connect(typed_server) as client:
        client.tool_returns("receipt", {"number": 5})
        client.during("receipt", lambda: client.call_tool("receipt"))  # the callback may call a tool
        assert client.call_tool("receipt").value == {"number": 5}
        client.tool_raises("receipt", ToolError("out of paper"))
        assert client.call_tool("receipt").text == "out of paper"
        assert client.calls("receipt") == [{}, {}, {}]


@pytest.mark.parametrize("error", ["no", ToolError("no"), KeyError])
def test_tool_raises_accepts_an_exception_or_a_text(client: Client, error: str | Exception | type[Exception]) -> None:
    client.tool_raises("fetch_order", error)
    run = client.get_prompt("refund_order", ORDER)
    assert (run.pause.type, run.pause.step) == ("toolError", "fetch")
    assert client.call_tool("fetch_order", ORDER).is_error


def test_times_limits_the_number_of_calls(client: Client) -> None:
    client.tool_returns("fetch_order", {"total": 1.0}, times=2)
    totals = [client.call_tool("fetch_order", ORDER).value["total"] for _ in range(3)]
    assert totals == [1.0, 1.0, 30.0]
    client.tool_raises("fetch_order", "no", times=1)
    assert [client.call_tool("fetch_order", ORDER).is_error for _ in range(2)] == [True, False]
    client.tool_raises("fetch_order", "no")
    client.tool_raises("fetch_order", "no", times=0)
    assert not client.call_tool("fetch_order", ORDER).is_error


@pytest.mark.parametrize(
    "arrange",
    [
        lambda client: client.calls("refnd"),
        lambda client: client.tool_returns("refnd", 1),
        lambda client: client.tool_raises("refnd", "no"),
        lambda client: client.killed_after("refnd"),
        lambda client: client.during("refnd", lambda: None),
    ],
)
def test_an_unknown_tool_is_an_error_that_lists_the_tools(orders: Server, arrange: Callable[[Client], object]) -> None:
    with connect(orders) as client, pytest.raises(ValueError, match="'refnd'; it has fetch_order, refund, send_mail"):
        arrange(client)


def test_during_runs_once_before_a_tool(client: Client) -> None:
    client.during("fetch_order", lambda: client.call_tool("fetch_order", {"order_id": "inner"}))
    assert client.call_tool("fetch_order", ORDER).value["total"] == 30.0
    client.call_tool("fetch_order", ORDER)
    assert client.calls("fetch_order") == [ORDER, {"order_id": "inner"}, ORDER]


def test_a_deployed_version_finds_the_tasks_and_the_first_client_keeps_its_version(client: Client) -> None:
    new_server = Server("later")

    @new_server.tool
    def send_mail(to: str, text: str) -> str:
        return f"{to}: {text}"

    task_id = client.get_prompt("refund_order", ORDER).task_id
    deployed = client.deployed(new_server)
    assert [tool["name"] for tool in deployed.list_tools()] == ["send_mail"]
    assert deployed.call_tool("send_mail", {"to": "kim", "text": "x"}, task=task_id).recorded
    deployed.remaining_s(3)
    assert client.resume(task_id).pause.type == "deadlineExceeded"
    client.remaining_s(120)
    assert client.resume(task_id).completed
    assert (client.calls("send_mail"), len(deployed.calls("send_mail"))) == ([], 1)


@pytest.mark.parametrize("by", ["remaining", "clock"])
def test_a_tool_can_use_up_the_functions_time(by: str) -> None:
    server = Server("slow")

    @server.tool
    def slow() -> int:
        if by == "clock":
            client.clock.advance(114.3)  # leaves more than the reserve but not enough for another step
        else:
            client.remaining_s(5.7)
        return 1

    steps = [ToolStep("one", tool="slow"), ToolStep("two", tool="slow")]
    server.add_workflow(Workflow(name="flow", description="dawdle", steps=steps))
    with connect(server) as client:
        run = client.get_prompt("flow")
        assert run.steps == {"one": "completed", "two": "pending"}
        assert run.pause.type == "deadlineExceeded"
        if by == "clock":  # the next invocation has its own time
            assert client.resume(run.task_id).completed


def test_a_tool_that_hangs_is_abandoned_at_the_time_limit() -> None:
    server, may_end = Server("hung"), Event()

    @server.tool
    def hang() -> None:
        may_end.wait(60)

    server.add_workflow(Workflow(name="flow", description="hang", steps=[ToolStep("one", tool="hang")]))
    with connect(server, settings=Settings(write_reserve_ms=1_000)) as client:
        client.remaining_s(2.8)
        pause = client.get_prompt("flow").pause
    may_end.set()
    assert (pause.type, pause.step) == ("toolError", "one")
    assert "timed out" in pause.error


def test_a_run_works_without_a_task_if_it_cannot_be_created(client: Client) -> None:
    client.store.fails("PutItem", times=2, error="AccessDeniedException")
    assert [bool(client.get_prompt("refund_order", ORDER).meta) for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize(
    "error", ["ServiceUnavailable", "ThrottlingException", EndpointConnectionError(endpoint_url="https://nowhere")]
)
def test_a_failure_without_times_lasts_until_it_is_stopped(
    client: Client, error: str | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    task_id = client.get_prompt("refund_order", ORDER).task_id
    client.store.fails("GetItem", times=None, error=error)
    for _ in range(3):
        with pytest.raises(JsonRpcError) as error_info:
            client.task(task_id)
        assert error_info.value.code == INTERNAL_ERROR
        assert (error if isinstance(error, str) else type(error).__name__) in caplog.text
    client.store.fails("GetItem", times=0)
    assert client.task(task_id).status == "working"


def test_an_unknown_operation_is_refused(orders: Server) -> None:
    with connect(orders) as client, pytest.raises(ValueError, match=r"'updateItem'.*UpdateItem"):
        client.store.fails("updateItem")


@pytest.mark.parametrize(
    ("after", "steps", "calls"),
    [
        ("PutItem", ["pending"] * 3, []),
        ("fetch_order", ["pending"] * 3, ["fetch_order"]),
        ("send_mail", ["pending"] * 3, ["fetch_order", "refund", "send_mail"]),
        ("UpdateItem", ["completed"] * 3, ["fetch_order", "refund", "send_mail"]),
    ],
)
def test_a_killed_run_keeps_earlier_effects(client: Client, after: str, steps: list[str], calls: list[str]) -> None:
    client.tool_returns("refund", {"refund_id": "R-1", "amount": 30.0})
    with client.killed_after(after) as kill:
        client.get_prompt("refund_order", ORDER)
    [task] = client.tasks()
    assert (kill.happened, list(client.task(task.task_id).steps.values())) == (True, steps)
    assert [tool for tool in ("fetch_order", "refund", "send_mail") if client.calls(tool)] == calls


def test_a_kill_happens_once_and_only_after_a_success(client: Client) -> None:
    client.store.fails("PutItem", error="AccessDeniedException")
    client.killed_after("PutItem")
    assert client.get_prompt("refund_order", ORDER).meta == {}
    with pytest.raises(Killed) as error_info:
        client.get_prompt("refund_order", ORDER)
    assert error_info.value.after == "PutItem"
    assert client.get_prompt("refund_order", ORDER).meta
    client.killed_after("fetch_order")
    with pytest.raises(Killed):
        client.call_tool("fetch_order", ORDER)


def test_a_block_without_a_kill_fails(client: Client) -> None:
    with pytest.raises(AssertionError, match=r"killed_after\('PutItem'\)"), client.killed_after("PutItem"):
        client.list_tools()
    assert client.get_prompt("refund_order", ORDER).meta
    with pytest.raises(KeyError), client.killed_after("PutItem"):
        raise KeyError


def test_a_killed_run_cannot_write_to_the_store(orders: Server) -> None:
    """A `finally` block runs in this process. It would not run in a killed function."""
    steps = [
        ToolStep("one", tool="fetch_order", arguments={"order_id": constant("A")}, checkpoint=True),
        ToolStep("two", tool="fetch_order", arguments={"order_id": constant("B")}),
    ]
    orders.add_workflow(Workflow(name="careful", description="write twice", steps=steps))
    with connect(orders) as client:
        with client.killed_after("UpdateItem"):
            client.get_prompt("careful")
        [task] = client.tasks()
        assert client.task(task.task_id).steps == {"one": "completed", "two": "pending"}
        assert client.calls("fetch_order") == [{"order_id": "A"}]


def test_a_killed_run_calls_no_more_tools(orders: Server) -> None:
    with connect(orders) as client, client.stage.invocations.begin(is_repeat=False) as invocation:
        invocation.killed_after = "UpdateItem"
        with pytest.raises(Killed):
            client.stage.server.tools["fetch_order"].function(**ORDER)
        assert client.calls("fetch_order") == []


def test_after_a_kill_a_new_process_starts() -> None:
    invocations, handlers = Invocations(Clock()), []

    def make() -> Handler:
        handlers.append("a handler")

        def handle(_event: dict[str, Any], _context: object) -> dict[str, Any]:
            invocations.note_action("work")
            return {}

        return handle

    function = Function(make, invocations)
    function.invoke({}, None)
    assert len(handlers) == 1
    invocations.kill_after("work")
    with pytest.raises(Killed):
        function.invoke({}, None)
    assert len(handlers) == 2
    assert function.invoke({}, None)[0] == {}


def test_a_kill_affects_only_the_run_with_the_action(orders: Server) -> None:
    started, may_continue = Event(), Event()

    @orders.tool
    def wait() -> None:
        started.set()
        may_continue.wait()

    orders.add_workflow(Workflow(name="waiting", description="wait", steps=[ToolStep("one", tool="wait")]))
    with connect(orders) as client, ThreadPoolExecutor(1) as pool:
        future = pool.submit(client.get_prompt, "waiting")
        started.wait()
        with client.killed_after("PutItem"):
            client.get_prompt("refund_order", ORDER)
        may_continue.set()
        assert future.result().completed
