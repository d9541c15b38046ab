"""Several stopped steps of a parallel workflow: an approval, a question, a callback and a failed tool at once
(docs/workflows.md, Parallel steps)."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from mcp_baton import (
    Approval,
    Context,
    Server,
    ToolError,
    ask_model,
    ask_user,
    sleep_until,
    step,
    wait_for_callback,
)
from mcp_baton.testing import connect
from mcp_baton.testing.client import Client
from mcp_baton.testing.results import Pause

STOPS = [("approvalRequired", "pay"), ("answersRequired", "note"), ("waiting", "signed"), ("toolError", "send")]
SENTENCES = (
    "Step 'pay' did not run: it waits for an approval: \"Pay 7?\".",
    "Step 'note' needs an answer. Question 'note': \"Which note?\".",
    "Step 'signed' waits for a callback of another system, until ",
    "Step 'send' failed: \"no route\".",
)
MESSAGE = "paused: waits for an approval of people; waits for the model; waits for a callback until "
OUTPUT: dict[str, Any] = {"paid": "paid 7", "note": "hello", "signed": "Kim", "sent": "sent 7"}


def shop() -> Server:
    server = Server("shop", version="1")

    @server.tool
    def begin(ctx: Context) -> str:
        """Make the address of the callback."""
        ctx.callback_url("signed")
        return "begun"

    @server.tool(approval=Approval("people", message="Pay {x}?"))
    def pay(x: int) -> str:
        return f"paid {x}"

    @server.tool
    def send(x: int) -> str:
        raise ToolError("no route")

    @server.tool
    def close(paid: str, note: str, signed: str, sent: str) -> dict[str, str]:
        return {"paid": paid, "note": note, "signed": signed, "sent": sent}

    @server.workflow(parallel=8, background=True)
    def deal(x: int) -> None:
        step(begin)()
        paid = step(pay)(x=x)
        note = ask_model("note", "Which note?", returns=str)
        signed = wait_for_callback("signed", str, within=timedelta(hours=2))
        sent = step(send)(x=x)
        step(close)(paid=paid, note=note, signed=signed, sent=sent)

    return server


@pytest.fixture(params=["2025", "2026"])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    with connect(shop(), era=request.param, owner="kim") as connected:
        yield connected


@pytest.fixture(params=["prompt", "tool", "task"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run_deal(client: Client, way: str, arguments: dict[str, Any]) -> Any:
    """Start or continue the workflow. Return the run, or the result of the background call."""
    if way == "prompt":
        texts = {name: str(value) for name, value in arguments.items() if name != "task_id"}
        return client.get_prompt("deal", texts, arguments.get("task_id"))
    if way == "tool":
        return client.call_workflow("deal", arguments)
    task = client.start_task("deal", arguments)
    assert task.status == "completed"
    return task.result


def started(client: Client, way: str) -> tuple[str, Any]:
    """Return the task of a new deal, and its run or result."""
    run = run_deal(client, way, {"x": 7})
    return str(run.meta["task_id"]), run


def message_of(client: Client, task_id: str) -> str:
    return str(client.request("tasks/get", {"taskId": task_id})["statusMessage"])


def told(pauses: Any) -> list[tuple[str, str]]:
    pauses = [pause if isinstance(pause, Pause) else Pause(pause["type"], pause) for pause in pauses]
    return [(pause.type, pause.step) for pause in pauses]


def test_all_replies_and_views_tell_each_stopped_step(client: Client, way: str) -> None:
    task_id, run = started(client, way)
    task, text = client.task(task_id), run.text if way != "prompt" else run.handoff

    assert run.meta["pause_reason"] == run.meta["pause_reasons"][0]
    assert told(run.meta["pause_reasons"]) == told(task.pauses) == STOPS
    assert [text.count(sentence) for sentence in SENTENCES] == [1, 1, 1, 1]
    assert message_of(client, task_id).startswith(MESSAGE)
    listed: Any = client.call_tool("deal", {"task_action": "list"}).structured
    assert listed["tasks"][0]["status_message"] == message_of(client, task_id)
    shown: Any = client.call_tool("deal", {"task_id": task_id, "task_action": "show"}).structured
    assert told(shown["pause_reasons"]) == STOPS
    assert [(call["tool"], [*call["arguments"]]) for call in shown["next"]] == [("deal", ["task_id", "answers"])]


def test_each_event_changes_the_reason_of_its_own_step_only(client: Client, way: str) -> None:
    task_id, _ = started(client, way)

    client.tool_returns("send", "sent 7")
    result = client.call_tool("send", {"x": 7}, task_id)
    assert told(result.meta["pause_reasons"]) == told(client.task(task_id).pauses) == STOPS[:3]
    assert told([result.meta["pause_reason"]]) == STOPS[:1]

    [approval] = client.as_owner("ada", scopes=["people"]).approvals()
    client.as_owner("ada", scopes=["people"]).approve(approval["approvalId"])
    assert told(client.task(task_id).pauses) == [("approvalGranted", "pay"), *STOPS[1:3]]

    client.send_callback(task_id, "signed", "Kim")
    assert [pause.to_dict().get("over") for pause in client.task(task_id).pauses] == [None, None, True]
    assert message_of(client, task_id) == "paused: approved by people; waits for the model; can continue"

    run = run_deal(client, way, {"task_id": task_id})
    assert told([run.meta["pause_reason"]]) == [("answersRequired", "note")]
    assert "pause_reasons" not in run.meta

    done = run_deal(client, "tool" if way == "prompt" else way, {"task_id": task_id, "answers": {"note": "hello"}})
    assert (client.task(task_id).status, done.meta["task_status"]) == ("completed", "completed")
    assert "pause_reason" not in done.meta
    assert client.task(task_id).variables["_workflow.result.close"] == OUTPUT


@pytest.fixture
def suspended(client: Client) -> tuple[str, list[Any]]:
    """The workflow's task, and two background calls that wait with it for an approval and a callback."""
    client.answers({"note": "hello"})
    client.tool_returns("send", "sent 7")
    task = client.start_task("deal", {"x": 7, "answers": {"note": "hello"}})
    meta: Any = client.request("tasks/get", {"taskId": task.task_id})["_meta"]
    task_id = str(meta["_workflow.task_id"])
    return task_id, [task, client.start_task("deal", {"task_id": task_id})]


