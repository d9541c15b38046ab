"""A run stops if its task has ended. It checks the task with a small read from time to time."""

from collections.abc import Callable

import pytest

from mcp_baton import Server, ToolError, ToolStep, Workflow
from mcp_baton.aws import dynamodb_store
from mcp_baton.server.endpoint import Endpoint
from mcp_baton.settings import Settings
from mcp_baton.telemetry import STEPS_RUN, Collector
from mcp_baton.testing import Client, Connect
from mcp_baton.transport.adapter import LambdaAdapter
from tests.fakes import services_of
from tests.sent import Requests
from tests.support import client as handler_client
from tests.support.client import BOUND_S, Sink, Table
from tests.support.handler import MakeClient, Submit

LISTENING = {"progressToken": "t"}
STEPS = ("one", "two", "three")


def three_steps(*checkpoints: str, run: Callable[[str], object] = str, durable: bool = True) -> Server:
    """Return a server with a workflow of three steps, each of which calls `run` with its name."""
    server = Server("s", reply_budget_s=10_000)
    for name in STEPS:
        server.tool(name=name)(lambda name=name: str(run(name)))
    steps = [ToolStep(name, tool=name, checkpoint=name in checkpoints) for name in STEPS]
    server.add_workflow(Workflow(name="flow", description="count", steps=steps, durable=durable))
    return server


def steps_run(client: Client) -> list[str]:
    return [name for name in STEPS if client.calls(name)]


def task_ender(client: Client, outcome: str, after_s: float) -> Callable[[], object]:
    """Return a function that ends the owner's only task and advances the clock."""

    def end() -> None:
        [task] = client.tasks()
        if outcome == "expired":
            client.clock.advance(3_700)
            client.remaining_s(120)
        else:
            _ = client.cancel(task.task_id) if outcome == "cancelled" else client.complete(task.task_id, {"by": "me"})
            client.clock.advance(after_s)

    return end


EVENTS = {
    "cancelled": "The task was cancelled",
    "completed": "Another request completed the task",
    "expired": "The task expired or was deleted",
}


@pytest.mark.parametrize("outcome", EVENTS)
def test_a_run_whose_task_is_ended_during_a_step_does_not_run_the_next(baton: Connect, outcome: str) -> None:
    client = baton(three_steps())
    client.during("two", task_ender(client, outcome, 2.0))
    run = client.get_prompt("flow")
    assert steps_run(client) == ["one", "two"]
    assert run.messages[-2].text == (
        f"{EVENTS[outcome]} while this run was under way. Step 'two' ran last. These steps were not run: 'three'."
    )
    assert run.meta["persisted"] is False
    assert run.steps == {"one": "completed", "two": "completed", "three": "pending"}
    assert run.meta.get("task_status") == (None if outcome == "expired" else outcome)
    assert not run.paused
    if outcome != "expired":
        assert client.task(run.task_id).status == outcome


def test_a_stored_checkpoint_is_not_reported_as_lost(make_client: MakeClient, requests: Requests, table: Table) -> None:
    passed_s, calls = [0.0], list[str]()

    def remaining_ms() -> int:
        """Cancel the task two seconds after the checkpoint. Return the function's remaining time."""
        if "UpdateItem" in requests.take():
            passed_s[0] += 2.0
            [item] = table.items
            client.task("cancel", item["sk"]["S"].removeprefix("TASK#"))
            requests.take()
        return 30_000

    client = make_client(three_steps("one", run=calls.append), clock=lambda: passed_s[0], remaining_ms=remaining_ms)
    answer = client.get_prompt("flow")
    assert calls == ["one"]
    assert (answer.meta["task_status"], answer.statuses) == ("cancelled", ["completed", "pending", "pending"])
    assert "persisted" not in answer.meta
    assert "_workflow.result.one" in client.variables(answer.task_id)


@pytest.mark.parametrize("delay_s", [0.0, 2.0], ids=["at its end", "before a step"])
def test_a_stopped_run_is_not_completed_paused_or_lost(make_client: MakeClient, table: Table, delay_s: float) -> None:
    collector, settings = Collector(), Settings(table=table.name)
    passed_s, calls = [0.0], list[str]()

    def run(name: str) -> None:
        calls.append(name)
        if name == "two":
            passed_s[0] += delay_s
            [item] = table.items
            make_client(Server("other")).task("cancel", item["sk"]["S"].removeprefix("TASK#"))

    store = dynamodb_store(table.name, settings, connect=lambda: table.client)
    server = three_steps(run=run)
    endpoint = Endpoint(services_of(server, store, settings, telemetry=collector, clock=lambda: passed_s[0]))
    answer = handler_client.Client(LambdaAdapter(endpoint, allow_anonymous=False, streaming=False)).get_prompt("flow")
    assert answer.meta["task_status"] == "cancelled"
    measurements = [(measurement.metric, measurement.value) for measurement in collector.take().measurements]
    assert measurements == [(STEPS_RUN, len(calls))]


def test_the_first_progress_of_a_resume_names_its_task_and_a_run_without_a_task_names_none(
    make_client: MakeClient, submit: Submit
) -> None:
    sink, plain_client = Sink(), make_client(three_steps(durable=False))
    submit(sink, lambda: plain_client.get_prompt("flow", meta=LISTENING)).result(BOUND_S)
    assert [("_meta" in sink.next_params()) for _ in STEPS] == [False] * 3

    def run(name: str) -> None:
        if name == "two":
            raise ToolError("no")

    sink, client = Sink(), make_client(three_steps(run=run))
    task = client.get_prompt("flow").task_id
    submit(sink, lambda: client.get_prompt("flow", task=task, meta=LISTENING)).result(BOUND_S)
    progress = sink.next_params()
    assert (progress["message"], progress["_meta"]) == ("Step 2/3: two", {"task_id": task})
