"""A run continues without a task or without its last write, and reports it (docs/workflows.md)."""

import os
from typing import Annotated

from mcp_baton import Argument, Server, ToolError, ToolStep, Workflow, step
from mcp_baton.aws import handler
from mcp_baton.settings import Settings
from mcp_baton.testing import Client, Connect, Run
from tests.support import client as handler_client
from tests.support.client import Era, Table, related_meta
from tests.support.handler import MakeClient

NEXT = "To continue the workflow, make these tool calls:"
ONE_TASK = Settings(max_tasks_per_owner=1)


def flow_server() -> Server:
    server = Server("s")

    @server.tool
    def first() -> int:
        return 1

    @server.tool
    def second() -> int:
        return 2

    steps = [ToolStep("one", tool="first"), ToolStep("two", tool="second")]
    server.add_workflow(Workflow(name="flow", description="count", steps=steps))
    return server


def assert_runs_without_a_task(client: Client) -> None:
    """Check that a completed and a paused run have all messages and do not mention a task."""

    def run() -> Run:
        counts_before = len(client.calls("first")), len(client.calls("second"))
        result = client.get_prompt("flow")
        assert result.meta == {}
        assert (len(client.calls("first")), len(client.calls("second"))) == (counts_before[0] + 1, counts_before[1] + 1)
        return result

    assert run().messages[-1].text == "Result from second: 2"
    client.tool_raises("second", "no")
    assert run().messages[-2].text.endswith(f"{NEXT}\n\n1. Call second with {{}}")


def test_a_run_continues_without_a_task_if_the_owner_has_too_many_tasks(baton: Connect) -> None:
    client = baton(flow_server(), settings=ONE_TASK)
    client.tool_raises("second", "no", times=1)
    task_id = client.get_prompt("flow").task_id
    assert_runs_without_a_task(client)
    assert [task.task_id for task in client.tasks()] == [task_id]


def test_a_run_continues_without_a_task_if_the_store_is_unavailable(baton: Connect, era: Era) -> None:
    client = baton(flow_server(), era=era)
    client.store.fails("PutItem", times=None)
    assert_runs_without_a_task(client)


def test_a_run_reads_no_arguments_that_it_was_given_and_has_stored_outside_the_item(baton: Connect, era: Era) -> None:
    server = Server("s")

    @server.tool
    def count(text: str, key: str) -> int:
        return len(text + key)

    @server.workflow
    def flow(text: str, key: Annotated[str, Argument(secret=True)]) -> None:
        step(count)(text=text, key=key)

    client = baton(server, era=era)
    client.tool_raises("count", "no", times=1)
    reads: list[str] = []
    client.store.client.meta.events.register("before-call.dynamodb.GetItem", lambda **call: reads.append(call["model"]))
    for error in ("no", None):
        run = client.call_workflow("flow", {"text": os.urandom(3_000).hex(), "key": "k"})
        assert (run.pause.error if run.paused else None, reads) == (error, [])


def test_a_server_without_a_store_runs_workflows_without_tasks() -> None:
    answer = handler_client.Client(handler(flow_server(), settings=Settings())).get_prompt("flow")
    assert (answer.conversation[-1], answer.meta) == (("user", "Result from second: 2"), {})


def test_a_task_deleted_during_its_run_changes_no_reply(make_client: MakeClient, era: Era, table: Table) -> None:
    def vanish() -> int:
        table.delete(table.items[0]["sk"]["S"].removeprefix("TASK#"))
        raise ToolError("no")

    server = Server("s")
    server.tool(name="second")(vanish)
    server.add_workflow(Workflow(name="flow", description="count", steps=[ToolStep("two", tool="second")]))
    answer = make_client(server, era=era).get_prompt("flow")
    assert answer.handoff.endswith(f"{NEXT}\n\n1. Call second with {{}}")
    assert answer.meta == {
        "task_id": answer.task_id,
        "task_status": "working",
        "steps": [{"name": "two", "status": "failed"}],
        "persisted": False,
        "pause_reason": {
            "type": "toolError",
            "failedStep": "two",
            "error": "no",
            "retryable": False,
            "suggestedTool": "second",
        },
        **related_meta(era, answer.task_id),
    }
    assert table.items == []
