"""Background workflows: workers run them over several invocations, and may be killed between two writes."""

from collections import Counter
from collections.abc import Callable, Sequence
from threading import Event
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from msgspec import structs

from mcp_baton import ListStep, Server, ToolError, ToolStep, Workflow, constant, item, prompt_arg, step_output
from mcp_baton.background import workflow_worker
from mcp_baton.background.items import DynamoDBJobStore
from mcp_baton.exceptions import ClaimLost, StoreUnavailable
from mcp_baton.stores import DynamoDBStore
from mcp_baton.tasks.record import LEASE_MS, Claim, TaskRecord
from mcp_baton.tools.arguments import Argument
from mcp_baton.workflow.ended_run import EndedRun
from mcp_baton.workflow.runs import run_workflow
from mcp_baton.workflow.steps.step import Step
from tests.background.stock import STEPS, Shop, call_as_task, cloud_of, result_of, state, steps_of, workflow_task_of
from tests.support.background import call, created_task
from tests.support.client import BOUND_S, Answer, Client, Era, JsonDict, Table
from tests.support.cloud import Cloud, Kills, has_failed, quick_table

MOST_POLLS = 3_000
"""The maximum number of polls until a test finds the status message that a worker's thread writes."""


@pytest.fixture
def kills() -> Kills:
    return Kills()


@pytest.fixture
def table(kills: Kills) -> Table:
    return quick_table(kills)


@pytest.fixture
def make_cloud(table: Table, kills: Kills) -> Callable[..., Cloud]:
    def make(server: Server, *, timeout_s: float = 10.0, **settings: Any) -> Cloud:
        return cloud_of(server, table, kills, timeout_s=timeout_s, **settings)

    return make


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def cloud(make_cloud: Callable[..., Cloud], shop: Shop) -> Cloud:
    new_cloud = make_cloud(Server("none"))
    new_cloud.deploy(shop.server(new_cloud.time.pass_s))
    return new_cloud


def start(cloud: Cloud, era: Era = "2026", workflow: str = "stock", **arguments: Any) -> tuple[Client, str, str]:
    """Call a workflow as a task. Return the client, the id of the call's task and the id of the workflow's own task."""
    client = cloud.client(era)
    call_id = call_as_task(client, workflow, arguments)
    return client, call_id, workflow_task_of(client, call_id)


# Calls


def test_a_client_that_supports_tasks_gets_one_and_polls_it_to_the_end(cloud: Cloud, shop: Shop, era: Era) -> None:
    client, call_id, task_id = start(cloud, era)
    assert state(client, call_id)["status"] == "working"
    assert steps_of(client, task_id) == ["pending"] * STEPS
    assert shop.calls.total() == 0

    cloud.work()

    result = client.task("result", call_id).result if era == "2025" else result_of(client, call_id)
    assert result["structuredContent"]["message"].startswith(f"Done: {STEPS} of {STEPS} steps.")
    assert (result["_meta"]["task_id"], result["isError"]) == (task_id, False)
    related = result["_meta"].get("io.modelcontextprotocol/related-task")
    assert related == ({"taskId": call_id} if era == "2025" else None)
    # An inlined result has no related task (SEP-2663), whatever the era of its call was.
    meta = result_of(cloud.client("2026"), call_id)["_meta"]
    assert "io.modelcontextprotocol/related-task" not in meta
    assert (state(client, task_id)["status"], steps_of(client, task_id)) == ("completed", ["completed"] * STEPS)


def test_the_reply_says_that_the_model_may_do_other_work_meanwhile(cloud: Cloud, era: Era) -> None:
    answer = call(cloud.client(era), "stock")
    task = created_task(answer)
    text = f"stock runs in the background as task {task['taskId']}. You may do other work meanwhile."
    assert answer.result["_meta"]["io.modelcontextprotocol/model-immediate-response"] == text
    assert task.get("statusMessage") == (text if era == "2026" else None)
    # Only the reply to the call has this message.
    assert "statusMessage" not in state(cloud.client(era), task["taskId"])


