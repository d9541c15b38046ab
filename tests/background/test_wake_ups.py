"""What wakes a background workflow: a decision, a callback, a time, and the progress of another run, whatever else
it waits for and whoever asked first (docs/background.md)."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from mcp_baton import Approval, Context, Retry, Server, ToolError, ask_user, item, sleep_until, step, wait_for_callback
from mcp_baton.protocol.json import JsonObject
from mcp_baton.testing import Client, connect

SOON_S = 61
"""A wake-up needs at most one sweep."""


def approve_all(client: Client) -> None:
    supervisor = client.as_owner("ada", scopes=["refunds"])
    for approval in supervisor.approvals():
        supervisor.approve(approval["approvalId"])


def flow_task(client: Client, task_id: str) -> str:
    """Return the id of the workflow's task of a call."""
    state: Any = client.request("tasks/get", {"taskId": task_id})
    return str(state["_meta"]["_workflow.task_id"])


@pytest.fixture
def shop() -> Server:
    server = Server("shop")

    @server.tool(approval=Approval("refunds", message="Pay {amount}?", expires=timedelta(hours=8)))
    def pay(amount: int) -> str:
        return f"paid {amount}"

    @server.tool
    def begin(ctx: Context) -> str:
        ctx.callback_url("build")
        return "begun"

    @server.tool
    def note(of: int) -> int:
        return of

    @server.workflow(background=True)
    def one() -> None:
        """Pay once."""
        step(pay)(amount=1)

    @server.workflow(background=True, parallel=4)
    def parallel() -> None:
        """Pay twice at a time."""
        step(pay)(amount=1)
        step(pay, name="again")(amount=2)

    @server.workflow(background=True)
    def listed() -> None:
        """Pay each of a list, at the same time."""
        step(pay, each=[1, 2, 3], parallel=3)(amount=item())

    @server.workflow(background=True, parallel=4)
    def mixed() -> None:
        """Wait for a person, a system and a time."""
        step(begin)()
        step(pay)(amount=1)
        build = wait_for_callback("build", int, within=timedelta(hours=6), after=["begin"])
        sleep_until("night", timedelta(hours=3))
        step(note, name="built")(of=build)
        step(note, name="slept", after=["night"])(of=2)
        step(note, name="paid", after=["pay"])(of=3)

    return server


@pytest.fixture
def client(shop: Server) -> Iterator[Client]:
    with connect(shop, owner="kim") as client:
        yield client


@pytest.mark.parametrize("workflow", ["one", "parallel", "listed"])
def test_the_last_decision_ends_a_call_whose_steps_ran_in_any_thread(client: Client, workflow: str) -> None:
    task = client.start_task(workflow, {})
    assert task.poll().status == "working"
    approve_all(client)
    assert task.poll().status == "completed"


@pytest.mark.parametrize("first", ["pay", "build", "night"])
def test_each_stopped_step_continues_at_once_whatever_the_others_wait_for(client: Client, first: str) -> None:
    task = client.start_task("mixed", {})
    flow = flow_task(client, task.task_id)
    events: dict[str, tuple[str, Callable[[], object]]] = {
        "pay": ("paid", lambda: approve_all(client)),
        "build": ("built", lambda: client.send_callback(flow, "build", 7)),
        "night": ("slept", lambda: client.clock.advance(3 * 3_600)),
    }
    for name in sorted(events, key=lambda name: name != first):
        events[name][1]()
        client.clock.advance(SOON_S)
        assert client.task(flow).steps[events[name][0]] == "completed", name
    assert task.poll().status == "completed"


def test_a_decision_wakes_a_job_although_a_prompt_asked_for_the_approval(client: Client) -> None:
    run = client.get_prompt("one", {})
    job = client.start_task("one", {"task_id": run.task_id})
    approve_all(client)
    assert job.poll().status == "completed"


