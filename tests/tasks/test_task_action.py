"""The actions of a workflow tool for the tasks page: show, list, cancel, complete (docs/console.md)."""

import json
from datetime import timedelta
from typing import Any

import pytest
from jsonschema_rs import validator_for

from mcp_baton import (
    Approval,
    Argument,
    Context,
    ListStep,
    Server,
    ToolError,
    ToolStep,
    Wait,
    Workflow,
    ask_user,
    constant,
    item,
    prompt_arg,
    step_output,
)
from mcp_baton.present.fit import MAX_TOTAL_BYTES
from mcp_baton.present.pause_sentences import PAUSED_FOR_MODEL
from mcp_baton.protocol.envelope import CAPABILITIES_KEY
from mcp_baton.tasks.ids import new_task_id
from mcp_baton.testing import Client, Connect, Era, JsonRpcError, Run
from mcp_baton.tools.resource import value_uri
from mcp_baton.workflow.steps.step import Step
from tests.console.test_apps import SHOWS_PAGES, ask
from tests.sent import Requests
from tests.support.handler import MakeClient
from tests.tasks.test_overflow import large_server
from tests.workflow.test_workflow_tool import ORDER, orders_server, paused_run


def act(client: Client, action: str | None, task: str | None = None, **arguments: Any) -> Run:
    task_arguments = {"task_id": task} if task else {}
    return client.call_workflow("refund_order", {"task_action": action, **task_arguments, **arguments})


def complete(client: Client, task: str | None, workflow: str = "refund_order", **arguments: Any) -> Run:
    """Complete a task as the page does, with a client of the 2026 era that shows pages."""
    all_arguments = {"task_action": "complete", "task_id": task, **arguments}
    return Run.of_tool(
        client.request("tools/call", {"name": workflow, "arguments": all_arguments}, {CAPABILITIES_KEY: SHOWS_PAGES})
    )


def show(client: Client, task: str | None, workflow: str = "refund_order") -> Any:
    run = client.call_workflow(workflow, {"task_action": "show", "task_id": task})
    assert not run.is_error
    return run.structured


def satisfies_schema(structure: Any) -> bool:
    """Return whether the structure satisfies the tool's output schema, both the one for clients that show the page and
    the one for others."""
    workflow_tool = orders_server().full_view.workflow_tool("refund_order")
    assert workflow_tool is not None
    schemas: list[Any] = [workflow_tool.definition["outputSchema"], workflow_tool.definition_for_apps["outputSchema"]]
    return all(validator_for(schema).is_valid(structure) for schema in schemas)


def test_the_message_of_a_pause_for_an_approval_is_the_approvals_message(baton: Connect) -> None:
    server = Server("s")

    @server.tool(approval=Approval("payments", message="Pay {amount}?"))
    def pay(amount: int) -> str:
        return f"paid {amount}"

    server.add_workflow(
        Workflow(name="settle", description="pay", steps=[ToolStep("pay", tool=pay, arguments={"amount": constant(5)})])
    )
    client = baton(server)
    task_id = client.call_workflow("settle").task_id

    pause = show(client, task_id, "settle")["board"]["pause"]
    assert (pause["type"], pause["step"], pause["message"]) == ("approvalRequired", "pay", "Pay 5?")


