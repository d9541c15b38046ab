"""Repeated first calls of a workflow's tool (docs/workflows.md, Repeated calls)."""

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any

import pytest

from mcp_baton import Approval, Server, ToolError, ask_model, ask_user, step
from mcp_baton.exceptions import OutcomeUnknown, TaskNotFound
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.stores import DynamoDBStore
from mcp_baton.tasks.dynamodb.starts import DynamoDBStartStore
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.telemetry import Telemetry
from mcp_baton.testing import Client, connect
from mcp_baton.testing.mcp_client import Era, JsonRpcError
from mcp_baton.workflow import runs
from mcp_baton.workflow.run_task import take_task


def shop(*, workflow: Mapping[str, Any] = {}, reads: bool = False, **options: Any) -> Server:
    server = Server("shop", **options)
    annotations: dict[str, Json] = {"readOnlyHint": True} if reads else {}

    @server.tool(annotations=annotations)
    def charge(order: str, amount: int = 1) -> str:
        return f"charged {amount} for {order}"

    @server.tool(annotations=annotations)
    def ship(order: str) -> str:
        return f"shipped {order}"

    @server.workflow(**workflow)
    def fulfil(order: str, amount: int = 1) -> None:
        step(charge)(order=order, amount=amount)
        step(ship)(order=order)

    return server


def pay_back_server(ask: Callable[[str, str], Any] = ask_user, **refund_options: Any) -> Server:
    """Return a server whose workflow asks for an argument of its second tool."""
    server = Server("shop")

    @server.tool
    def find(order: str) -> str:
        return order

    @server.tool(**refund_options)
    def refund(order: str, reason: str) -> str:
        return f"{order}: {reason}"

    @server.workflow
    def pay_back(order: str) -> None:
        step(refund)(order=step(find)(order=order), reason=ask("reason", "Why?"))

    return server


PAY_BACK: JsonObject = {"name": "pay_back", "arguments": {"order": "A"}}
CAPABLE: JsonObject = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}


@pytest.fixture(params=["2026", "2025"])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    era: Era = request.param
    with connect(shop(), era=era) as client:
        yield client


def slow(client: Client, seconds: float = 9) -> None:
    """Let the next call of `charge` take this long."""
    client.during("charge", lambda: client.clock.sleep(seconds))


def call(client: Client, **arguments: Any) -> JsonObject:
    return client.wire.result("tools/call", {"name": "fulfil", "arguments": arguments})


def text(result: JsonObject) -> str:
    content: Any = result["content"]
    return str(content[0]["text"])


def is_repeat(result: JsonObject) -> bool:
    meta: Any = result.get("_meta", {})
    return meta.get("repeats") is True


def test_a_call_after_a_slow_reply_gets_the_result_of_the_first_one(client: Client) -> None:
    slow(client)
    first = call(client, order="A")
    client.clock.advance(30)
    second = call(client, order="A")
    assert not is_repeat(first)
    assert is_repeat(second)
    assert client.calls("charge") == [{"order": "A", "amount": 1}]
    # The clock of a test also runs as that of the machine.
    assert re.match(r"This is the task of an equal call \d\d s ago\. To start another task, add ", text(second))
    assert '{"task_id": "new"}' in text(second)
    assert "shipped A" in text(second)
    assert second["structuredContent"]["message"] == text(second)  # type: ignore[index,call-overload]


def test_two_fast_calls_start_two_tasks(client: Client) -> None:
    assert not is_repeat(call(client, order="A"))
    assert not is_repeat(call(client, order="A"))
    assert len(client.calls("charge")) == 2


def test_after_two_minutes_an_equal_call_starts_a_new_task(client: Client) -> None:
    slow(client)
    call(client, order="A")
    client.clock.advance(121)
    assert not is_repeat(call(client, order="A"))
    assert len(client.calls("charge")) == 2


