"""`prompts/get` with a task: the server goes on where it stopped (docs/workflows.md)."""

import json
from typing import Any

import pytest

from mcp_baton import Argument, Context, Server, Step, Workflow, constant, prompt_arg, step_output
from mcp_baton.protocol.envelope import RELATED_TASK_KEY
from mcp_baton.tasks.ids import new_task_id
from mcp_baton.workflow.sources import Source
from tests.e2e.conftest import MakeClient
from tests.e2e.support import Answer, Clock, Era, Script, Table, related

NOBODYS = new_task_id(0)
GIVEN = prompt_arg("order_id")


def orders_server(script: Script, clock: Clock | None = None, fetch: Source = GIVEN, **refund: Any) -> Server:
    """Fetch, refund, notify; a clock runs out in `refund`.

    `fetch` is the source of the first step's argument, `refund` replaces what the second step is declared with.
    """
    server = Server("orders")

    @server.tool
    def fetch_order(order_id: str) -> dict[str, Any]:
        """Fetch one order."""
        return script.play("fetch_order", {"id": order_id, "total": 30.0})

    @server.tool(name="refund")
    def refund_tool(order_id: str, amount: float) -> str:
        """Refund an amount."""
        if clock is not None:
            clock.ms = 5_500
        return script.play("refund", f"{order_id}: {amount}")

    @server.tool
    def send_mail(text: str) -> str:
        """Send a mail."""
        return script.play("send_mail", text)

    @server.resource("docs://policy")
    def policy() -> str:
        return script.play("policy", "Be kind.")

    declared = {
        "tool": "refund",
        "arguments": {"order_id": prompt_arg("order_id"), "amount": step_output("fetch", "total")},
        "guidance": "Mind the policy.",
        "resources": ["docs://policy"],
        "retryable": True,
        **refund,
    }
    for name in ("refund_order", "its_twin"):
        server.add_workflow(
            Workflow(
                name=name,
                description="refund an order",
                arguments=[Argument("order_id", required=True), Argument("note"), Argument("amount", type=float)],
                steps=[
                    Step(
                        "fetch",
                        tool="fetch_order",
                        arguments={"order_id": fetch},
                        guidance="Once.",
                        resources=["docs://policy"],
                    ),
                    Step("refund", **declared),
                    Step("notify", tool="send_mail", arguments={"text": constant("{order_id} {note}")}),
                ],
            )
        )
    return server


def assert_completed(answer: Answer, task_id: str, era: Era) -> None:
    assert answer.meta == {
        "task_id": task_id,
        "task_status": "completed",
        "steps": [{"name": name, "status": "completed"} for name in ("fetch", "refund", "notify")],
        **related(era, task_id),
    }


def test_a_failed_step_is_run_again_and_completed_ones_are_not(make_client: MakeClient, era: Era) -> None:
    script = Script(errors={"refund": "connection timeout"})
    client = make_client(orders_server(script), era=era)
    task = client.get_prompt("refund_order", {"order_id": "A-17"}).task_id
    script.take()
    script.errors.clear()
    answer = client.get_prompt("refund_order", task=task)
    assert_completed(answer, task, era)
    assert script.take() == ["policy", "refund", "send_mail"]
    variables = client.variables(task)
    assert "_workflow.pause_reason" not in variables
    assert variables["_workflow.result.refund"] == "A-17: 30.0"
    assert variables["_workflow.result.fetch"] == {"id": "A-17", "total": 30.0}
    expected = {"completed": True, "steps_completed": 3}
    assert client.in_era("2025").task("result", task).result["result"] == expected


def test_a_resumes_messages_show_completed_steps_calls_and_stored_results(make_client: MakeClient) -> None:
    script = Script(errors={"refund": "connection timeout"})
    client = make_client(orders_server(script))
    task = client.get_prompt("refund_order", {"order_id": "A-17"}).task_id
    script.errors.clear()
    fetched = json.dumps({"id": "A-17", "total": 30.0}, separators=(",", ":"))
    assert client.get_prompt("refund_order", task=task).conversation == [
        ("user", "I want to refund an order.\n\nArguments:\n- order_id: A-17"),
        (
            "assistant",
            """Here is the plan:

1. fetch_order: Fetch one order.
2. refund: Refund an amount.
3. send_mail: Send a mail.""",
        ),
        ("assistant", 'Calling fetch_order with {"order_id": "A-17"}'),
        ("user", f"Result from fetch_order: {fetched}"),
        ("assistant", "Mind the policy."),
        ("user", "Resource content from docs://policy:\nBe kind."),
        ("assistant", 'Calling refund with {"order_id": "A-17", "amount": 30.0}'),
        ("user", "Result from refund: A-17: 30.0"),
        ("assistant", 'Calling send_mail with {"text": "A-17 {note}"}'),
        ("user", "Result from send_mail: A-17 {note}"),
    ]