def test_forty_steps_take_ten_invocations_with_a_time_limit_of_ten_seconds(cloud: Cloud, shop: Shop) -> None:
    call_as_task(cloud.client(), "stock")
    assert cloud.work() == ["handed over"] * 9 + ["completed"]
    assert [event["batonTask"]["dispatch"] for event in cloud.events] == list(range(1, 11))
    assert sorted(shop.effects.values()) == list(range(0, STEPS, 2))
    assert shop.calls == Counter(range(1, STEPS, 2))


@pytest.mark.parametrize(
    ("cause", "outcomes", "call_count"),
    [
        ("maximum of dispatches", ["handed over", "completed"], 4),
        ("no dispatcher", ["completed"], 2),
        ("too little time for a step", ["completed"], 0),
    ],
)
def test_a_worker_that_cannot_hand_the_call_over_ends_it_with_the_pause(
    cloud: Cloud, shop: Shop, monkeypatch: pytest.MonkeyPatch, cause: str, outcomes: list[str], call_count: int
) -> None:
    if cause == "maximum of dispatches":
        monkeypatch.setattr(workflow_worker, "MAX_DISPATCHES", 2)
    cloud.timeout_s = 2.5 if cause == "too little time for a step" else cloud.timeout_s
    client, call_id, _ = start(cloud)
    cloud.deploy(shop.server(cloud.time.pass_s), dispatches=cause != "no dispatcher")
    assert cloud.work() == outcomes
    content = result_of(client, call_id)["structuredContent"]
    assert (content["pause_reason"]["type"], content["task_status"]) == ("deadlineExceeded", "working")
    assert (len(cloud.events), shop.calls.total()) == (len(outcomes), call_count)


def test_the_status_of_the_call_says_which_step_runs(cloud: Cloud, shop: Shop) -> None:
    client, reported_steps = cloud.client(), list[int]()
    call_id = call_as_task(client, "stock")

    def status_is(text: str) -> bool:
        return state(client, call_id).get("statusMessage") == text or Event().wait(0.02)

    def meanwhile(number: int) -> None:
        # The worker writes at most one message a second: here for the first step of each invocation.
        if number % 4 == 0 and any(status_is(f"Step {number + 1}/40: s{number}") for _ in range(MOST_POLLS)):
            reported_steps.append(number)

    shop.meanwhile = meanwhile
    cloud.work()
    assert reported_steps == list(range(0, STEPS, 4))
    assert state(client, call_id)["statusMessage"] == "Step 40/40: s39"


def test_a_prompt_and_a_client_without_tasks_run_the_workflow_in_the_request(cloud: Cloud, shop: Shop) -> None:
    answer = cloud.client("2025").call_tool("stock")
    assert answer.result["structuredContent"]["task_status"] == "completed"
    assert cloud.client().get_prompt("stock").meta["task_status"] == "completed"
    assert (cloud.events, shop.calls.total()) == ([], STEPS)


def test_lists_of_the_2025_era_show_that_the_workflow_supports_tasks(cloud: Cloud) -> None:
    def executions(era: Era) -> dict[str, Any]:
        return {tool["name"]: tool.get("execution") for tool in cloud.client(era).request("tools/list").result["tools"]}

    assert executions("2025") == {"sell": None, "note": None, "stock": {"taskSupport": "optional"}}
    assert executions("2026") == {"sell": None, "note": None, "stock": None}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    tasks = cloud.client("2025").request("initialize", params).result["capabilities"]["tasks"]
    assert tasks["requests"] == {"tools": {"call": {}}}


def test_a_call_as_a_task_is_refused_if_the_workflow_is_not_a_background_workflow(
    make_cloud: Callable[..., Cloud], shop: Shop
) -> None:
    server = shop.server(lambda _s: None, steps=2)
    server.add_workflow(
        Workflow(
            name="count", description="count", steps=[ToolStep("one", tool="note", arguments={"number": constant(7)})]
        )
    )
    client = make_cloud(server).client("2025")
    answer = client.request("tools/call", {"name": "count", "arguments": {}, "task": {}})
    assert (answer.error["code"], shop.calls.total()) == (-32601, 0)