@pytest.mark.parametrize(("workflow", "event"), [("one", "decision"), ("mixed", "callback")])
def test_all_calls_of_a_task_continue_after_a_decision_or_a_callback(client: Client, workflow: str, event: str) -> None:
    first = client.start_task(workflow, {})
    flow = flow_task(client, first.task_id)
    second = client.start_task(workflow, {"task_id": flow})
    approve_all(client)
    if event == "callback":
        client.send_callback(flow, "build", 7)
        client.clock.advance(3 * 3_600)
    client.clock.advance(SOON_S)
    assert (first.poll().status, second.poll().status, len(client.calls("pay"))) == ("completed", "completed", 1)


def test_a_sleep_that_ends_while_a_parallel_step_still_runs_wakes_its_workflow(shop: Server) -> None:
    @shop.workflow(background=True, parallel=3)
    def release() -> None:
        sleep_until("soon", timedelta(seconds=30))
        step("note")(of=1)
        sleep_until("late", timedelta(hours=20))
        step("note", name="remind", after=["soon"])(of=2)

    with connect(shop) as client:
        client.during("note", lambda: client.clock.sleep(40))
        flow = flow_task(client, client.start_task("release", {}).task_id)
        client.clock.advance(SOON_S)
        assert client.task(flow).steps["remind"] == "completed"


@pytest.mark.parametrize("also_waits", [False, True])
def test_a_job_continues_whose_question_was_answered_while_another_step_ran(shop: Server, also_waits: bool) -> None:
    @shop.workflow(background=True, parallel=3)
    def order() -> None:
        step("pay")(amount=1)
        step("note")(of=ask_user("number", "Which number?", returns=int))
        if also_waits:
            sleep_until("night", timedelta(hours=3))

    with connect(shop, owner="kim") as client:
        task = client.start_task("order", {})
        response: JsonObject = {"action": "accept", "content": {"number": 3}}
        update: JsonObject = {"taskId": task.task_id, "inputResponses": dict.fromkeys(task.input_requests, response)}
        client.during("pay", lambda: client.request("tasks/update", update))
        approve_all(client)
        client.clock.advance(SOON_S)
        assert client.task(flow_task(client, task.task_id)).steps["note"] == "completed"


ELSEWHERE: dict[str, tuple[Callable[[Client, str], object], str, list[str]]] = {
    "cancelled": (lambda client, flow: client.cancel(flow), "completed", []),
    "completed by a client": (lambda client, flow: client.complete(flow, {}), "completed", []),
    "answered": (
        lambda client, flow: client.start_task("order", {"task_id": flow, "answers": {"color": "red"}}),
        "input_required",
        ["size"],
    ),
}


@pytest.mark.parametrize("elsewhere", ELSEWHERE.values(), ids=ELSEWHERE.keys())
def test_a_job_asks_no_question_that_another_call_has_answered_or_whose_workflow_has_ended(
    elsewhere: tuple[Callable[[Client, str], object], str, list[str]],
) -> None:
    server = Server("shop")

    @server.workflow(background=True)
    def order() -> None:
        ask_user("color", "Which color?")
        ask_user("size", "Which size?")

    happens, status, asked = elsewhere
    with connect(server, owner="kim") as client:
        task = client.start_task("order", {})
        happens(client, flow_task(client, task.task_id))
        questions: Any = task.input_requests
        fields = [name for form in questions.values() for name in form["params"]["requestedSchema"]["properties"]]
        assert (task.status, fields) == (status, asked)


def test_a_job_waits_for_what_the_workflow_waits_for_after_a_request_has_continued_it(client: Client) -> None:
    task = client.start_task("mixed", {})
    flow = flow_task(client, task.task_id)
    approve_all(client)
    client.send_callback(flow, "build", 7)
    client.get_prompt("mixed", {}, flow)
    client.clock.advance(3 * 3_600 + SOON_S)
    assert task.poll().status == "completed"


def test_a_list_that_waits_for_a_person_and_for_a_retry_says_so(shop: Server) -> None:
    @shop.tool(approval=Approval("refunds", message="Send {amount}?", when=lambda amount: amount > 100))
    def send(amount: int) -> None:
        raise ToolError("the bank is away")

    @shop.workflow(background=True)
    def send_all() -> None:
        retry = Retry(attempts=2, first_s=3_600, max_s=3_600, jitter=False)
        step(send, each=[1, 200], parallel=2, retry=retry)(amount=item())

    with connect(shop, owner="kim") as client:
        state: Any = client.request("tasks/get", {"taskId": client.start_task("send_all", {}).task_id})
    assert state["_meta"]["mcp-baton/waits_for"] == ["approval", "time"]