@pytest.mark.parametrize("first", ["decision", "callback"])
def test_any_event_wakes_both_calls_of_one_task(client: Client, suspended: tuple[str, list[Any]], first: str) -> None:
    task_id, calls = suspended
    ada = client.as_owner("ada", scopes=["people"])
    events: dict[str, Callable[[], object]] = {
        "decision": lambda: ada.approve(ada.approvals()[0]["approvalId"]),
        "callback": lambda: client.send_callback(task_id, "signed", "Kim"),
    }

    events.pop(first)()
    client.clock.advance(70)
    messages = {call.status_message.partition(" until ")[0] for call in calls}
    assert messages == {"waits for a callback" if first == "decision" else "waits for an approval of people"}
    assert len(client.task(task_id).pauses) == 1

    for event in events.values():
        event()
    client.clock.advance(70)
    assert [call.status for call in calls] == ["completed", "completed"]
    assert client.task(task_id).variables["_workflow.result.close"] == OUTPUT


def signing_shop() -> Server:
    server = Server("shop", version="1")

    @server.tool
    def begin(ctx: Context) -> str:
        """Make the address of the callback."""
        ctx.callback_url("signed")
        return "begun"

    @server.tool
    def file(text: str) -> str:
        return f"filed {text}"

    @server.workflow(parallel=8, background=True)
    def sign(x: int) -> None:
        """Let somebody sign."""
        step(begin)()
        name = ask_user("name", "Whose name?", returns=str)
        signed = wait_for_callback("signed", str, within=timedelta(hours=2))
        sleep_until("pause", timedelta(hours=1))
        step(file, name="file_signed")(text=signed)
        step(file, name="file_later", after=["pause"])(text="later")
        step(file, name="file_name")(text=name)

    return server


@pytest.mark.parametrize("first", ["callback", "time", "answer"])
def test_a_call_that_asks_its_user_also_continues_with_other_steps(first: str) -> None:
    with connect(signing_shop(), owner="kim") as client:
        client.answers({"name": "Kim"})
        call = client.start_task("sign", {"x": 1})
        meta: Any = client.request("tasks/get", {"taskId": call.task_id})["_meta"]
        task_id = str(meta["_workflow.task_id"])
        assert (call.status, told(client.task(task_id).pauses)) == (
            "input_required",
            [("answersRequired", "name"), ("waiting", "signed"), ("waiting", "pause")],
        )
        events: dict[str, Callable[[], object]] = {
            "callback": lambda: client.send_callback(task_id, "signed", "signature"),
            "time": lambda: client.clock.advance(3_700),
            "answer": lambda: call.answer({"name": "Kim"}),
        }
        filed = {"callback": "signature", "time": "later", "answer": "Kim"}

        events.pop(first)()
        client.clock.advance(70)
        assert client.calls("file") == [{"text": filed[first]}]
        assert call.status == ("working" if first == "answer" else "input_required")

        for event in events.values():
            event()
            client.clock.advance(70)
        assert call.status == "completed"
        assert {str(arguments["text"]) for arguments in client.calls("file")} == set(filed.values())


def test_a_background_call_waits_for_each_stopped_step(client: Client, suspended: tuple[str, list[Any]]) -> None:
    task_id, calls = suspended

    assert told(client.task(task_id).pauses) == [STOPS[0], STOPS[2]]
    for call in calls:
        approval, callback = call.status_message.split("; ")
        assert call.status == "working"
        assert approval.startswith("waits for an approval of people until ")
        assert callback.startswith("waits for a callback until ")
        assert callback.endswith(" (step signed)")


def test_a_denial_of_one_of_two_stopped_steps_ends_the_call(client: Client, suspended: tuple[str, list[Any]]) -> None:
    task_id, calls = suspended
    ada = client.as_owner("ada", scopes=["people"])

    ada.deny(ada.approvals()[0]["approvalId"], reason="too much")
    client.clock.advance(70)

    assert [(call.status, call.result.is_error) for call in calls] == [("completed", True)] * 2
    assert told(client.task(task_id).pauses) == [("approvalDenied", "pay"), STOPS[2]]
    assert "too much" in calls[0].result.text
    assert "waits for a callback" in calls[0].result.text