def test_a_call_while_the_first_one_runs_says_so_and_how_to_ask_again(client: Client) -> None:
    replies: list[JsonObject] = []
    client.during("charge", lambda: replies.append(call(client, order="A")))
    first = call(client, order="A")
    (second,) = replies
    assert is_repeat(second)
    assert re.match(r"This is the task of an equal call \d s ago, which is still running\.", text(second))
    assert first["_meta"]["task_id"] in text(second)  # type: ignore[index,call-overload,operator]
    assert len(client.calls("charge")) == 1


@pytest.mark.parametrize(
    ("arguments", "are_equal"),
    [
        ({"amount": "2"}, True),
        ({"amount": 2.0}, True),
        ({"share": 1}, True),
        ({"share": "1.0"}, True),
        ({"loud": "true"}, True),
        ({"fees": {"b": 2, "a": 1.0}}, True),
        ({"answers": {"reason": None}}, True),
        ({"answers": {"reason": "", "count": None}}, True),
        ({"amount": 3}, False),
        ({"loud": False}, False),
        ({"fees": {"a": 1, "b": 3}}, False),
        ({"answers": {"count": 1}}, False),
    ],
)
def test_calls_are_equal_if_their_tools_receive_the_same(arguments: dict[str, Any], are_equal: bool) -> None:
    server = Server("shop")

    @server.tool
    def charge(amount: int, share: float, loud: bool, fees: dict[str, float]) -> str:
        return f"{amount} {share} {loud} {fees}"

    @server.tool
    def note(reason: str, count: int) -> str:
        return reason * count

    @server.workflow
    def fulfil(
        fees: dict[str, float], amount: int = 2, share: float = 1.0, loud: Annotated[bool, "Ring"] = True
    ) -> None:
        step(charge)(amount=amount, share=share, loud=loud, fees=fees)
        step(note)(reason=ask_model("reason", "Why?"), count=ask_model("count", "How often?", returns=int))

    with connect(server) as client:
        slow(client)
        fees = {"a": 1, "b": 2}
        call(client, fees=fees)
        assert is_repeat(call(client, **{"fees": fees, **arguments})) is are_equal


@pytest.mark.parametrize(
    ("kind", "before", "arguments"),
    [
        ("repetition", "slow", {}),
        ("takeover", "killed", {}),
        ("new", "slow", {"task_id": "new"}),
        ("new", "", {"task_id": "new"}),
    ],
)
def test_each_repetition_takeover_and_new_is_logged_and_counted(
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: str,
    before: str,
    arguments: dict[str, Any],
) -> None:
    counted: list[object] = []
    monkeypatch.setattr(Telemetry, "add", lambda _self, metric, *_, of="": counted.append((metric.name, of)))
    if before == "killed":
        with client.killed_after("charge"):
            call(client, order="A")
        client.clock.advance(46)
    elif before == "slow":
        slow(client)
        call(client, order="A")
    assert ("RepeatedCalls", kind) not in counted
    with caplog.at_level(logging.INFO, "mcp_baton"):
        call(client, order="A", **arguments)
    assert counted.count(("RepeatedCalls", kind)) == 1
    assert [record for record in caplog.records if f"repeated call: {kind}" in record.getMessage()]


def test_another_owner_starts_a_task_of_their_own(client: Client) -> None:
    slow(client)
    call(client, order="A")
    assert not is_repeat(call(client.as_owner("other"), order="A"))


@pytest.mark.parametrize("scopes", [["charges"], []])
def test_a_caller_without_the_scopes_of_the_first_task_starts_another_one(scopes: list[str]) -> None:
    """The task keeps the result of a tool that needs a scope. The workflow has another tool now."""

    def server_of(tool: str) -> Server:
        server = Server("shop")

        @server.tool(requires=["charges"])
        def charge() -> str:
            return "charged"

        @server.tool
        def send() -> str:
            return "sent"

        @server.workflow
        def fulfil() -> None:
            step(tool)()

        return server

    with connect(server_of("charge"), owner="kim") as client:
        clerk = client.as_owner("kim", scopes=["charges"])
        slow(clerk)
        first_task = clerk.call_workflow("fulfil").task_id
        task = clerk.deployed(server_of("send")).as_owner("kim", scopes=scopes).call_workflow("fulfil").task_id

    assert (task == first_task) is bool(scopes)