def test_a_resume_that_stops_again_says_why_this_time(make_client: MakeClient, era: Era) -> None:
    script = Script(errors={"refund": "connection timeout"})
    client = make_client(orders_server(script), era=era)
    task = client.get_prompt("refund_order", {"order_id": "A-17"}).task_id
    script.errors = {"send_mail": "mailbox full"}
    answer = client.get_prompt("refund_order", task=task)
    reason = {
        "type": "toolError",
        "failedStep": "notify",
        "error": "mailbox full",
        "retryable": False,
        "suggestedTool": "send_mail",
    }
    assert answer.meta["pause_reason"] == reason
    assert answer.statuses == ["completed", "completed", "failed"]
    assert client.variables(task)["_workflow.pause_reason"] == reason
    assert client.variables(task)["_workflow.result.notify"] == {"error": "mailbox full"}


def test_a_step_that_failed_and_fails_again_overwrites_its_error(make_client: MakeClient) -> None:
    script = Script(errors={"refund": "first"})
    client = make_client(orders_server(script))
    task = client.get_prompt("refund_order", {"order_id": "A-17"}).task_id
    script.errors["refund"] = "second"
    assert client.get_prompt("refund_order", task=task).meta["pause_reason"]["error"] == "second"
    assert client.variables(task)["_workflow.result.refund"] == {"error": "second"}


def test_a_blocked_step_runs_when_the_argument_that_it_lacked_is_given(make_client: MakeClient, era: Era) -> None:
    script = Script()
    arguments = {"order_id": prompt_arg("order_id"), "amount": prompt_arg("amount")}
    client = make_client(orders_server(script, arguments=arguments), era=era)
    paused = client.get_prompt("refund_order", {"order_id": "A-17"})
    assert paused.meta["pause_reason"]["type"] == "schemaMismatch"
    assert_completed(client.get_prompt("refund_order", {"amount": "12"}, task=paused.task_id), paused.task_id, era)
    assert client.variables(paused.task_id)["_workflow.result.refund"] == "A-17: 12.0"
    # The blocked step's resource was fetched for the model that has to go on.
    assert script.take() == ["policy", "fetch_order", "policy", "policy", "refund", "send_mail"]


def test_a_run_that_ran_out_of_time_goes_on_with_the_next_functions_time(make_client: MakeClient, era: Era) -> None:
    script, clock = Script(), Clock()
    client = make_client(orders_server(script, clock), era=era, remaining_ms=clock)
    paused = client.get_prompt("refund_order", {"order_id": "A-17"})
    assert paused.meta["pause_reason"]["type"] == "deadlineExceeded"
    script.take()
    clock.ms = 30_000
    assert_completed(client.get_prompt("refund_order", task=paused.task_id), paused.task_id, era)
    assert script.take() == ["send_mail"]


def test_arguments_of_the_first_call_are_remembered_and_those_given_again_win(make_client: MakeClient) -> None:
    script = Script(errors={"refund": "no", "send_mail": "no"})
    client = make_client(orders_server(script))
    task = client.get_prompt("refund_order", {"order_id": "A-17", "note": "sorry"}).task_id
    script.errors.clear()
    answer = client.get_prompt("refund_order", {"order_id": "B-18"}, task=task)
    assert client.variables(task)["_workflow.result.refund"] == "B-18: 30.0"
    assert client.variables(task)["_workflow.result.notify"] == "B-18 sorry"
    assert answer.conversation[0][1].endswith("Arguments:\n- order_id: B-18\n- note: sorry")


def test_arguments_are_kept_with_the_task_and_not_among_its_variables(make_client: MakeClient) -> None:
    client = make_client(orders_server(Script(errors={"fetch_order": "no"})))
    variables = client.variables(client.get_prompt("refund_order", {"order_id": "A-17"}).task_id)
    assert set(variables) == {"_workflow.progress", "_workflow.pause_reason", "_workflow.result.fetch"}


def test_a_resume_counts_steps_from_where_it_is(make_client: MakeClient) -> None:
    script = Script(errors={"refund": "no"})
    client = make_client(orders_server(script))
    task = client.get_prompt("refund_order", {"order_id": "A-17"}).task_id
    script.errors.clear()
    told = client.get_prompt("refund_order", task=task, meta={"progressToken": "t"}).notifications
    assert [item["message"] for item in told] == ["Step 2/3: refund", "Step 3/3: notify"]
    assert [item["progress"] for item in told] == [2, 3]