# Errors that are reported at once


@pytest.fixture
def order(make_cloud: Callable[..., Cloud]) -> "Order":
    return Order(make_cloud)


class Order:
    """A server with a background workflow of three steps: `fetch`, `pay` and `send`."""

    def __init__(self, make_cloud: Callable[..., Cloud]) -> None:
        self.payments: list[int] = []
        self.mails: list[int] = []
        self.pay_error: str | None = None
        self.cloud = make_cloud(self.server())

    def server(self, *, fetch: str = "fetch", send: bool = True) -> Server:
        server = Server("orders")

        @server.tool
        def fetch_order(order: int) -> dict[str, int]:
            self.cloud.time.pass_s(2)
            return {"amount": order * 10}

        @server.tool(task="optional", idempotent=False)
        def charge(amount: int) -> int:
            self.payments.append(amount)
            self.cloud.kills.points = 0
            self.cloud.kills.point()
            return amount

        @server.tool
        def pay(amount: int) -> int:
            self.cloud.time.pass_s(2)
            if self.pay_error:
                raise ToolError(self.pay_error)
            self.payments.append(amount)
            return amount

        @server.tool
        def send_parcel(order: int) -> int:
            self.mails.append(order)
            return order

        amount = step_output(fetch, "amount")
        steps = [ToolStep(fetch, tool="fetch_order", arguments={"order": prompt_arg("order")})]
        pay_step = ToolStep("pay", tool="pay", arguments={"amount": amount})
        send_steps = [ToolStep("send", tool="send_parcel", arguments={"order": prompt_arg("order")})] if send else []
        server.add_workflow(_order("order", [*steps, pay_step, *send_steps]))
        charge_steps = [*steps, ToolStep("charge", tool="charge", arguments={"amount": amount}), *send_steps]
        server.add_workflow(_order("charged", charge_steps))
        return server


def _order(name: str, steps: Sequence[Step]) -> Workflow:
    arguments = [Argument("order", required=True, type=int)]
    return Workflow(name=name, description="order", arguments=arguments, steps=steps, background=True)


def text_of(answer: Answer) -> str:
    return str(answer.result["content"][0]["text"])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "Missing: order"),
        ({"order": "many"}, "order"),
        ({"order": 1, "colour": 2}, "colour"),
        ({"task_id": "2ZZZZZZ0000000000000000000000000000000"}, "There is no such task"),
    ],
    ids=["missing", "not a number", "unknown", "no such task"],
)
def test_invalid_arguments_are_refused_and_create_no_task(
    order: Order, table: Table, era: Era, arguments: JsonDict, text: str
) -> None:
    client = order.cloud.client(era)
    if era == "2026":
        answer = client.call_tool("order", arguments)
        assert (answer.result["isError"], text in text_of(answer)) == (True, True)
    else:
        error = client.request("tools/call", {"name": "order", "arguments": arguments, "task": {}}).error
        assert (error["code"], text in error["message"]) == (-32602, True)
    assert (table.statuses, order.cloud.events) == ([], [])


def test_an_ended_task_and_a_task_of_another_workflow_are_reported_at_once(order: Order, table: Table) -> None:
    client, _, task_id = start(order.cloud, workflow="order", order=1)
    order.cloud.work()
    assert "This task is completed; nothing was run." in text_of(client.call_tool("order", {"task_id": task_id}))
    assert "is not one of this workflow" in text_of(client.call_tool("charged", {"task_id": task_id}))
    assert len(table.statuses) == 2