def test_new_is_an_error_for_the_tool_of_a_step_and_in_meta(client: Client) -> None:
    result = client.wire.result("tools/call", {"name": "charge", "arguments": {"order": "A", "task_id": "new"}}, {})
    assert result["isError"] is True
    assert 'task_id "new" is only for calls of a workflow\'s tool' in text(result)
    with pytest.raises(Exception, match="'new' is only for arguments"):
        client.wire.result("tools/call", {"name": "fulfil", "arguments": {"order": "A"}}, {"_task_id": "new"})
    assert client.calls("charge") == []


@pytest.mark.parametrize("killed_after", ["charge", "ship", "UpdateItem"])
def test_a_call_takes_over_the_task_of_a_run_that_died(client: Client, killed_after: str) -> None:
    with client.killed_after(killed_after):
        call(client, order="A")
    client.clock.advance(46)
    second = call(client, order="A")
    assert text(second).count("shipped A") >= 1
    # The start was stored, and the task was not created: nothing is there to take over.
    assert is_repeat(second) is (killed_after != "UpdateItem")


def test_one_of_two_calls_takes_over_a_run_that_died_and_the_other_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(pay_back_server()) as client:
        with client.killed_after("find"):
            client.wire.result("tools/call", PAY_BACK, CAPABLE)
        client.clock.advance(46)
        faster: list[JsonObject] = []
        take = take_task

        def take_second(*arguments: Any, **options: Any) -> TaskRecord:
            monkeypatch.setattr(runs, "take_task", take)
            faster.append(client.wire.send("tools/call", PAY_BACK, CAPABLE))
            return take(*arguments, **options)

        monkeypatch.setattr(runs, "take_task", take_second)
        slower = client.wire.send("tools/call", PAY_BACK, CAPABLE)
        assert "inputRequests" in faster[0]
        assert "inputRequests" not in slower
        assert is_repeat(slower)


def test_two_minutes_after_the_lease_of_a_run_that_died_a_call_starts_a_new_task(client: Client) -> None:
    with client.killed_after("charge"):
        call(client, order="A")
    client.clock.advance(45 + 121)
    assert not is_repeat(call(client, order="A"))


def test_a_start_that_has_no_task_yet_is_waited_for_until_its_lease_ends(client: Client) -> None:
    with client.killed_after("UpdateItem"):
        call(client, order="A")
    second = call(client, order="A")
    assert is_repeat(second)
    assert "The equal call is starting. Nothing was run" in text(second)
    assert client.calls("charge") == []