def test_the_result_of_a_continuation_binds_in_a_resume(make_client: MakeClient) -> None:
    script = Script(errors={"fetch_order": "no"})
    client = make_client(orders_server(script))
    task = client.get_prompt("refund_order", {"order_id": "A-17"}).task_id
    script.errors.clear()
    client.call_tool("fetch_order", {"order_id": "C-19"}, task=task)
    script.take()
    answer = client.get_prompt("refund_order", task=task)
    assert answer.meta["task_status"] == "completed"
    assert script.take() == ["policy", "refund", "send_mail"]
    assert ("user", 'Result from fetch_order: {"id":"C-19","total":30.0}') in answer.conversation


def test_a_step_that_a_continuation_completed_ahead_of_its_turn_is_not_run_again(make_client: MakeClient) -> None:
    script = Script(errors={"refund": "no"})
    client = make_client(orders_server(script))
    task = client.get_prompt("refund_order", {"order_id": "A-17"}).task_id
    client.call_tool("send_mail", {"text": "by hand"}, task=task)
    script.errors.clear()
    script.take()
    answer = client.get_prompt("refund_order", task=task)
    assert answer.meta["task_status"] == "completed"
    assert script.take() == ["policy", "refund"]
    assert client.variables(task)["_workflow.result.notify"] == "by hand"
    # The messages keep the order of the steps, whoever ran them.
    assert answer.conversation[-1] == ("user", "Result from send_mail: by hand")


def test_a_resume_with_nothing_left_to_do_completes_the_task(make_client: MakeClient, era: Era) -> None:
    script = Script(errors={"fetch_order": "no"})
    client = make_client(orders_server(script), era=era)
    task = client.get_prompt("refund_order", {"order_id": "A-17"}).task_id
    script.errors.clear()
    client.call_tool("fetch_order", {"order_id": "A-17"}, task=task)
    client.call_tool("refund", {"order_id": "A-17", "amount": 1.0}, task=task)
    client.call_tool("send_mail", {"text": "done"}, task=task)
    script.take()
    assert_completed(client.get_prompt("refund_order", task=task), task, era)
    assert script.take() == []


def test_a_step_that_an_operator_skipped_is_not_run_and_does_not_count(make_client: MakeClient, table: Table) -> None:
    script = Script(errors={"refund": "no"})
    client = make_client(orders_server(script))
    task = client.get_prompt("refund_order", {"order_id": "A-17"}).task_id
    table.mark_step(task, 1, "skipped")
    script.take()
    answer = client.get_prompt("refund_order", task=task)
    assert answer.meta["task_status"] == "completed"
    assert answer.statuses == ["completed", "skipped", "completed"]
    assert script.take() == ["send_mail"]
    assert client.task("result", task).result["result"] == {"completed": True, "steps_completed": 2}
    assert "_workflow.pause_reason" not in client.variables(task)


def test_a_step_that_a_call_completes_while_the_resume_fails_at_it_stays_completed(make_client: MakeClient) -> None:
    script = Script(errors={"refund": "no"})
    client = make_client(orders_server(script))
    task = client.get_prompt("refund_order", {"order_id": "A-17"}).task_id

    def beside() -> None:
        script.errors = {}
        assert client.call_tool("refund", {"order_id": "by", "amount": 1.0}, task=task).meta["recorded"] is True
        script.errors = {"refund": "no"}

    script.meanwhile["refund"] = beside
    answer = client.get_prompt("refund_order", task=task)
    assert answer.statuses == ["completed", "completed", "pending"]
    assert "pause_reason" not in answer.meta
    variables = client.variables(task)
    assert variables["_workflow.result.refund"] == "by: 1.0"
    assert "_workflow.pause_reason" not in variables


def test_a_task_may_be_named_by_the_standard_key(make_client: MakeClient, era: Era) -> None:
    script = Script(errors={"refund": "no"})
    client = make_client(orders_server(script), era=era)
    task = client.get_prompt("refund_order", {"order_id": "A-17"}).task_id
    script.errors.clear()
    assert_completed(client.get_prompt("refund_order", meta={RELATED_TASK_KEY: {"taskId": task}}), task, era)


@pytest.mark.parametrize("how", ["cancelled", "completed"])
def test_a_terminal_task_is_not_resumed(make_client: MakeClient, era: Era, table: Table, how: str) -> None:
    script = Script(errors={"refund": "no"})
    client = make_client(orders_server(script), era=era)
    task = client.get_prompt("refund_order", {"order_id": "A-17"}).task_id
    client.task("cancel", task, **({"result": {}} if how == "completed" else {}))
    before = table.item(task)
    script.take()
    answer = client.get_prompt("refund_order", task=task)
    assert answer.refusal == (200 if era == "2025" else 400, -32602)
    assert how in answer.error["message"]
    assert script.take() == []
    after = table.item(task)
    claims = {"run", "w0", "w1", "w2"}
    assert {name: after[name] for name in after.keys() - claims} == {
        name: before[name] for name in before.keys() - claims
    }
    script.errors.clear()
    assert set(client.get_prompt("refund_order", task=task).statuses) == {"completed"}