def test_show_returns_everything_that_a_person_needs_to_continue_a_paused_task(baton: Connect, era: Era) -> None:
    client = baton(orders_server(), era=era)
    run = paused_run(client)
    structure = show(client, run.task_id)

    board = structure["board"]
    task = {"task_id": run.task_id}
    assert (board["workflow"], board["workflow_tool"]) == ("refund_order", "refund_order")
    assert board["task"].items() >= {**task, "status": "working", "status_message": PAUSED_FOR_MODEL}.items()
    assert board["task"]["created_at"] <= board["task"]["updated_at"] < board["task"]["expires_at"]
    order = {"total": 30.0, "email": "kim@example.com"}
    refund, mail = {"order_id": "A-17", "amount": 30.0}, {"to": "kim@example.com", "text": "Refunded A-17"}
    times: Any = client.request("tasks/get", {"taskId": run.task_id})["_meta"]
    fetch, policy, failed_step, notify = map(dict, board["steps"])
    for step in (fetch, policy, failed_step):
        assert {"at": step.pop("at"), "ms": step.pop("ms")} == times["mcp-baton/timings"][step["name"]]
    size = len(json.dumps(order, separators=(",", ":")))
    fetch_members = {"name": "fetch", "tool": "fetch_order", "status": "completed"}
    assert fetch == {**fetch_members, "arguments": ORDER, "result": order, "bytes": size}
    assert policy == {"name": "policy", "resource": "docs://policy", "status": "completed"}
    assert failed_step == {"name": "refund", "tool": "refund", "status": "failed", "error": "no", "arguments": refund}
    assert notify == {"name": "notify", "tool": "send_mail", "status": "pending", "arguments": mail}
    assert board["pause"].items() >= {"type": "toolError", "step": "refund", "error": "no"}.items()
    assert board["pause"]["message"].startswith("Step 'refund' failed: \"no\".")
    assert board["running_until"] is None
    assert [(call["step"], call["missing"]) for call in board["calls"]] == [("refund", []), ("notify", [])]
    assert [call["schema"]["required"] for call in board["calls"]] == [["order_id", "amount"], ["to", "text"]]
    assert board["can"] == {"go_on": True, "complete": True, "cancel": True}
    # The structure also has the members that each result of the tool has.
    assert structure["next"] == [{"tool": "refund_order", "arguments": task}]  # the failed call would fail again
    assert structure["results"] == {"fetch": order}
    assert satisfies_schema(structure)


def test_show_has_a_complete_text_and_changes_and_runs_nothing(baton: Connect) -> None:
    client = baton(orders_server())
    run = paused_run(client)
    calls, task_before = len(client.calls("refund")), client.task(run.task_id)
    view = act(client, "show", run.task_id)

    assert view.structured == show(client, run.task_id)
    assert len(client.calls("refund")) == calls
    assert client.task(run.task_id).variables == task_before.variables
    task = f'"task_id": "{run.task_id}"'
    assert view.text == (
        "This task of refund_order waits for the model; 2 of 4 steps done. Step 'refund' failed: \"no\". "
        f"This step is not retryable: correct the cause first.\n\n"
        "To continue the workflow, make these tool calls:\n\n"
        f'Call refund with {{"order_id": "A-17", "amount": 30.0, "task_id": "{run.task_id}/refund"}}\n'
        '   Note: Mind "A-17".\n\n'
        f"Then call refund_order with {{{task}}} to let the server continue."
    )
    assert view.structured is not None
    assert view.structured["message"] == view.text
    assert len(view.text.encode()) <= 2_000


def test_missing_and_invalid_arguments_are_named_and_can_be_supplied(baton: Connect, era: Era) -> None:
    server = Server("s")

    @server.tool
    def fetch() -> str:
        return "many"

    @server.tool
    def pay(amount: float, by: str, note: str = "") -> str:
        return f"{amount} by {by}"

    steps = [
        ToolStep("fetch", tool="fetch"),
        ToolStep("pay", tool="pay", arguments={"amount": step_output("fetch"), "note": prompt_arg("note")}),
        ToolStep("again", tool="pay", arguments={"amount": constant(1), "by": step_output("pay")}),
    ]
    server.add_workflow(Workflow(name="flow", description="pay", steps=steps, arguments=[Argument("note")]))
    client = baton(server, era=era)
    run = client.call_workflow("flow")
    board = show(client, run.task_id, "flow")["board"]
    assert board["pause"]["message"].startswith("Step 'pay' needs a value for 'by'")

    first_call, second_call = board["calls"]
    # A value that another step provides is not missing.
    assert (sorted(first_call["missing"]), second_call["missing"]) == (["amount", "by"], [])
    assert first_call["arguments"]["amount"] == "<invalid: amount>"
    assert client.call_tool("pay", {**first_call["arguments"], "amount": 2, "by": "kim"}).recorded is True
    assert show(client, run.task_id, "flow")["board"]["calls"][0]["arguments"]["by"] == "2.0 by kim"


def test_show_reports_the_end_of_the_claim_of_a_running_task(baton: Connect) -> None:
    client = baton(orders_server())
    views: list[Run] = []
    run = paused_run(client)
    client.during("refund", lambda: views.append(act(client, "show", run.task_id)))
    client.call_workflow("refund_order", task=run.task_id)

    [view] = views
    structure: Any = view.structured
    assert view.text.startswith("A run holds this task of refund_order until ")
    assert structure["running_until"] == structure["board"]["running_until"] > "2026"
    assert structure["board"]["can"] == {"go_on": False, "complete": True, "cancel": True}
    assert structure["board"]["pause"] is None


