"""An owner cannot see or change another owner's tasks (docs/http.md, docs/storage.md)."""

import pytest

from mcp_baton import Context, Server, ToolError, ToolStep, Workflow
from mcp_baton.protocol.envelope import RELATED_TASK_KEY
from mcp_baton.tasks.ids import new_task_id
from tests.support.client import Answer, Client, Era, Table
from tests.support.handler import MakeClient

UNKNOWN_TASK = new_task_id(0)
SECRET = "only alice may see this"


def secret_server() -> Server:
    server = Server("s")

    @server.tool
    def learn(ctx: Context) -> str:
        if ctx.task is not None:
            ctx.task["learnt"] = SECRET
        return SECRET if ctx.owner == "alice" else "nothing"

    @server.tool
    def stop() -> None:
        raise ToolError("here")

    steps = [ToolStep("first", tool="learn"), ToolStep("second", tool="stop")]
    server.add_workflow(Workflow(name="flow", description="learn", steps=steps))
    return server


def every_attempt(mallory: Client, task: str) -> list[Answer]:
    """Send each request that a client can make with a task's id. Return the answers."""
    return [
        mallory.task("get", task),
        mallory.task("result", task),
        mallory.task("cancel", task),
        mallory.task("cancel", task, result={"mine": True}),
        mallory.task("update", task, inputResponses={"x": {}}),
        mallory.call_tool("learn", task=task),
        mallory.call_tool("stop", task=task),
        mallory.call_tool("learn", meta={RELATED_TASK_KEY: {"taskId": task}}),
        mallory.get_prompt("flow", task=task),
        mallory.request("tasks/list"),
    ]


@pytest.mark.parametrize("is_over", [False, True])
@pytest.mark.parametrize("other_owner", ["bob", "alice ", "alice#TASK", None])
def test_another_owner_sees_and_changes_nothing(
    make_client: MakeClient, era: Era, table: Table, other_owner: str | None, is_over: bool
) -> None:
    alice = make_client(secret_server(), era=era)
    task = alice.get_prompt("flow").task_id
    if is_over:
        alice.task("cancel", task, result={"secret": SECRET})
    items_before = table.items
    mallory = alice.as_owner(other_owner)
    foreign_answers, missing_answers = every_attempt(mallory, task), every_attempt(mallory, UNKNOWN_TASK)
    assert table.items == items_before
    for foreign_answer, missing_answer in zip(foreign_answers, missing_answers, strict=True):
        assert foreign_answer.status == missing_answer.status
        assert foreign_answer.body.replace(task, "ID") == missing_answer.body.replace(UNKNOWN_TASK, "ID")
        assert SECRET not in foreign_answer.body


def test_an_identity_in_the_clients_headers_or_body_is_ignored(make_client: MakeClient, table: Table) -> None:
    alice = make_client(secret_server())
    task = alice.get_prompt("flow").task_id
    items_before = table.items
    claims = {"sub": "alice", "owner": "alice", "X-Owner": "alice", "Authorization": "Bearer alice"}
    body = f'{{"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {{"taskId": "{task}", "owner": "alice"}}}}'
    assert alice.as_owner("bob").post(body, claims, queryStringParameters={"sub": "alice"}).refusal == (200, -32602)
    assert table.items == items_before