def test_missing_foreign_and_expired_tasks_are_refused_in_the_same_words(
    make_client: MakeClient, era: Era, table: Table
) -> None:
    script = Script(errors={"refund": "no"})
    client = make_client(orders_server(script), era=era)
    expired = client.get_prompt("refund_order", {"order_id": "A-17"}).task_id
    foreign = client.as_owner("bob").get_prompt("refund_order", {"order_id": "A-17"}).task_id
    table.expire(expired)
    script.take()
    answers = [client.get_prompt("refund_order", task=task) for task in (NOBODYS, foreign, expired, "no id at all")]
    assert {answer.body for answer in answers} == {answers[0].body}
    assert answers[0].refusal == (200 if era == "2025" else 400, -32602)
    assert script.take() == []


def test_a_task_of_another_workflow_is_refused(make_client: MakeClient, era: Era) -> None:
    script = Script(errors={"refund": "no"})
    client = make_client(orders_server(script), era=era)
    task = client.get_prompt("refund_order", {"order_id": "A-17"}).task_id
    script.take()
    # Even one with the very same steps.
    assert client.get_prompt("its_twin", task=task).error["code"] == -32602
    assert script.take() == []


def test_a_definition_whose_completed_step_has_changed_is_refused_and_the_step_named(
    make_client: MakeClient, era: Era
) -> None:
    script = Script(errors={"refund": "no"})
    task = make_client(orders_server(script), era=era).get_prompt("refund_order", {"order_id": "A-17"}).task_id
    script.take()
    deployed = make_client(orders_server(script, fetch=constant("B-18")), era=era)
    answer = deployed.get_prompt("refund_order", task=task)
    assert answer.error["code"] == -32602
    assert "fetch" in answer.error["message"]
    assert "notify" not in answer.error["message"]
    assert script.take() == []


def test_a_definition_whose_texts_alone_have_changed_goes_on(make_client: MakeClient, era: Era) -> None:
    script = Script(errors={"refund": "no"})
    task = make_client(orders_server(script), era=era).get_prompt("refund_order", {"order_id": "A-17"}).task_id
    script.errors.clear()
    deployed = make_client(orders_server(script, guidance="Mind the new policy."), era=era)
    assert_completed(deployed.get_prompt("refund_order", task=task), task, era)


@pytest.mark.parametrize("arguments", [{"amount": "many"}, {"unknown": "x"}])
def test_a_bad_argument_is_refused_before_anything_is_run_again(
    make_client: MakeClient, table: Table, arguments: dict[str, str]
) -> None:
    script = Script(errors={"refund": "no"})
    client = make_client(orders_server(script))
    task = client.get_prompt("refund_order", {"order_id": "A-17"}).task_id
    before = table.item(task)
    script.take()
    answer = client.get_prompt("refund_order", arguments, task=task)
    assert answer.refusal == (200, -32602)
    assert repr(next(iter(arguments))) in answer.error["message"]
    assert script.take() == []
    after = table.item(task)
    claims = {"run", "w0", "w1", "w2"}
    assert {name: after[name] for name in after.keys() - claims} == {
        name: before[name] for name in before.keys() - claims
    }
    script.errors.clear()
    assert set(client.get_prompt("refund_order", task=task).statuses) == {"completed"}


def test_a_task_that_cannot_be_read_is_not_run_from_its_beginning(make_client: MakeClient, era: Era) -> None:
    script = Script(errors={"refund": "no"})
    task = make_client(orders_server(script), era=era).get_prompt("refund_order", {"order_id": "A-17"}).task_id
    script.take()
    cut_off = make_client(orders_server(script), era=era, table_name="nowhere")
    assert cut_off.get_prompt("refund_order", task=task).error["code"] == -32603
    assert script.take() == []


def test_a_resource_that_is_shown_again_moves_no_progress(make_client: MakeClient) -> None:
    script = Script(errors={"work": "no"})
    server = Server("docs")

    @server.tool
    def work() -> str:
        return script.play("work", "done")

    @server.resource("docs://a")
    def docs(ctx: Context) -> str:
        ctx.report_progress(1, 2, "half way")
        return "a"

    steps = [Step("read", resources=["docs://a"]), Step("work", tool="work")]
    server.add_workflow(Workflow(name="flow", description="work", steps=steps))
    client = make_client(server)
    task = client.get_prompt("flow").task_id
    script.errors.clear()
    answer = client.get_prompt("flow", task=task, meta={"progressToken": "t"})
    assert [(item["progress"], item["total"]) for item in answer.notifications] == [(2, 2)]
    assert answer.conversation[2:4] == [
        ("assistant", "Reading docs://a"),
        ("user", "Resource content from docs://a:\na"),
    ]
