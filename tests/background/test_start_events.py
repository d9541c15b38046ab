"""Events that start workflows in the background (docs/events.md)."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from mcp_baton import Approval, Server, ask_user, step, wait_for_callback
from mcp_baton.background import creating
from mcp_baton.exceptions import EventError, OutcomeUnknown, StoreBusy
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.starts import DynamoDBStartStore
from mcp_baton.testing import Client, connect
from tests.support.background import MakeBackground

DAY = timedelta(days=1)
PACKETS = {"P-1": "P-1"}


def shop() -> Server:
    server = Server("shop")

    @server.tool
    def charge(order: str, amount: int = 1) -> str:
        return f"charged {amount} for {order}"

    @server.tool(requires=["ship"])
    def ship(order: str) -> str:
        return f"shipped {order}"

    @server.workflow(background=True)
    def settle(order: str, amount: int = 1) -> None:
        step(charge)(order=order, amount=amount)

    @server.workflow(background=True)
    def fulfil(order: str) -> None:
        step(charge)(order=order)
        step(ship)(order=order)

    @server.workflow(background=True)
    def pack(order: Annotated[str, AfterValidator(PACKETS.__getitem__)]) -> None:
        step(charge)(order=order)

    @server.workflow(background=True)
    def ask(order: str) -> None:
        step(charge)(order=ask_user("which", "Which order instead of {order}?"))

    return server


@pytest.fixture
def client() -> Iterator[Client]:
    with connect(shop()) as client:
        yield client


def event(**members: Json) -> dict[str, Any]:
    start: dict[str, Json] = {"workflow": "settle", "arguments": {"order": "A"}, "owner": "tester", "id": "e-1"}
    return {"batonStart": {**start, **members}}


def test_an_event_starts_a_workflow_whose_owner_sees_it(client: Client) -> None:
    outcome = client.send_event(event())
    assert outcome["outcome"] == "started"
    task = client.task(str(outcome["taskId"]))
    assert task.status == "completed"
    assert client.calls("charge") == [{"order": "A", "amount": 1}]
    assert {task.status for task in client.tasks()} == {"completed"}


def test_a_repeated_delivery_starts_nothing_also_after_the_task_has_expired(client: Client) -> None:
    first = client.send_event(event())
    again = client.send_event(event(arguments={"amount": 1, "order": "A"}))
    assert (again["outcome"], again["taskId"]) == ("repeated", first["taskId"])
    client.clock.advance(6 * DAY)
    assert client.send_event(event())["outcome"] == "repeated"
    assert len(client.calls("charge")) == 1
    client.clock.advance(DAY + timedelta(seconds=2))
    assert client.send_event(event())["outcome"] == "started"
    assert client.send_event(event())["outcome"] == "repeated"


def test_the_same_id_with_other_arguments_raises(client: Client) -> None:
    client.send_event(event())
    with pytest.raises(EventError, match=r"batonStart\.id.*other arguments"):
        client.send_event(event(arguments={"order": "B"}))


@pytest.mark.parametrize("other", [{"owner": "other"}, {"id": "e-2"}])
def test_an_id_is_unique_for_an_owner_and_a_workflow(client: Client, other: dict[str, Json]) -> None:
    client.send_event(event())
    assert client.send_event(event(**other))["outcome"] == "started"


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"workflow": "setle"}, "batonStart.workflow.*did you mean 'settle'"),
        ({"workflow": 3}, "batonStart.workflow"),
        ({"owner": ""}, "batonStart.owner"),
        ({"owner": None}, "batonStart.owner"),
        ({"owner": "o" * 2_001}, "batonStart.owner.*2000 bytes"),
        ({"id": 1}, "batonStart.id"),
        ({"arguments": ["A"]}, "batonStart.arguments"),
        ({"arguments": {}}, "batonStart.arguments.*missing: order$"),
        ({"arguments": {"order": "A", "amount": "many"}}, "batonStart.arguments.*amount"),
        ({"arguments": {"order": "A", "colour": "red"}}, "batonStart.arguments.*colour.*takes order, amount$"),
        ({"arguments": {"order": "A", "task_id": "new"}}, "batonStart.arguments.*task_id.*takes order, amount$"),
        ({"arguments": json.loads('{"order":' * 500 + "1" + "}" * 500)}, "batonStart.arguments.*64 levels"),
        ({"arguments": {"order": float("nan")}}, "batonStart.arguments.*not JSON"),
        ({"scopes": "ship"}, "batonStart.scopes"),
        ({"workflow": "fulfil"}, "batonStart.scopes.*ship"),
        ({"argments": {}}, "has no member 'argments'"),
    ],
)
def test_an_invalid_event_raises_and_names_the_field(client: Client, members: dict[str, Json], field: str) -> None:
    with pytest.raises(EventError, match=field):
        client.send_event(event(**members))
    assert client.tasks() == []


def test_null_for_an_optional_argument_counts_as_left_out(client: Client) -> None:
    client.send_event(event(arguments={"order": "A", "amount": None}))
    assert client.calls("charge") == [{"order": "A", "amount": 1}]
    assert client.send_event(event())["outcome"] == "repeated"


@contextmanager
def slow_delivery(late: Callable[..., bool] = lambda *_: False) -> Iterator[None]:
    """Let a delivery find that it was too slow, and run this function just before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(creating, "lasts", late)
        yield


