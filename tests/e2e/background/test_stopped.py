"""A run stops if its task has ended. It checks the task with a small read from time to time.

The interval of these checks is tested in tests/unit/workflow/test_engine.py.
"""

from collections.abc import Callable

import pytest

from mcp_baton import Server, Step, ToolError, Workflow
from mcp_baton.aws import dynamodb_store
from mcp_baton.server.endpoint import Endpoint
from mcp_baton.settings import Settings
from mcp_baton.telemetry import STEPS_RUN, Collector
from mcp_baton.testing import Client, Connect
from mcp_baton.transport.adapter import LambdaAdapter
from tests.e2e import support
from tests.e2e.conftest import MakeClient, Streaming
from tests.e2e.support import BOUND_S, Sink, Table
from tests.fakes import services_of
from tests.sent import Requests

LISTENING = {"progressToken": "t"}
STEPS = ("one", "two", "three")


def three_steps(*checkpoints: str, run: Callable[[str], object] = str, durable: bool = True) -> Server:
    """Return a server with a workflow of three steps, each of which calls `run` with its name."""
    server = Server("s", reply_budget_s=10_000)
    for name in STEPS:
        server.tool(name=name)(lambda name=name: str(run(name)))
    steps = [Step(name, tool=name, checkpoint=name in checkpoints) for name in STEPS]
    server.add_workflow(Workflow(name="flow", description="count", steps=steps, durable=durable))
    return server


def ran(client: Client) -> list[str]:
    return [name for name in STEPS if client.calls(name)]


def ending(client: Client, how: str, after_s: float) -> Callable[[], object]:
    """Return a function that ends the owner's only task and advances the clock."""

    def end() -> None:
        [task] = client.tasks()
        if how == "expired":
            client.clock.advance(3_700)
            client.remaining_s(120)
        else:
            _ = client.cancel(task.task_id) if how == "cancelled" else client.complete(task.task_id, {"by": "me"})
            client.clock.advance(after_s)

    return end


EVENTS = {
    "cancelled": "The task was cancelled",
    "completed": "Another request completed the task",
    "expired": "The task expired or was deleted",
}


@pytest.mark.parametrize("how", EVENTS)
def test_a_run_whose_task_is_ended_during_a_step_does_not_run_the_next(baton: Connect, how: str) -> None:
    client = baton(three_steps())
    client.during("two", ending(client, how, 2.0))
    run = client.get_prompt("flow")
    assert ran(client) == ["one", "two"]
    assert run.messages[-1].text == (
        f"{EVENTS[how]} while this run was under way. Step 'two' ran last. These steps were not run: 'three'."
    )
    assert run.meta["persisted"] is False
    assert run.steps == {"one": "completed", "two": "completed", "three": "pending"}
    assert run.meta.get("task_status") == (None if how == "expired" else how)
    assert not run.paused
    if how != "expired":
        assert client.task(run.task_id).status == how


@pytest.mark.parametrize("how", EVENTS)
def test_a_checkpoint_that_the_task_refuses_stops_the_run(baton: Connect, how: str) -> None:
    client = baton(three_steps("two"))
    end = ending(client, how, 0.0)

    def unseen() -> None:
        end()
        # The read fails, so only the write can detect that the task has ended.
        client.store.fails("GetItem", times=None)

    client.during("two", unseen)
    run = client.get_prompt("flow")
    assert ran(client) == ["one", "two"]
    assert run.messages[-1].text.startswith(f"{EVENTS[how]} while this run was under way. Step 'two' ran last.")
    assert run.meta["persisted"] is False


def test_the_reply_does_not_report_a_stored_checkpoint_as_lost(
    make_client: MakeClient, requests: Requests, table: Table
) -> None:
    passed_s, ran = [0.0], list[str]()

    def remaining_ms() -> int:
        """Cancel the task two seconds after the checkpoint. Return the function's remaining time."""
        if "UpdateItem" in requests.take():
            passed_s[0] += 2.0
            [item] = table.items
            client.task("cancel", item["sk"]["S"].removeprefix("TASK#"))
            requests.take()
        return 30_000

    client = make_client(three_steps("one", run=ran.append), clock=lambda: passed_s[0], remaining_ms=remaining_ms)
    answer = client.get_prompt("flow")
    assert ran == ["one"]
    assert (answer.meta["task_status"], answer.statuses) == ("cancelled", ["completed", "pending", "pending"])
    assert "persisted" not in answer.meta
    assert "_workflow.result.one" in client.variables(answer.task_id)


@pytest.mark.parametrize("takes_s", [0.0, 2.0], ids=["at its end", "before a step"])
def test_a_stopped_run_is_not_counted_as_completed_paused_or_lost(
    make_client: MakeClient, table: Table, takes_s: float
) -> None:
    collector, settings = Collector(), Settings(table=table.name)
    passed_s, ran = [0.0], list[str]()

    def run(name: str) -> None:
        ran.append(name)
        if name == "two":
            passed_s[0] += takes_s
            [item] = table.items
            make_client(Server("other")).task("cancel", item["sk"]["S"].removeprefix("TASK#"))

    store = dynamodb_store(table.name, settings, connect=lambda: table.client)
    server = three_steps(run=run)
    endpoint = Endpoint(services_of(server, store, settings, telemetry=collector, clock=lambda: passed_s[0]))
    answer = support.Client(LambdaAdapter(endpoint, allow_anonymous=False, streaming=False)).get_prompt("flow")
    assert answer.meta["task_status"] == "cancelled"
    noted = [(measured.metric, measured.value) for measured in collector.take().measurements]
    assert noted == [(STEPS_RUN, len(ran))]


def test_the_first_progress_of_a_resume_names_its_task_and_a_run_without_a_task_names_none(
    make_client: MakeClient, streaming: Streaming
) -> None:
    sink, plain = Sink(), make_client(three_steps(durable=False))
    streaming(sink, lambda: plain.get_prompt("flow", meta=LISTENING)).result(BOUND_S)
    assert [("_meta" in sink.next_told()) for _ in STEPS] == [False] * 3

    def run(name: str) -> None:
        if name == "two":
            raise ToolError("no")

    sink, client = Sink(), make_client(three_steps(run=run))
    task = client.get_prompt("flow").task_id
    streaming(sink, lambda: client.get_prompt("flow", task=task, meta=LISTENING)).result(BOUND_S)
    reported = sink.next_told()
    assert (reported["message"], reported["_meta"]) == ("Step 2/3: two", {"task_id": task})