@pytest.mark.parametrize("is_over", [False, True], ids=["live", "over"])
@pytest.mark.parametrize("action", [{}, {"task_action": "show"}], ids=["resume", "show"])
def test_the_id_of_a_calls_task_starts_nothing_and_the_reply_names_the_workflows_own_task(
    order: Order, table: Table, is_over: bool, action: JsonDict
) -> None:
    client, call_id, task_id = start(order.cloud, workflow="order", order=1)
    if is_over:
        order.cloud.work()
    text = text_of(client.call_tool("order", {"task_id": call_id, **action}))
    expected = 'This task is a call of order in the background. Nothing was run: call order with {"task_id": "%s"}.'
    assert text == expected % task_id
    refusal = client.get_prompt("order", task=call_id).error["message"]
    assert refusal.endswith(f"nothing was run: name the workflow's own task, {task_id}")
    answer = client.call_tool("order", {"task_id": task_id})
    assert answer.result.get("isError") is not True
    assert len(table.statuses) == (2 if is_over else 3)


@pytest.mark.parametrize("is_over", [False, True], ids=["live", "over"])
def test_a_step_called_with_the_id_of_a_calls_task_is_not_made(order: Order, is_over: bool) -> None:
    client, call_id, task_id = start(order.cloud, workflow="order", order=1)
    if is_over:
        order.cloud.work()
    order.mails.clear()
    result = client.call_tool("send_parcel", {"order": 1, "task_id": call_id}).result
    assert (result["isError"], result["_meta"]["recorded"], order.mails) == (True, False, [])
    assert f'make the same call with {{"task_id": "{task_id}"}}.' in result["content"][-1]["text"]


def test_a_claimed_task_is_reported_at_once(cloud: Cloud, shop: Shop, table: Table) -> None:
    (client, _, task_id), replies = start(cloud), list[str]()
    shop.at(1, lambda: replies.append(text_of(client.call_tool("stock", {"task_id": task_id}))))
    cloud.deliver()
    assert "make the same call again" in replies[0]
    assert len(table.statuses) == 2


def test_a_changed_completed_step_is_reported_at_once(order: Order) -> None:
    order.pay_error = "no funds"
    client, _, task_id = start(order.cloud, workflow="order", order=1)
    order.cloud.work()
    order.cloud.deploy(order.server(fetch="get"))
    assert "The workflow has changed since this task was started" in text_of(
        client.call_tool("order", {"task_id": task_id})
    )


@pytest.mark.parametrize("parallel", [1, 2])
@pytest.mark.parametrize(("broken", "outcomes"), [(None, ["handed over", "completed"]), (0, ["completed"])])
def test_a_list_continues_in_the_next_invocation_unless_it_would_repeat_a_failed_call(
    make_cloud: Callable[..., Cloud], parallel: int, broken: int | None, outcomes: list[str]
) -> None:
    server, numbers = Server("shop"), list[int]()
    cloud = make_cloud(Server("none"))

    @server.tool
    def pack(number: int) -> int:
        numbers.append(number)
        cloud.time.pass_s(0.4)
        if number == broken:
            raise ToolError("no box")
        return number

    each, arguments = constant([0, 1, 2, 3, 4, 5]), {"number": item()}
    steps = [ListStep("pack", tool="pack", each=each, arguments=arguments, parallel=parallel)]
    server.add_workflow(Workflow(name="order", description="pack", steps=steps, background=True))
    cloud.deploy(server)
    client, call_id, task_id = start(cloud, workflow="order")
    assert sorted(set(cloud.work())) == sorted(set(outcomes))
    assert len(numbers) == len(set(numbers))
    assert (state(client, task_id)["status"] == "completed") is (broken is None)
    reason = result_of(client, call_id)["structuredContent"].get("pause_reason", {"error": None})
    rest = "has" if len(numbers) == 5 else "have"
    error = f"1 of 6 calls failed; the call for element 0: no box; {6 - len(numbers)} more {rest} no result yet"
    assert reason["error"] == (None if broken is None else error)


# Pauses