def test_an_event_whose_slow_delivery_died_after_it_cancelled_its_task_starts_the_workflow(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with slow_delivery(), monkeypatch.context() as patch:
        patch.setattr(DynamoDBStartStore, "forget", lambda *_: None)
        with pytest.raises(StoreBusy, match="too late"):
            client.send_event(event())
    assert client.calls("charge") == []
    assert client.send_event(event())["outcome"] == "started"
    assert len(client.calls("charge")) == 1


def test_a_slow_delivery_that_cannot_cancel_its_task_leaves_it_to_the_next_one(client: Client) -> None:
    def late(*_: object) -> bool:
        client.store.fails("UpdateItem", times=1)
        return False

    with slow_delivery(late), pytest.raises(OutcomeUnknown):
        client.send_event(event())
    assert client.send_event(event())["outcome"] == "repeated"
    client.clock.advance(120)
    assert len(client.calls("charge")) == 1


def test_a_slow_delivery_whose_task_a_worker_has_started_does_not_say_that_nothing_was_run() -> None:
    with connect(shop(), workers="by hand") as client:

        def late(*_: object) -> bool:
            # A sweep starts a worker, which dies after its first call.
            client.clock.advance(120)
            client.sweep()
            with client.killed_after("charge"):
                client.run_worker()
            return False

        with slow_delivery(late), pytest.raises(OutcomeUnknown, match="could not be cancelled"):
            client.send_event(event())
        assert client.send_event(event())["outcome"] == "repeated"
        client.clock.advance(120)
        assert len(client.calls("charge")) == 1


@pytest.fixture
def unconfirmed(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Client, str]]:
    """A client, and the job of an event whose delivery died just after it had created the job."""
    with connect(shop(), workers="by hand") as client:
        with monkeypatch.context() as patch:
            patch.setattr(DynamoDBStartStore, "confirm", lambda *_: None)
            job_id = str(client.send_event(event())["taskId"])
        yield client, job_id


def test_an_event_whose_task_the_owner_has_cancelled_does_not_start_again(unconfirmed: tuple[Client, str]) -> None:
    client, job_id = unconfirmed
    client.cancel(job_id)
    client.clock.advance(60)
    assert client.send_event(event()) == {"id": "e-1", "taskId": job_id, "outcome": "repeated"}


def test_a_refused_delivery_with_other_arguments_confirms_the_start(unconfirmed: tuple[Client, str]) -> None:
    client, job_id = unconfirmed
    with pytest.raises(EventError, match="other arguments"):
        client.send_event(event(arguments={"order": "B"}))
    client.clock.advance(6 * DAY)  # the task is gone
    with pytest.raises(EventError, match="other arguments"):
        client.send_event(event(arguments={"order": "B"}))
    assert client.send_event(event()) == {"id": "e-1", "taskId": job_id, "outcome": "repeated"}


def test_other_arguments_start_the_workflow_if_the_first_delivery_died_before_it_started(client: Client) -> None:
    with client.killed_after("UpdateItem"):
        client.send_event(event(arguments={"order": "B"}))
    client.clock.advance(60)
    assert client.send_event(event())["outcome"] == "started"
    with pytest.raises(EventError, match="other arguments"):
        client.send_event(event(arguments={"order": "B"}))
    assert client.calls("charge") == [{"order": "A", "amount": 1}]