def test_the_suggested_calls_complete_a_shown_task(baton: Connect, era: Era) -> None:
    client = baton(orders_server(), era=era)
    run = paused_run(client)
    for call in show(client, run.task_id)["next"]:
        arguments = {**call["arguments"]}
        assert arguments.pop("task_id") == run.task_id
        if call["tool"] == "refund_order":
            assert client.call_workflow("refund_order", task=run.task_id).completed
        else:
            assert client.call_tool(call["tool"], arguments, task=run.task_id).recorded is True


def test_a_workflow_whose_completed_steps_have_changed_cannot_continue(baton: Connect) -> None:
    client = baton(orders_server())
    run = paused_run(client)
    steps = [
        ToolStep("fetch", tool="fetch_order", arguments={"order_id": constant("B")}),
        ToolStep("refund", tool="refund"),
    ]

    assert show(client.deployed(orders_server(steps=steps)), run.task_id)["board"]["can"]["go_on"] is False


def test_the_owners_newest_tasks_are_listed(baton: Connect, era: Era) -> None:
    client = baton(orders_server(), era=era)
    first_run, second_run = paused_run(client), client.call_workflow("refund_order", ORDER)
    result = act(client, "list")
    structure: Any = result.structured

    newest_task, oldest_task = structure["tasks"]
    assert (newest_task["task_id"], newest_task["status"]) == (second_run.task_id, "completed")
    assert oldest_task.keys() == {
        *["task_id", "workflow", "status", "status_message", "step", "pause_type", "created_at", "updated_at"]
    }
    assert (oldest_task["task_id"], oldest_task["workflow"]) == (first_run.task_id, "refund_order")
    assert (oldest_task["step"], oldest_task["pause_type"]) == ("refund", "toolError")
    assert (oldest_task["status"], oldest_task["status_message"]) == ("working", PAUSED_FOR_MODEL)
    assert f'- refund_order: working, {PAUSED_FOR_MODEL} (toolError) at step "refund"' in result.text
    assert result.text.startswith("The newest 2 tasks:\n- refund_order: completed; ")
    assert satisfies_schema(structure)
    assert act(client.as_owner("somebody else"), "list").text == "There are no tasks."


def test_at_most_fifty_tasks_are_listed_and_the_text_names_ten(baton: Connect) -> None:
    client = baton(orders_server())
    for _ in range(52):
        client.remaining_s(2)
        client.get_prompt("refund_order", ORDER)
    result = act(client, "list")
    structure: Any = result.structured

    assert len(structure["tasks"]) == 50
    assert not any("at" in step for step in show(client, structure["tasks"][0]["task_id"])["board"]["steps"])
    assert result.text.count("\n- ") == 10
    assert result.text.endswith("And 40 more.")
    assert len(result.text.encode()) <= 2_000


def test_a_task_can_be_cancelled(baton: Connect, era: Era) -> None:
    client = baton(orders_server(), era=era)
    run = paused_run(client)
    result = act(client, "cancel", run.task_id)
    structure: Any = result.structured

    assert (result.is_error, structure["board"]["task"]["status"]) == (False, "cancelled")
    assert structure["board"]["can"] == {"go_on": False, "complete": False, "cancel": False}
    assert result.text == "This task of refund_order is cancelled; 2 of 4 steps done."
    assert satisfies_schema(structure)
    assert client.task(run.task_id).status == "cancelled"


def test_only_results_that_a_client_supplied_are_marked(baton: Connect) -> None:
    client = baton(orders_server(), era="2026")
    # The result that the client supplies equals that of a run, and is marked all the same.
    client_task, run_task = paused_run(client).task_id, client.call_workflow("refund_order", ORDER).task_id
    completion = complete(client, client_task, task_result={"completed": True, "steps_completed": 4})

    assert client.task(client_task).result == {"completed": True, "steps_completed": 4}
    assert completion.text == "This task of refund_order is completed; 2 of 4 steps done. A client supplied its result."
    assert completion.meta["result_by"] == show(client, client_task)["board"]["task"]["result_by"] == "client"
    resumed_run = client.call_workflow("refund_order", task=client_task)
    assert 'Result of the task, which a client supplied: {"completed": true, "steps_completed": 4}' in resumed_run.text
    assert resumed_run.meta["result_by"] == "client"
    for task, expected in ((client_task, {"mcp-baton/result_by": "client"}), (run_task, {})):
        meta: Any = client.request("tasks/get", {"taskId": task})["_meta"]
        resource: Any = client.request("resources/read", {"uri": value_uri(task, "_workflow.result")})
        assert {name: value for name, value in meta.items() if "result_by" in name} == expected
        assert resource["contents"][0].get("_meta", {}) == expected
        assert ("result_by" in show(client, task)["board"]["task"]) is bool(expected)
        assert ("client supplied" in act(client, "show", task).text) is bool(expected)