def test_a_pause_ends_the_call_and_the_model_can_continue(order: Order, era: Era) -> None:
    order.pay_error = "no funds"
    client, call_id, task_id = start(order.cloud, era, "order", order=3)
    assert order.cloud.work() == ["handed over", "completed"]

    result = client.task("result", call_id).result if era == "2025" else result_of(client, call_id)
    assert "Call pay with" in result["structuredContent"]["message"]
    assert result["structuredContent"]["pause_reason"]["type"] == "toolError"
    assert state(client, task_id)["status"] == "working"
    assert steps_of(client, task_id) == ["completed", "failed", "pending"]

    order.pay_error = None
    continuation = client.call_tool("pay", {"amount": 30, "task_id": task_id})
    assert continuation.meta["recorded"] is True
    second_id = call_as_task(client, "order", {"task_id": task_id})
    assert order.cloud.work() == ["completed"]
    assert (state(client, task_id)["status"], order.payments, order.mails) == ("completed", [30], [3])
    assert state(client, second_id)["status"] == "completed"


def test_each_invocation_gets_the_arguments_of_the_resume(order: Order) -> None:
    order.pay_error = "no funds"
    client, _, task_id = start(order.cloud, workflow="order", order=3)
    order.cloud.work()
    order.pay_error = None
    call_as_task(client, "order", {"task_id": task_id, "order": 4})
    assert order.cloud.work() == ["handed over", "completed"]
    assert (order.payments, order.mails) == ([30], [4])


def test_a_run_whose_last_write_failed_is_not_handed_over_but_run_again(cloud: Cloud, shop: Shop) -> None:
    client, call_id, _ = start(cloud)
    database: Any = cloud.table.client
    update_item = database.update_item

    def refuse(**request: Any) -> JsonDict:
        if "_workflow.progress" in request.get("ExpressionAttributeNames", {}).values() and not cloud.outcomes:
            raise EndpointConnectionError(endpoint_url="")
        answer: JsonDict = update_item(**request)
        return answer

    database.update_item = refuse
    assert has_failed(cloud.deliver())
    assert len(cloud.events) == 1
    cloud.work()
    assert state(client, call_id)["status"] == "completed"
    assert sorted(shop.effects.values()) == list(range(0, STEPS, 2))


