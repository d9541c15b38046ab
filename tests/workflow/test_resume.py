"""Resumes: with a task, `prompts/get` continues the workflow where it stopped (docs/workflows.md)."""

from typing import Any

import pytest

from mcp_baton import Argument, Context, Fetch, Server, ToolStep, Workflow, constant, prompt_arg, step_output
from mcp_baton.tasks.ids import new_task_id
from mcp_baton.testing import Client, Connect, Era, JsonRpcError, Run
from tests.support.client import Clock, Script, Table
from tests.support.handler import MakeClient

UNKNOWN_TASK = new_task_id(0)
ORDER = {"order_id": "A-17"}
ALL_STEPS = {"fetch": "completed", "refund": "completed", "notify": "completed"}


def orders_server(**refund: Any) -> Server:
    """Return a server with the steps fetch, refund and notify. `refund` replaces members of the second step."""
    server = Server("orders")

    @server.tool
    def fetch_order(order_id: str) -> dict[str, Any]:
        """Fetch one order."""
        return {"id": order_id, "total": 30.0}

    @server.tool(name="refund")
    def refund_tool(order_id: str, amount: float) -> str:
        """Refund an amount."""
        return f"{order_id}: {amount}"

    @server.tool
    def send_mail(text: str) -> str:
        """Send a mail."""
        return text

    @server.resource("docs://policy")
    def policy() -> str:
        return "Be kind."

    refund_options = {
        "arguments": {"order_id": prompt_arg("order_id"), "amount": step_output("fetch", "total")},
        "guidance": "Mind the policy.",
        "resources": ["docs://policy"],
        **refund,
    }
    steps = [
        ToolStep("fetch", tool="fetch_order", arguments={"order_id": prompt_arg("order_id")}, guidance="Once."),
        ToolStep("refund", tool="refund", **refund_options),
        ToolStep("notify", tool="send_mail", arguments={"text": constant("{order_id} {note}")}),
    ]
    arguments = [Argument("order_id", required=True), Argument("note"), Argument("amount", type=float)]
    for name in ("refund_order", "second_flow"):
        server.add_workflow(Workflow(name=name, description="refund an order", arguments=arguments, steps=steps))
    return server


def paused_at(client: Client, tool: str, **arguments: str) -> str:
    """Return a task whose run stopped at this tool. The tool fails only once."""
    client.tool_raises(tool, "no", times=1)
    run = client.get_prompt("refund_order", {**ORDER, **arguments})
    assert run.pause.suggested_tool == tool
    return run.task_id


def calls(client: Client) -> list[int]:
    """Return the number of calls of each tool."""
    return [len(client.calls(tool)) for tool in ("fetch_order", "refund", "send_mail")]


def conversation(run: Run) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in run.messages]


def test_a_resume_runs_failed_steps_again_but_not_completed_ones(baton: Connect) -> None:
    client = baton(orders_server())
    task_id = paused_at(client, "refund")
    run = client.resume(task_id)
    assert (run.task_id, run.completed, run.paused, run.steps) == (task_id, True, False, ALL_STEPS)
    assert calls(client) == [1, 2, 1]
    task = client.task(task_id)
    assert "_workflow.pause_reason" not in task.variables
    assert task.variables["_workflow.result.refund"] == "A-17: 30.0"
    assert task.variables["_workflow.result.fetch"] == {"id": "A-17", "total": 30.0}
    assert task.result == {"completed": True, "steps_completed": 3}


def test_a_resume_that_pauses_again_has_its_own_reason(baton: Connect) -> None:
    client = baton(orders_server())
    task_id = paused_at(client, "refund")
    for tool, step, error in (("refund", "refund", "again"), ("send_mail", "notify", "mailbox full")):
        client.tool_raises(tool, error, times=1)
        pause = client.resume(task_id).pause
        assert (pause.step, pause.error) == (step, error)
        task = client.task(task_id)
        assert task.pause == pause
        assert task.variables[f"_workflow.result.{step}"] == {"error": error}
    assert task.steps == {**ALL_STEPS, "notify": "failed"}


def test_a_blocked_step_runs_when_its_missing_argument_is_given(baton: Connect) -> None:
    arguments = {"order_id": prompt_arg("order_id"), "amount": prompt_arg("amount")}
    client = baton(orders_server(arguments=arguments))
    run = client.get_prompt("refund_order", ORDER)
    assert run.pause.type == "schemaMismatch"
    assert client.resume(run.task_id, {"amount": "12"}).completed
    assert client.task(run.task_id).variables["_workflow.result.refund"] == "A-17: 12.0"


def test_arguments_of_the_first_call_are_stored_and_a_resume_can_replace_them(baton: Connect) -> None:
    client = baton(orders_server())
    task_id = paused_at(client, "refund", note="sorry")
    assert set(client.task(task_id).variables) == {
        "_workflow.progress",
        "_workflow.pause_reason",
        *("_workflow.result.fetch", "_workflow.result.refund"),
    }
    run = client.resume(task_id, {"order_id": "B-18"})
    variables = client.task(task_id).variables
    assert variables["_workflow.result.refund"] == "B-18: 30.0"
    assert variables["_workflow.result.notify"] == "B-18 sorry"
    assert run.messages[0].text.endswith("Arguments:\n- order_id: B-18\n- note: sorry")