def test_a_workflow_tool_cannot_complete_a_background_call_or_another_workflows_task(baton: Connect) -> None:
    client = baton(stock_server(), era="2026")
    other_task = client.call_workflow("other").task_id
    client.dispatch_fails()  # so that the worker does not complete the task first
    job = client.start_task("count")

    result = complete(client, job.task_id, "harmless", task_result=FORGERY)
    assert result.is_error
    assert result.text == (
        "This task is a call of count in the background: only its worker completes it. task_action cancel ends it. "
        "Nothing was changed."
    )
    assert job.wait().result.value == "counted"
    result = complete(client, other_task, "harmless", task_result=FORGERY)
    assert result.is_error
    assert result.text.endswith("Nothing was run: call other with this task_id.")
    assert client.task(other_task).status == "working"


def test_only_a_client_that_shows_pages_can_complete_a_task(make_client: MakeClient, era: Era) -> None:
    client = make_client(stock_server(), era=era)
    task = client.get_prompt("harmless").task_id
    params = {"name": "harmless", "arguments": {"task_action": "complete", "task_id": task}}
    result = client.request("tools/call", params).result

    assert result["isError"]
    assert result["content"][0]["text"] == (
        "task_action complete is for clients that show the page of MCP Apps; to let the server continue, call harmless "
        "with task_id alone. Nothing was run."
    )
    assert client.task("get", task).result["status"] == "working"
    ask(client, "tools/call", SHOWS_PAGES, params)
    assert client.task("get", task).result["status"] == "completed"


FORGERY: dict[str, Any] = {"content": [{"type": "text", "text": "1000 left"}]}


def stock_server() -> Server:
    """Return a server with a background tool and two workflows that pause."""
    server = Server("stock")

    @server.tool(task="required")
    def count() -> str:
        return "counted"

    @server.tool
    def fails() -> None:
        raise ToolError("no")

    for name in ("harmless", "other"):
        server.add_workflow(Workflow(name=name, description="do", steps=[ToolStep("one", tool="fails")]))
    return server


def test_an_ended_task_is_shown_with_its_results_and_cannot_be_changed(baton: Connect) -> None:
    client = baton(orders_server(), era="2026")
    task = client.call_workflow("refund_order", ORDER).task_id
    board = show(client, task)["board"]

    assert (board["task"]["status"], board["pause"], board["calls"]) == ("completed", None, [])
    assert board["can"] == {"go_on": False, "complete": False, "cancel": False}
    assert act(client, "show", task).text == "This task of refund_order is completed; 4 of 4 steps done."
    for result in (act(client, "cancel", task), complete(client, task)):
        assert (result.is_error, result.text) == (True, "This task is completed: nothing changes it.")
    assert client.task(task).result == {"completed": True, "steps_completed": 4}


def test_another_owners_task_has_the_answer_of_an_unknown_task(baton: Connect) -> None:
    client = baton(orders_server(), era="2026")
    run = paused_run(client)
    other_client, tasks = client.as_owner("mallory"), (run.task_id, new_task_id(0), "no id at all")
    answers = {act(other_client, action, task).text for action in ("show", "cancel") for task in tasks}
    answers |= {complete(other_client, task).text for task in tasks}

    # A resume of an unknown task has the same answer.
    assert answers == {other_client.call_workflow("refund_order", {"task_id": new_task_id(0)}).text}
    assert client.task(run.task_id).status == "working"


