"""A run goes on without a task, or without its last write, and says so (docs/workflows.md)."""

from collections.abc import Callable

import pytest

from mcp_baton import Server, Step, Workflow
from mcp_baton.aws import handler
from mcp_baton.settings import Settings
from tests.e2e.conftest import MakeClient
from tests.e2e.support import Client, Era, Script, Table, related

NEXT = "To continue the workflow, make these tool calls:"


def flow_server(script: Script, during: Callable[[], object] = lambda: None) -> Server:
    """Two steps; `during` happens in the second."""
    server = Server("s")

    @server.tool
    def first() -> int:
        return script.play("first", 1)

    @server.tool
    def second() -> int:
        during()
        return script.play("second", 2)

    steps = [Step("one", tool="first"), Step("two", tool="second")]
    server.add_workflow(Workflow(name="flow", description="count", steps=steps))
    return server


def assert_runs_without_a_task(client: Client, script: Script) -> None:
    """Completed or paused, every message is there, and nothing speaks of a task."""
    answer = client.get_prompt("flow")
    assert answer.conversation[-1] == ("user", "Result from second: 2")
    assert answer.meta == {}
    script.errors["second"] = "no"
    answer = client.get_prompt("flow")
    assert answer.handoff.endswith(f"{NEXT}\n\n1. Call second with {{}}")
    assert answer.meta == {}
    assert script.take() == ["first", "second"] * 2


def test_a_store_that_refuses_another_task_leaves_the_run_without_one(
    make_client: MakeClient, era: Era, table: Table
) -> None:
    script = Script(errors={"second": "no"})
    client = make_client(flow_server(script), era=era, max_tasks_per_owner=1)
    first = client.get_prompt("flow")
    script.take()
    script.errors.clear()
    assert_runs_without_a_task(client, script)
    assert [item["sk"]["S"] for item in table.items] == [f"TASK#{first.task_id}"]


def test_a_finished_task_does_not_count_against_the_owners_limit(make_client: MakeClient, table: Table) -> None:
    client = make_client(flow_server(Script()), max_tasks_per_owner=1)
    assert client.get_prompt("flow").meta["task_status"] == "completed"
    assert client.get_prompt("flow").meta["task_status"] == "completed"
    assert table.statuses == ["completed"] * 2


def test_a_store_that_is_not_there_leaves_the_run_without_a_task(make_client: MakeClient, era: Era) -> None:
    script = Script()
    assert_runs_without_a_task(make_client(flow_server(script), era=era, table_name="nowhere"), script)


def test_an_anonymous_caller_has_a_task_where_that_is_allowed(make_client: MakeClient, table: Table) -> None:
    answer = make_client(flow_server(Script()), owner=None, allow_anonymous=True).get_prompt("flow")
    assert table.item(answer.task_id, "anonymous")["status"] == {"S": "completed"}


def test_a_server_without_a_store_runs_workflows_without_tasks(era: Era) -> None:
    script = Script()
    client = Client(handler(flow_server(script), settings=Settings()), era=era)
    assert_runs_without_a_task(client, script)


@pytest.mark.parametrize("error", [None, "no"])
def test_a_task_that_vanishes_while_its_run_is_under_way_costs_the_record_and_not_the_reply(
    make_client: MakeClient, era: Era, table: Table, error: str | None
) -> None:
    def vanish() -> None:
        table.delete(table.items[0]["sk"]["S"].removeprefix("TASK#"))

    script = Script(errors={"second": error} if error else {})
    answer = make_client(flow_server(script, during=vanish), era=era).get_prompt("flow")
    expected = {
        "task_id": answer.task_id,
        "task_status": "working",
        "steps": [
            {"name": "one", "status": "completed"},
            {"name": "two", "status": "failed" if error else "completed"},
        ],
        "persisted": False,
        **related(era, answer.task_id),
    }
    if error:
        expected["pause_reason"] = {
            "type": "toolError",
            "failedStep": "two",
            "error": "no",
            "retryable": False,
            "suggestedTool": "second",
        }
        assert answer.handoff.endswith(f"{NEXT}\n\n1. Call second with {{}}")
    else:
        assert answer.conversation[-1] == ("user", "Result from second: 2")
    assert answer.meta == expected
    assert table.items == []


def test_a_task_that_is_cancelled_while_its_run_is_under_way_stays_as_it_was_cancelled(
    make_client: MakeClient, era: Era, table: Table
) -> None:
    def cancel() -> None:
        task_id = table.items[0]["sk"]["S"].removeprefix("TASK#")
        client.task("cancel", task_id)

    client = make_client(flow_server(Script(), during=cancel), era=era)
    answer = client.get_prompt("flow")
    assert answer.meta["task_status"] == "cancelled"
    assert answer.meta["persisted"] is False
    assert answer.statuses == ["completed", "completed"]
    assert table.statuses == ["cancelled"]
    assert "_workflow.result.one" not in client.variables(answer.task_id)