def test_a_call_that_stalls_after_it_found_no_task_looks_again(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with client.killed_after("charge"):
        call(client, order="A")
    get = DynamoDBStore.get

    def find_nothing_and_stand_still(*_: object) -> TaskRecord:
        monkeypatch.setattr(DynamoDBStore, "get", get)
        client.clock.advance(46)
        raise TaskNotFound  # the task was created after this read

    monkeypatch.setattr(DynamoDBStore, "get", find_nothing_and_stand_still)
    assert is_repeat(call(client, order="A"))
    assert len(client.tasks()) == 1


def test_the_pause_of_a_slow_call_answers_its_repetition() -> None:
    with connect(pay_back_server(ask_model)) as client:
        client.during("find", lambda: client.clock.sleep(4))
        first, second = (client.wire.result("tools/call", PAY_BACK, {}) for _ in range(2))
        assert is_repeat(second)
        assert len(client.calls("find")) == 1
        structures: list[Any] = [first["structuredContent"], second["structuredContent"]]
        assert structures[0]["pause_reason"] == structures[1]["pause_reason"]
        assert structures[0]["next"] == structures[1]["next"]


def test_two_fast_calls_that_pause_for_an_answer_start_two_tasks_if_the_client_shows_no_forms() -> None:
    with connect(pay_back_server()) as client:
        no_forms: JsonObject = {"io.modelcontextprotocol/clientCapabilities": {}}
        results = [client.wire.result("tools/call", PAY_BACK, no_forms) for _ in range(2)]
        assert [is_repeat(result) for result in results] == [False, False]


def test_a_task_that_a_later_call_has_named_is_not_repeated() -> None:
    with connect(shop()) as client:
        client.tool_raises("ship", ToolError("no stock"), times=1)
        slow(client)
        first = call(client, order="A")
        task_id = first["_meta"]["task_id"]  # type: ignore[index,call-overload]
        assert call(client, task_id=task_id)["structuredContent"]["task_status"] == "completed"  # type: ignore[index,call-overload]
        assert not is_repeat(call(client, order="A"))


@pytest.mark.parametrize("end", ["cancelled", "completed by a client"])
def test_a_task_that_the_client_has_ended_is_not_repeated(end: str) -> None:
    with connect(shop()) as client:
        client.tool_raises("ship", ToolError("no stock"), times=1)
        slow(client)
        task_id = call(client, order="A")["_meta"]["task_id"]  # type: ignore[index,call-overload]
        client.cancel(str(task_id)) if end == "cancelled" else client.complete(str(task_id), {"done": True})
        assert not is_repeat(call(client, order="A"))


def test_repetitions_can_be_turned_off_and_a_workflow_overrides_the_server() -> None:
    with connect(shop(repeats=timedelta(0))) as client:
        slow(client)
        call(client, order="A")
        assert not is_repeat(call(client, order="A"))
    with connect(shop(workflow={"repeats": timedelta(hours=1)}, repeats=timedelta(0))) as client:
        slow(client)
        call(client, order="A")
        client.clock.advance(3_000)
        assert is_repeat(call(client, order="A"))


def test_a_workflow_whose_tools_only_read_is_never_repeated() -> None:
    with connect(shop(reads=True)) as client:
        slow(client)
        call(client, order="A")
        assert not is_repeat(call(client, order="A"))


def test_a_throttled_start_leaves_nothing_that_blocks_the_next_call(client: Client) -> None:
    client.store.fails("PutItem", times=None, error="ThrottlingException")
    assert "The server is busy. Nothing was run" in text(call(client, order="A"))
    client.store.fails("PutItem", times=0)
    again = call(client, order="A")
    assert not is_repeat(again)
    assert "shipped A" in text(again)


def test_a_run_whose_task_could_not_be_created_leaves_nothing_that_blocks_the_next_call(client: Client) -> None:
    client.store.fails("PutItem", times=None)
    assert "shipped A" in text(call(client, order="A"))
    client.store.fails("PutItem", times=0)
    assert not is_repeat(call(client, order="A"))


def test_without_a_store_that_answers_each_call_runs(client: Client) -> None:
    client.store.fails("UpdateItem", times=None)
    slow(client)
    assert "shipped A" in text(call(client, order="A"))
    assert "shipped A" in text(call(client, order="A"))
    assert len(client.calls("charge")) == 2


def test_nothing_is_run_while_the_task_of_an_equal_call_cannot_be_read(client: Client) -> None:
    slow(client)
    call(client, order="A")
    client.store.fails("GetItem", times=None)
    assert "The server is busy. Nothing was run" in text(call(client, order="A"))
    client.store.fails("GetItem", times=0)
    assert is_repeat(call(client, order="A"))
    assert len(client.calls("charge")) == 1


def lose_responses_of_starts(patch: pytest.MonkeyPatch) -> None:
    begin = DynamoDBStartStore.begin

    def lose(store: DynamoDBStartStore, *args: Any) -> None:
        begin(store, *args)
        raise OutcomeUnknown("the response was lost")

    patch.setattr(DynamoDBStartStore, "begin", lose)


def test_a_start_whose_response_was_lost_is_found(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    slow(client)
    with monkeypatch.context() as patch:
        lose_responses_of_starts(patch)
        call(client, order="A")
    assert is_repeat(call(client, order="A"))
    assert len(client.calls("charge")) == 1


def background_shop() -> Server:
    return shop(workflow={"background": True})


def start(client: Client) -> tuple[str, JsonObject]:
    params: dict[str, Any] = {"name": "fulfil", "arguments": {"order": "A"}}
    if client.era == "2025":
        params["task"] = {}
    result = client.wire.result("tools/call", params, {})
    task: Any = result.get("task", result)
    return str(task["taskId"]), result


def test_a_repeated_background_call_gets_the_same_task_until_two_minutes_after_its_end(era: Era) -> None:
    with connect(background_shop(), era=era, workers="by hand") as client:
        first_id, first = start(client)
        client.clock.advance(10)
        second_id, second = start(client)
        assert (second_id, is_repeat(first), is_repeat(second)) == (first_id, False, True)
        client.run_worker()
        third_id, _ = start(client)
        assert third_id == first_id
        client.clock.advance(121)
        assert start(client)[0] != first_id
        assert len(client.calls("charge")) == 1


@pytest.mark.parametrize(
    ("error", "problem"),
    [("ThrottlingException", "busy; nothing was run"), (None, "The task could not be created; nothing was run")],
)
@pytest.mark.parametrize("operation", ["PutItem", "UpdateItem"])
def test_a_background_call_that_the_store_refuses_leaves_nothing_that_blocks_the_next_one(
    era: Era, error: str | None, problem: str, operation: str
) -> None:
    with connect(background_shop(), era=era, workers="by hand") as client:
        # A start that was refused and not throttled may still arrive. The job is created nevertheless.
        goes_on = operation == "UpdateItem" and error is None
        client.store.fails(operation, times=None, **({"error": error} if error else {}))
        if goes_on:
            start(client)
        else:
            with pytest.raises(JsonRpcError, match=problem):
                start(client)
        client.store.fails(operation, times=0)
        _, again = start(client)
        assert not is_repeat(again)
        for _ in range(2 if goes_on else 1):
            client.run_worker()
        assert len(client.calls("charge")) == (2 if goes_on else 1)


def test_a_background_start_whose_response_was_lost_is_found(era: Era, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(background_shop(), era=era, workers="by hand") as client:
        with monkeypatch.context() as patch:
            lose_responses_of_starts(patch)
            first_id, _ = start(client)
        second_id, second = start(client)
        assert (second_id, is_repeat(second)) == (first_id, True)


def test_a_background_call_whose_workflow_a_later_call_has_named_is_not_repeated() -> None:
    with connect(background_shop(), workers="by hand") as client:
        client.tool_raises("charge", ToolError("no funds"), times=1)
        slow(client)
        first_id, _ = start(client)
        client.run_worker()
        [workflow_task] = [task.task_id for task in client.tasks() if task.task_id != first_id]
        params: JsonObject = {"name": "fulfil", "arguments": {"task_id": workflow_task}}
        client.wire.result("tools/call", params, {})
        client.run_worker()
        assert len(client.calls("charge")) == 2
        third_id, third = start(client)
        assert not is_repeat(third)
        assert third_id != first_id


def test_new_always_starts_a_task(client: Client) -> None:
    slow(client)
    call(client, order="A")
    assert not is_repeat(call(client, order="A", task_id="new"))
    assert len(client.calls("charge")) == 2


def test_approvals_of_a_repeated_call_are_asked_for_once() -> None:
    with connect(pay_back_server(lambda *_: "late", approval=Approval("bosses"))) as client:
        boss = client.as_owner("boss", scopes=["bosses"])
        client.during("find", lambda: client.clock.sleep(4))
        client.wire.result("tools/call", PAY_BACK, {})
        second = client.wire.result("tools/call", PAY_BACK, {})
        assert is_repeat(second)
        assert len(boss.approvals()) == 1