def test_another_workflows_task_is_shown_by_its_own_tool(baton: Connect) -> None:
    server = orders_server()
    server.add_workflow(Workflow(name="other", description="do", steps=[ToolStep("one", tool="fetch_order")]))
    client = baton(server)
    task = client.call_workflow("other").task_id
    result = act(client, "show", task)

    assert (result.is_error, result.structured) == (True, None)
    assert result.text.endswith("Nothing was run: call other with this task_id.")
    # Cancelling does not need the workflow, as with tasks/cancel.
    assert act(client, "cancel", task).text == "This task is cancelled."


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"task_action": "delete"}, "task_action must be one of show, list, cancel, complete"),
        ({"task_action": ["show"]}, "task_action must be one of show, list, cancel, complete"),
        ({"task_action": "show"}, "task_id is missing"),
        ({"task_action": "cancel", "task_id": ""}, "task_id is missing"),
        ({"task_action": "show", "task_id": 7}, "task_id must be a text"),
        ({"task_action": "list", "order_id": "A"}, 'task_action list takes no "order_id"'),
        ({"task_action": "show", "task_id": "T", "task_result": {}}, 'task_action show takes no "task_result"'),
        ({"task_action": "complete", "task_id": "T", "task_result": [1]}, "task_result must be an object"),
        ({"task_action": "complete", "task_id": "T", "task_result": "x"}, "task_result must be an object"),
    ],
)
def test_invalid_arguments_of_an_action_are_refused(baton: Connect, arguments: dict[str, Any], text: str) -> None:
    result = baton(orders_server()).call_workflow("refund_order", arguments)

    assert (result.is_error, result.structured) == (True, None)
    assert text.lower() in result.text.lower()
    assert result.text.endswith("Nothing was run.")


@pytest.mark.parametrize("empty", [None, ""])
def test_an_empty_action_counts_as_absent(baton: Connect, empty: str | None) -> None:
    run = baton(orders_server()).call_workflow("refund_order", {**ORDER, "task_action": empty, "task_result": None})

    assert run.completed


def test_an_action_cannot_run_as_a_task(baton: Connect) -> None:
    client = baton(orders_server(background=True), era="2025")

    with pytest.raises(JsonRpcError, match="task_action cannot run as a task"):
        client.request("tools/call", {"name": "refund_order", "arguments": {"task_action": "list"}, "task": {}})
    assert act(baton(orders_server(background=True), era="2026"), "list").text == "There are no tasks."


def test_the_board_and_its_text_contain_no_secrets(baton: Connect) -> None:
    server = Server("bank")
    pin = "hunter2-4711"

    @server.tool
    def login(pin: str) -> str:
        return "in"

    @server.tool
    def pay(pin: str, note: str) -> str:
        raise ToolError(f"refused with {pin}")

    steps = [
        ToolStep("login", tool="login", arguments={"pin": prompt_arg("pin")}),
        ToolStep("pay", tool="pay", arguments={"pin": prompt_arg("pin"), "note": constant("by {pin}")}),
    ]
    argument = Argument("pin", secret=True, required=True)
    server.add_workflow(Workflow(name="flow", description="pay", steps=steps, arguments=[argument]))
    client = baton(server)
    run = client.call_workflow("flow", {"pin": pin})
    view = client.call_workflow("flow", {"task_action": "show", "task_id": run.task_id})
    structure: Any = view.structured

    assert pin not in json.dumps(structure) + view.text
    login_step, pay_step = structure["board"]["steps"]
    assert login_step["arguments"] == {"pin": "<secret pin>"}
    assert pay_step["arguments"] == {"pin": "<secret pin>", "note": "by <secret pin>"}
    assert structure["board"]["secrets"] == ["pin"]
    assert view.text.endswith("Give pin again with it: secrets are not stored.")


def test_a_board_stays_within_the_size_that_hosts_show(baton: Connect) -> None:
    server = Server("s")

    @server.tool
    def work(number: int, note: str) -> str:
        return "x" * 1_900

    @server.tool
    def stop(ctx: Context) -> None:
        raise ToolError("y" * 10_000)

    def step(number: int) -> Step:
        return ToolStep(
            f"step {number}", tool="work", arguments={"number": constant(number), "note": constant("n" * 400)}
        )

    steps = [*map(step, range(49)), ToolStep("stop", tool="stop"), *map(step, range(50, 100))]
    server.add_workflow(Workflow(name="flow", description="work", steps=steps))
    client = baton(server)
    view = client.call_workflow("flow", {"task_action": "show", "task_id": client.call_workflow("flow").task_id})
    structure: Any = view.structured

    assert len(json.dumps(structure, separators=(",", ":")).encode()) <= MAX_TOTAL_BYTES
    step_views = structure["board"]["steps"]
    assert [step["name"] for step in step_views] == [step.name for step in steps]
    assert all(
        step["result"].keys() == {"bytes", "uri"} for step in step_views[:49] if isinstance(step["result"], dict)
    )
    # The first remaining call is always shown. The others are shown as far as they fit.
    assert structure["board"]["calls"][0]["tool"] == "stop"
    assert 1 < len(structure["board"]["calls"]) < 51