def test_steps_that_continuations_completed_are_not_run_again_and_their_results_are_used(baton: Connect) -> None:
    client = baton(orders_server())
    task_id = paused_at(client, "fetch_order")
    client.call_tool("send_mail", {"text": "by hand"}, task=task_id)
    client.call_tool("fetch_order", {"order_id": "C-19"}, task=task_id)
    run = client.resume(task_id)
    assert (run.completed, calls(client)) == (True, [2, 1, 1])
    assert ("user", 'Result from fetch_order: {"id":"C-19","total":30.0}') in conversation(run)
    # The messages keep the order of the steps, although continuations ran some of them.
    assert run.messages[-1].text == "Result from send_mail: by hand"


@pytest.mark.parametrize("status", ["cancelled", "completed"])
def test_an_ended_task_is_not_resumed(baton: Connect, status: str) -> None:
    client = baton(orders_server())
    task_id = paused_at(client, "refund")
    task_before = client.cancel(task_id) if status == "cancelled" else client.complete(task_id, {})
    with pytest.raises(JsonRpcError, match=status) as error_info:
        client.resume(task_id)
    assert error_info.value.code == -32602
    assert calls(client) == [1, 1, 0]
    assert client.task(task_id) == task_before


def test_missing_foreign_and_expired_tasks_give_the_same_error(baton: Connect, era: Era) -> None:
    client = baton(orders_server(), era=era)
    expired_task = paused_at(client, "refund")
    client.clock.advance(3_700)
    foreign_task = paused_at(client.as_owner("bob"), "refund")
    errors = set()
    for task in (UNKNOWN_TASK, foreign_task, expired_task, "no id at all"):
        with pytest.raises(JsonRpcError) as error_info:
            client.get_prompt("refund_order", task=task)
        errors.add((error_info.value.status, error_info.value.code, error_info.value.message, error_info.value.data))
    assert {error[:2] for error in errors} == {(200 if era == "2025" else 400, -32602)}
    assert len(errors) == 1
    assert calls(client) == [2, 2, 0]


def test_a_task_of_another_workflow_is_refused(baton: Connect) -> None:
    client = baton(orders_server())
    task_id = paused_at(client, "refund")
    # It is refused even if the workflows have the same steps.
    with pytest.raises(JsonRpcError, match="-32602"):
        client.get_prompt("second_flow", task=task_id)
    assert calls(client) == [1, 1, 0]


@pytest.mark.parametrize("arguments", [{"amount": "many"}, {"unknown": "x"}])
def test_a_resume_with_an_invalid_argument_runs_nothing(baton: Connect, arguments: dict[str, str]) -> None:
    client = baton(orders_server())
    task_id = paused_at(client, "refund")
    task_before = client.task(task_id)
    with pytest.raises(JsonRpcError, match=repr(next(iter(arguments)))) as error_info:
        client.resume(task_id, arguments)
    assert error_info.value.code == -32602
    assert calls(client) == [1, 1, 0]
    # The claim was taken and released. Nothing else has changed.
    assert client.task(task_id).variables == task_before.variables
    assert client.resume(task_id).completed


def test_a_task_with_damaged_arguments_is_not_resumed(make_client: MakeClient, table: Table) -> None:
    client = make_client(orders_server(), remaining_ms=(clock := Clock(2_000)))
    task_id = client.get_prompt("refund_order", ORDER).task_id
    clock.ms = 30_000
    table.replace({**table.item(task_id), "arguments": {"S": '["A-17"]'}})

    assert "nothing was run" in client.get_prompt("refund_order", task=task_id).error["message"]
    assert "_workflow.result.fetch" not in client.variables(task_id)


def test_a_resume_reports_progress_from_its_first_open_step(
    make_client: MakeClient,
) -> None:
    server, script = Server("docs"), Script(errors={"work": "no"})
    server.tool(name="work")(lambda: script.play("work", "done"))

    @server.resource("docs://a")
    def docs(ctx: Context) -> str:
        ctx.report_progress(1, 2, "half way")
        return "a"

    steps = [Fetch("read", resources=["docs://a"]), ToolStep("work", tool="work")]
    server.add_workflow(Workflow(name="flow", description="work", steps=steps))
    client = make_client(server)
    task = client.get_prompt("flow").task_id
    script.errors.clear()
    answer = client.get_prompt("flow", task=task, meta={"progressToken": "t"})
    progress = [(item["message"], item["progress"], item["total"]) for item in answer.notifications]
    assert progress == [("Step 2/2: work", 2, 2)]
    assert answer.conversation[2:4] == [
        ("assistant", "Reading docs://a"),
        ("user", "Resource content from docs://a:\na"),
    ]