@pytest.mark.parametrize("text", ["\ud800", "ä" * 500, " ", "#", "\x00"])
def test_owners_and_ids_are_any_texts(client: Client, text: str) -> None:
    odd = client.as_owner(text)
    assert client.send_event(event(owner=text, id=text))["outcome"] == "started"
    assert client.send_event(event(owner=text, id=text))["outcome"] == "repeated"
    assert {task.status for task in odd.tasks()} == {"completed"}


def test_a_workflow_with_a_callback_needs_the_address_of_the_api(background: MakeBackground) -> None:
    server = shop()

    @server.workflow
    def sign(order: str) -> None:
        wait_for_callback("signed", bool, within=DAY)

    with pytest.raises(EventError, match=r"'sign' waits for a callback, so it needs PublicUrl"):
        background(server).work(event(workflow="sign"))
    assert background(server, base_url="https://api.example.com").work(event(workflow="sign")) == "started"


def test_a_notification_without_a_link_is_logged(background: MakeBackground, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("bank")
    server.on_approval(print)

    @server.tool(approval=Approval("payments", message="Pay?"))
    def pay(order: str) -> None: ...

    @server.workflow
    def settle(order: str) -> None:
        step(pay)(order=order)

    jobs = background(server, approval_links=True)
    assert (jobs.work(event()), jobs.work()) == ("started", "waits")
    assert "its notification has no link; set PublicUrl" in caplog.text


def test_an_event_of_an_array_that_cannot_start_does_not_keep_the_others_from_starting(client: Client) -> None:
    broken = event(id="1", workflow="pack")
    events: list[Json] = [event(id="1", owner="o" * 3_000), broken, event(id="2")]
    with pytest.raises(EventError, match=r"2 of 3 events.*event 0.*event 1: KeyError: 'A'"):
        client.send_event(events)
    assert len(client.calls("charge")) == 1


def test_an_event_that_is_no_object_raises(client: Client) -> None:
    with pytest.raises(EventError, match="batonStart"):
        client.send_event({"batonStart": "settle"})


def test_scopes_of_the_caller_that_the_event_stands_for(client: Client) -> None:
    client.send_event(event(workflow="fulfil", scopes=["ship"]))
    assert len(client.calls("ship")) == 1


def test_of_an_array_the_valid_events_start_and_the_error_names_the_others(client: Client) -> None:
    events: list[Json] = [event(id="1"), event(id="2", owner=""), event(id="3"), {"other": 1}]
    with pytest.raises(EventError, match=r"2 of 4 events.*event 1: `batonStart\.owner`.*event 3: `batonStart`"):
        client.send_event(events)
    assert len(client.calls("charge")) == 2
    events[1], events[3] = event(id="2"), event(id="4")
    outcomes: Any = client.send_event(events)["events"]
    assert [outcome["outcome"] for outcome in outcomes] == ["repeated", "started", "repeated", "started"]
    assert len(client.calls("charge")) == 4


@pytest.mark.parametrize("operation", ["UpdateItem", "PutItem"])
def test_a_delivery_that_was_killed_is_repeated_without_a_second_start(client: Client, operation: str) -> None:
    with client.killed_after(operation):
        client.send_event(event())
    client.clock.advance(60)
    client.send_event(event())
    client.clock.advance(120)
    assert len(client.calls("charge")) == 1


def test_a_delivery_at_the_same_time_raises_so_that_it_is_delivered_again(client: Client) -> None:
    with client.killed_after("UpdateItem"):
        client.send_event(event())
    with pytest.raises(Exception, match="another delivery of the event 'e-1' is being processed"):
        client.send_event(event())


def test_a_question_to_the_user_pauses_the_workflow_for_its_owner(client: Client) -> None:
    client.send_event(event(workflow="ask"))
    paused = next(task for task in client.tasks() if task.status == "working")
    run = client.call_workflow("ask", {"answers": {"which": "B"}}, task=paused.task_id)
    assert run.completed
    assert client.calls("charge") == [{"order": "B"}]


def test_a_killed_worker_does_not_repeat_a_tool_that_is_not_idempotent() -> None:
    server = Server("shop")

    @server.tool(task="optional", idempotent=False)
    def charge(order: str) -> str:
        return order

    @server.workflow
    def settle(order: str) -> None:
        step(charge)(order=order)

    with connect(server, workers="by hand") as client:
        task_id = str(client.send_event(event())["taskId"])
        with client.killed_after("charge"):
            client.run_worker()
        client.clock.advance(600)
        assert client.task(task_id).status == "failed"
        assert len(client.calls("charge")) == 1