def test_a_list_names_the_tasks_that_fit_and_counts_the_others(baton: Connect) -> None:
    server = Server("s")
    name, waits = "w" * 64, [Wait(f"w{hours}", sleep=timedelta(hours=hours)) for hours in range(1, 9)]
    server.add_workflow(Workflow(name=name, description="work", steps=waits, parallel=8))
    client = baton(server)
    tasks = [client.call_workflow(name, {"task_id": "new"}).task_id for _ in range(9)]
    heading, *lines, rest = client.call_workflow(name, {"task_action": "list"}).text.splitlines()

    assert heading == "The newest 9 tasks:"
    assert all(line.endswith(f'; {{"task_id": "{task}"}}') for line, task in zip(lines, reversed(tasks), strict=False))
    assert (rest, len(lines)) == ("And 4 more.", 5)


def test_many_failed_steps_fit_into_a_board_and_a_list(baton: Connect) -> None:
    server = Server("s")

    @server.tool
    def fail(number: int) -> None:
        raise ToolError("y" * 10_000)

    steps = [ToolStep(f"s{number}", tool="fail", arguments={"number": constant(number)}) for number in range(100)]
    server.add_workflow(Workflow(name="flow", description="work", steps=steps, parallel=100))
    client = baton(server)
    view = client.call_workflow("flow", {"task_action": "show", "task_id": client.call_workflow("flow").task_id})
    structure: Any = view.structured

    assert view.text.endswith("to let the server continue.")
    assert len(json.dumps(structure)) <= MAX_TOTAL_BYTES + len(json.dumps(structure["pause_reasons"])) * 2 + 100 * 200
    listed = client.call_workflow("flow", {"task_action": "list"})
    assert "(toolError) at step" in listed.text


def test_show_tells_no_long_elements(baton: Connect) -> None:
    server = Server("s")

    @server.tool
    def fail(page: str) -> None:
        raise ToolError("no")

    step = ListStep("fail", tool="fail", arguments={"page": item()}, each=constant(["y" * 19_000] * 5))
    server.add_workflow(Workflow(name="flow", description="work", steps=[step]))
    client = baton(server)
    view = client.call_workflow("flow", {"task_action": "show", "task_id": client.call_workflow("flow").task_id})

    assert "A call of fail, whose arguments are too long to show here" in view.text
    assert len(view.text.encode()) <= 2_000


def test_show_is_one_read_even_if_values_are_outside_the_item(make_client: MakeClient, requests: Requests) -> None:
    client = make_client(large_server())
    task = client.get_prompt("flow").task_id
    requests.take()
    structure = client.call_tool("flow", {"task_id": task, "task_action": "show"}).result["structuredContent"]

    assert requests.take() == ["GetItem"]
    make_step, _, use_step = structure["board"]["steps"]
    assert make_step["result"]["bytes"] == make_step["bytes"] == 400_002
    assert use_step["arguments"] == {"text": "<output from make>"}
    # The argument is not missing, because the server replaces the placeholder.
    assert structure["board"]["calls"][1]["missing"] == []


def test_an_unavailable_store_is_reported_without_its_error_text(baton: Connect) -> None:
    client = baton(orders_server())
    run = paused_run(client)
    client.store.fails("GetItem", times=9)
    client.store.fails("Query", times=9)

    for result in (act(client, "show", run.task_id), act(client, "list")):
        assert result.is_error
        assert "cannot be read now" in result.text
        assert "later" in result.text


def test_a_background_run_is_listed_once(baton: Connect) -> None:
    client = baton(orders_server(background=True), era="2025")
    client.start_task("refund_order", ORDER).wait()

    call: dict[str, Any] = {"name": "refund_order", "arguments": {"task_action": "list"}}
    result: Any = client.request("tools/call", call)
    tasks = result["structuredContent"]["tasks"]

    assert [(task.get("workflow"), task.get("tool")) for task in tasks] == [("refund_order", None)]


def test_the_board_shows_answers(baton: Connect) -> None:
    server = Server("library")

    @server.workflow
    def borrow() -> None:
        ask_user("reader", "Who borrows it?")

    client = baton(server)
    task_id = client.call_workflow("borrow").answer(reader="Kim").task_id

    shown = show(client, task_id, "borrow")
    board = shown["board"]
    assert [(step["ask"], step["result"]) for step in board["steps"]] == [("user", "Kim")]