def test_an_approval_that_has_expired_is_requested_again_at_the_next_sweep() -> None:
    server = Server("shop")

    @server.tool(task="optional", approval=Approval("refunds", expires=timedelta(minutes=5)))
    def pay() -> str:
        return "paid"

    with connect(server, owner="kim") as client:
        task = client.start_task("pay", {})
        client.clock.advance(300 + SOON_S)
        approve_all(client)
        assert task.status == "completed"


def test_a_call_asks_its_user_as_long_as_its_workflow_lives() -> None:
    server = Server("shop")

    @server.workflow(background=True, ttl=timedelta(hours=30))
    def order() -> None:
        """Order something."""
        ask_user("color", "Which color?")

    with connect(server, owner="kim") as client:
        task = client.start_task("order", {})
        client.clock.advance(timedelta(hours=29))
        assert task.answer({"color": "red"}).status == "completed"


def test_two_calls_do_not_wake_each_other_without_end_if_a_step_fails_each_time(shop: Server) -> None:
    @shop.workflow(background=True, parallel=2)
    def order() -> None:
        step("pay")(amount=1)
        step("note")(of=1)

    with connect(shop, owner="kim") as client:
        # The last failure is far behind those that are expected, so that the test ends.
        client.tool_raises("note", ToolError("the printer is off"), times=20)
        first = client.start_task("order", {})
        second = client.start_task("order", {"task_id": flow_task(client, first.task_id)})
        client.clock.advance(SOON_S)
        # A step that needs the model ends each call.
        assert (first.poll().status, second.poll().status) == ("completed", "completed")
        assert len(client.calls("note")) == 2, "each call makes one attempt"


def test_two_calls_that_wait_for_one_retry_make_its_attempts_once(shop: Server) -> None:
    @shop.workflow(background=True)
    def order() -> None:
        step("note", retry=Retry(attempts=2, first_s=3_600, max_s=3_600, jitter=False))(of=1)

    with connect(shop, owner="kim") as client:
        client.tool_raises("note", ToolError("the printer is off"), times=20)
        first = client.start_task("order", {})
        second = client.start_task("order", {"task_id": flow_task(client, first.task_id)})
        client.clock.advance(3_600 + SOON_S)
        assert (first.poll().status, second.poll().status, len(client.calls("note"))) == ("completed", "completed", 2)
        assert "the printer is off" in first.result.text
        assert "the printer is off" in second.result.text


def test_a_form_closes_if_the_workflow_fails_after_another_call_has_answered_it(shop: Server) -> None:
    @shop.workflow(background=True)
    def order() -> None:
        step("note")(of=ask_user("number", "Which number?", returns=int))

    with connect(shop, owner="kim") as client:
        client.tool_raises("note", ToolError("the printer is off"), times=20)
        task = client.start_task("order", {})
        flow = flow_task(client, task.task_id)
        other = client.start_task("order", {"task_id": flow, "answers": {"number": 3}})
        assert (task.poll().status, len(client.calls("note"))) == ("completed", 1)
        ended, failed = task.result.structured or {}, other.result.structured or {}
        assert (ended["pause_reason"], ended["next"]) == (failed["pause_reason"], failed["next"])


def test_a_call_that_continues_has_the_arguments_of_the_last_resume(shop: Server) -> None:
    @shop.workflow(background=True)
    def order(amount: int) -> None:
        step("pay")(amount=amount)

    with connect(shop, owner="kim") as client:
        flow = client.get_prompt("order", {"amount": "30"}).task_id
        client.start_task("order", {"task_id": flow, "amount": 50})
        run = client.get_prompt("order", {"amount": "60"}, flow)
        client.as_owner("ada", scopes=["refunds"]).approve(run.pause.approval_id)
        client.clock.advance(SOON_S)
        assert (client.task(flow).status, client.calls("pay")) == ("completed", [{"amount": 60}])