def test_a_run_is_handed_over_if_its_last_write_succeeded_even_if_an_earlier_write_is_unknown(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsure(*arguments: Any, **options: Any) -> EndedRun:
        return structs.replace(run_workflow(*arguments, **options), persisted="unknown")

    monkeypatch.setattr(workflow_worker, "run_workflow", unsure)
    start(cloud)
    assert cloud.work() == ["handed over"] * 9 + ["completed"]


# Handovers


def test_a_handover_whose_dispatch_failed_is_dispatched_again(cloud: Cloud) -> None:
    client, call_id, _ = start(cloud)
    cloud.refuses = 1
    assert cloud.work() == ["NotDispatched"] + ["handed over"] * 8 + ["completed"]
    assert state(client, call_id)["status"] == "completed"


def test_an_open_step_follows_the_deployed_definition(order: Order) -> None:
    client, call_id, _ = start(order.cloud, workflow="order", order=2)
    assert order.cloud.deliver() == "handed over"
    order.cloud.deploy(order.server(send=False))
    order.cloud.work()
    assert result_of(client, call_id)["structuredContent"]["task_status"] == "completed"
    assert (order.payments, order.mails) == ([20], [])


def test_a_changed_completed_step_ends_the_call_with_an_error(order: Order) -> None:
    client, call_id, _ = start(order.cloud, workflow="order", order=2)
    assert order.cloud.deliver() == "handed over"
    order.cloud.deploy(order.server(fetch="get"))
    assert order.cloud.work() == ["completed"]
    result = result_of(client, call_id)
    assert (result["isError"], order.payments) == (True, [])
    assert "The workflow has changed since this task was started" in result["content"][0]["text"]


def test_a_call_fails_if_its_workflow_was_removed(order: Order) -> None:
    client, call_id, task_id = start(order.cloud, workflow="order", order=2)
    order.cloud.deploy(Server("none"))
    assert order.cloud.work() == ["failed"]
    message = state(client, call_id)["error"]["message"]
    assert (
        f"The workflow 'order' was removed from this server after the task was started, so its task {task_id}"
        in message
    )
    assert "cancel it with tasks/cancel, or publish the workflow again" in message
    assert state(client, task_id)["status"] == "working"


# Concurrent runs


@pytest.mark.parametrize(
    ("timeout_s", "held_s", "outcomes"),
    [(900, 40, ["completed"]), (10, 30, ["TaskHeld", "handed over", "handed over", "completed"])],
    ids=["waits for the end of the claim", "leaves the call to the next delivery"],
)
def test_a_worker_takes_over_the_task_of_a_run_that_died(
    order: Order, timeout_s: float, held_s: float, outcomes: list[str]
) -> None:
    order.cloud.timeout_s = timeout_s
    client, call_id, task_id = start(order.cloud, workflow="order", order=2)
    hold(order, task_id, held_s)
    started_ms = order.cloud.time.ms
    assert order.cloud.work() == outcomes
    assert order.cloud.time.ms - started_ms > held_s * 1000
    assert (state(client, call_id)["status"], order.payments) == ("completed", [20])


def test_a_worker_that_loses_the_calls_task_before_it_extends_it_stops(
    order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_claim(_store: DynamoDBJobStore, task: TaskRecord, _ttl_ms: int) -> TaskRecord:
        raise ClaimLost(task)

    start(order.cloud, workflow="order", order=2)
    monkeypatch.setattr(DynamoDBJobStore, "extend", lose_claim)
    assert order.cloud.deliver() == "stopped: another run has taken the task over"
    assert order.payments == []


def test_a_worker_that_cannot_release_its_claim_still_leaves_the_call_to_the_next_delivery(
    order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_store: DynamoDBStore, _task: TaskRecord, _claim: Claim) -> TaskRecord:
        raise StoreUnavailable("down")

    client, call_id, task_id = start(order.cloud, workflow="order", order=2)
    hold(order, task_id, seconds=30)
    with monkeypatch.context() as patch:
        patch.setattr(DynamoDBStore, "renew", fail)
        assert order.cloud.deliver() == "TaskHeld"
    order.cloud.time.pass_s(LEASE_MS / 1000)
    order.cloud.work()
    assert (state(client, call_id)["status"], order.payments) == ("completed", [20])


def test_a_workflow_that_another_run_holds_for_long_ends_the_call_with_the_end_of_the_claim(order: Order) -> None:
    client, call_id, task_id = start(order.cloud, workflow="order", order=2)
    hold(order, task_id, seconds=1_000)
    assert order.cloud.work() == ["TaskHeld", "TaskHeld", "completed"]
    assert "running_until" in result_of(client, call_id)["structuredContent"]
    assert (state(client, task_id)["status"], order.payments) == ("working", [])


def hold(order: Order, task_id: str, seconds: float) -> None:
    item = order.cloud.table.item(task_id)
    until_ms = order.cloud.time.ms + round(seconds * 1000)
    run = {"id": {"S": "other"}, "number": {"N": "1"}, "until": {"N": str(until_ms)}}
    order.cloud.table.replace({**item, "run": {"M": run}})


# Cancellation


def test_cancelling_the_call_stops_the_run_and_the_workflow_can_be_resumed(cloud: Cloud, shop: Shop) -> None:
    client, call_id, task_id = start(cloud)

    def cancel() -> None:
        client.task("cancel", call_id)
        cloud.time.pass_s(2)  # the worker checks the task every two seconds

    shop.at(9, cancel)
    assert cloud.work()[-1] == "dropped: the task is cancelled"
    assert state(client, call_id)["status"] == "cancelled"
    assert state(client, task_id)["status"] == "working"
    assert steps_of(client, task_id).count("completed") in (9, 10)
    assert max(shop.calls) == 9

    second_id = call_as_task(client, "stock", {"task_id": task_id})
    cloud.work()
    assert (state(client, second_id)["status"], state(client, task_id)["status"]) == ("completed", "completed")
    assert sorted(shop.effects.values()) == list(range(0, STEPS, 2))


def test_cancelling_the_workflow_while_it_runs_ends_the_call(cloud: Cloud, shop: Shop) -> None:
    client, call_id, task_id = start(cloud)

    shop.at(9, lambda: client.task("cancel", task_id))
    assert cloud.work()[-1] == "completed"
    result = result_of(client, call_id)
    assert result["structuredContent"]["task_status"] == "cancelled"
    assert "The task was cancelled" in result["structuredContent"]["message"]
    assert max(shop.calls) <= 11


@pytest.mark.parametrize("target", ["the call", "the workflow"])
def test_cancelling_ends_an_asynchronous_tool_at_once(make_cloud: Callable[..., Cloud], target: str) -> None:
    import asyncio

    server, end = Server("slow"), Event()

    @server.tool
    async def stall() -> None:
        client.task("cancel", call_id if target == "the call" else task_id)
        # The worker checks the call's task every 2 s and renews its claim on the workflow's task every 15 s.
        cloud.time.pass_s(16)
        try:
            await asyncio.sleep(BOUND_S)
        except asyncio.CancelledError:
            end.set()
            raise

    server.add_workflow(
        Workflow(name="wait", description="wait", steps=[ToolStep("stall", tool="stall")], background=True)
    )
    cloud = make_cloud(server, timeout_s=900)
    client, call_id, task_id = start(cloud, workflow="wait")
    outcomes = cloud.work()
    assert end.wait(BOUND_S)
    if target == "the call":
        assert outcomes == ["stopped: it is over, or another worker's"]
        assert "it may still have happened" in state(client, task_id)["_meta"]["_workflow.pause_reason"]["error"]
    else:
        assert outcomes == ["completed"]
        assert "The task was cancelled" in result_of(client, call_id)["structuredContent"]["message"]


# Lifetimes


@pytest.mark.parametrize(
    ("steps", "ttl_ms"), [(12, 3_600_000), (2, 60_000)], ids=["in several invocations", "in one invocation"]
)
def test_a_worker_extends_its_tasks(make_cloud: Callable[..., Cloud], shop: Shop, steps: int, ttl_ms: int) -> None:
    """The work takes longer than the lifetime of its tasks, so the worker has to extend them."""
    cloud = make_cloud(Server("none"), timeout_s=900, default_ttl_ms=ttl_ms)
    cloud.deploy(shop.server(cloud.time.pass_s, steps=steps, step_s=600))
    client, call_id, task_id = start(cloud)
    started_ms = cloud.time.ms
    assert cloud.work() == ["handed over"] * (steps - 1) + ["completed"]
    assert cloud.time.ms - started_ms == steps * 600_000
    assert (state(client, call_id)["status"], state(client, task_id)["status"]) == ("completed", "completed")


# Crashes between two writes


def test_a_call_whose_task_cannot_be_created_cancels_its_workflow(
    make_cloud: Callable[..., Cloud], shop: Shop, table: Table
) -> None:
    cloud = make_cloud(shop.server(lambda _s: None), max_tasks_per_owner=1)
    assert cloud.client().call_tool("stock").error["code"] == -32600
    assert (table.statuses, cloud.events) == (["cancelled"], [])


def test_a_step_with_idempotent_false_is_not_repeated_after_a_kill(order: Order, table: Table) -> None:
    order.cloud.timeout_s = 900
    client, call_id, task_id = start(order.cloud, workflow="charged", order=2)
    order.cloud.deliver()
    assert (order.cloud.outcomes, order.payments) == (["killed"], [20])
    order.cloud.work()
    call = state(client, call_id)
    assert (call["status"], order.payments) == ("failed", [20])
    assert task_id in call["error"]["message"]
    assert state(client, task_id)["_meta"]["_workflow.pause_reason"]["type"] == "interrupted"
