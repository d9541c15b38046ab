"""Workflows that are called as a tool, for hosts whose models only call tools (docs/workflows.md, As a tool).

The texts and the list entry of a workflow tool are tested in tests/present/test_tool_result.py and
tests/workflow/test_workflow_tool_listing.py.
"""

import json
from typing import Any

import pytest
from jsonschema_rs import validator_for
from msgspec import structs

from mcp_baton import Argument, Fetch, Retry, Server, ToolError, ToolStep, Workflow, constant, prompt_arg, step_output
from mcp_baton.tasks.ids import new_task_id
from mcp_baton.testing import Client, Connect, Era, JsonRpcError, Run
from mcp_baton.tools.arguments import TASK_ARGUMENT
from mcp_baton.tools.published_schema import optional_parameter
from mcp_baton.workflow.sources import Source
from tests.support import client as handler_client
from tests.support.client import Sink
from tests.support.handler import MakeClient

ORDER = {"order_id": "A-17"}
DENIED = "AccessDeniedException"
ALL_STEPS = {"fetch": "completed", "policy": "completed", "refund": "completed", "notify": "completed"}


def orders_server(**options: Any) -> Server:
    """Return a server with the steps fetch, policy, refund and notify. `options` are those of the workflow."""
    server = Server("orders")

    @server.tool(annotations={"readOnlyHint": True})
    def fetch_order(order_id: str) -> dict[str, Any]:
        """Fetch one order."""
        return {"total": 30.0, "email": "kim@example.com"}

    @server.tool
    def refund(order_id: str, amount: float, note: str | None = "none") -> dict[str, Any]:
        """Refund an order."""
        return {"id": f"R-{order_id}", "amount": amount, "note": note}

    @server.tool
    def send_mail(to: str, text: str) -> dict[str, str]:
        """Send a mail."""
        return {"to": to, "text": text}

    @server.resource("docs://policy")
    def policy() -> str:
        return "Be kind."

    arguments = [
        Argument("order_id", "The order.", required=True),
        Argument("amount", type=float),
        Argument("note", type=str | None),
        Argument("copies", type=int, default=1),
    ]
    refund_arguments: dict[str, Source] = {
        "order_id": prompt_arg("order_id"),
        "amount": step_output("fetch", "total"),
        "note": prompt_arg("note"),
    }
    steps = [
        ToolStep("fetch", tool="fetch_order", arguments={"order_id": prompt_arg("order_id")}),
        Fetch("policy", resources=["docs://policy"]),
        ToolStep("refund", tool="refund", arguments=refund_arguments, guidance="Mind {order_id}."),
        ToolStep(
            "notify",
            tool="send_mail",
            arguments={"to": step_output("fetch", "email"), "text": constant("Refunded {order_id}")},
        ),
    ]
    definition: dict[str, Any] = {"arguments": arguments, "steps": steps, **options}
    server.add_workflow(Workflow(name="refund_order", description="refund an order", **definition))
    return server


def paused_run(client: Client, tool: str = "refund", error: str = "no", **arguments: Any) -> Run:
    """Return a run that stopped at this tool. The tool fails only once."""
    client.tool_raises(tool, error, times=1)
    run = client.call_workflow("refund_order", {**ORDER, **arguments})
    assert (run.paused, run.is_error) == (True, False)
    return run


def structure(run: Run) -> Any:
    assert run.structured is not None
    return run.structured


def tool_entry(client: Client, name: str = "refund_order") -> dict[str, Any]:
    return next(tool for tool in client.list_tools() if tool["name"] == name)


def test_a_workflow_tool_is_listed_with_a_description_and_a_schema(baton: Connect, era: Era) -> None:
    tool = tool_entry(baton(orders_server(), era=era))
    assert tool["title"] == "Refund an order"
    assert tool["description"].startswith(
        "Refund an order. The server runs 4 steps: 1. fetch: Fetch one order. 2. policy:"
    )
    assert tool["description"].endswith("to let the server continue.")
    assert tool["annotations"] == {
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": False,
        "openWorldHint": True,
    }
    assert "execution" not in tool  # so clients cannot call it as a task
    assert tool["inputSchema"] == {
        "type": "object",
        "properties": {
            "order_id": optional_parameter(
                {"type": "string", "description": "The order; required unless task_id is given"}
            ),
            "amount": optional_parameter({"type": "number"}),
            "note": optional_parameter({"type": "string"}),
            "copies": optional_parameter({"type": "integer", "default": 1}),
            "task_id": optional_parameter(
                {
                    "type": "string",
                    "description": TASK_ARGUMENT.description,
                }
            ),
        },
    }


def test_a_workflow_tool_runs_to_its_end(baton: Connect, era: Era) -> None:
    client = baton(orders_server(), era=era)
    run = client.call_workflow("refund_order", ORDER)
    assert run.text == 'Done: 4 of 4 steps.\nResult of send_mail: {"to": "kim@example.com", "text": "Refunded A-17"}'
    assert run.structured == {
        "message": run.text,
        "task_id": run.task_id,
        "task_status": "completed",
        "steps": [{"name": name, "status": status} for name, status in ALL_STEPS.items()],
        "results": {
            "fetch": {"total": 30.0, "email": "kim@example.com"},
            "refund": {"id": "R-A-17", "amount": 30.0, "note": "none"},
            "notify": {"to": "kim@example.com", "text": "Refunded A-17"},
        },
        "next": [],
    }
    assert (run.completed, client.task(run.task_id).status) == (True, "completed")


def test_a_workflow_tool_pauses_with_the_remaining_calls_and_continues(baton: Connect) -> None:
    client = baton(orders_server())
    run = paused_run(client)
    task_arguments = json.dumps({"task_id": run.task_id})
    assert run.text == (
        f"""Step 'refund' failed: "no". This step is not retryable: correct the cause first.

To continue the workflow, make these tool calls:

1. Call refund with {{"order_id": "A-17", "amount": 30.0, "task_id": "{run.task_id}/refund"}}
   Note: Mind "A-17".

Then call refund_order with {task_arguments} to let the server continue.
Resource docs://policy"""
    )
    _, link = run.messages
    assert link.content == {"type": "text", "text": "Resource docs://policy"}
    assert structure(run)["pause_reason"] == run.pause.to_dict()
    assert run.next == [
        {"tool": "refund_order", "arguments": {"task_id": run.task_id}}
    ]  # the failed call would fail again
    second_run = client.call_workflow("refund_order", task=run.task_id)
    assert (second_run.steps, second_run.completed, second_run.task_id) == (ALL_STEPS, True, run.task_id)
    assert len(client.calls("fetch_order")) == 1


def test_arguments_are_json_and_those_of_the_first_call_are_stored(baton: Connect) -> None:
    arguments = {"order_id": prompt_arg("order_id"), "amount": prompt_arg("amount"), "note": prompt_arg("note")}
    client = baton(orders_server(steps=[ToolStep("refund", tool="refund", arguments=arguments)]))
    run = paused_run(client, amount=12, note=None)
    assert client.call_workflow("refund_order", task=run.task_id).completed
    assert client.calls("refund") == [{"order_id": "A-17", "amount": 12.0, "note": None}] * 2
    run = paused_run(client, amount="7.5", note="null")
    assert client.call_workflow("refund_order", {"amount": 8.0}, task=run.task_id).completed
    assert client.calls("refund")[2:] == [
        {"order_id": "A-17", "amount": 7.5, "note": "null"},
        {"order_id": "A-17", "amount": 8.0, "note": "null"},
    ]


NO_TASK = "There is no such task"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "Missing: order_id (required unless task_id is given). Nothing was run."),
        ({"order_id": None}, "Missing: order_id (required unless task_id is given). Nothing was run."),
        ({"order_id": 5}, "The argument 'order_id' does not convert"),
        ({**ORDER, "amount": "much"}, "The argument 'amount' does not convert"),
        (
            {**ORDER, "orderId": 1},
            'Unknown arguments: "orderId"; refund_order takes order_id, amount, note, copies, task_id.',
        ),
        ({"task_id": 7}, "task_id must be a text"),
        ({"task_id": new_task_id(0)}, NO_TASK),
        ({"task_id": "<task_id>"}, NO_TASK),
    ],
)
def test_a_call_that_cannot_run_names_the_correction(baton: Connect, arguments: dict[str, Any], text: str) -> None:
    client = baton(orders_server())
    run = client.call_workflow("refund_order", arguments)
    assert (run.is_error, run.structured, len(run.messages)) == (True, None, 1)
    assert run.text.startswith(text)
    assert "Nothing was run" in run.text
    assert (client.calls("fetch_order"), client.tasks()) == ([], [])


def test_a_task_may_be_named_in_meta_and_two_tasks_in_one_call_are_refused(baton: Connect) -> None:
    client = baton(orders_server())
    first_run, second_run = paused_run(client), paused_run(client)
    result = client.call_tool("refund_order", {"task_id": first_run.task_id}, task=second_run.task_id)
    assert (result.is_error, result.structured) == (True, None)
    assert "keep one of them. Nothing was run." in result.text
    assert client.call_tool("refund_order", {"task_id": first_run.task_id}, task=first_run.task_id).is_error is False
    assert client.call_tool("refund_order", {}, task=second_run.task_id).text.startswith("Done: 4 of 4 steps.")


def test_a_task_of_another_workflow_is_refused_and_the_error_names_its_tool(baton: Connect) -> None:
    server = orders_server()
    server.add_workflow(Workflow(name="mail", description="mail", steps=[ToolStep("one", tool="send_mail")]))
    client = baton(server)
    run = paused_run(client)
    result = client.call_workflow("mail", task=run.task_id)
    assert result.is_error
    assert result.text.endswith("Nothing was run: call refund_order with this task_id.")
    assert client.call_workflow("refund_order", task=run.task_id).completed


def test_a_task_id_in_quotes_or_capitals_means_its_task(baton: Connect) -> None:
    client = baton(orders_server())
    run = paused_run(client)
    assert client.call_tool("refund", {**ORDER, "amount": 1, "task_id": f"<{run.task_id}/refund>"}).meta["recorded"]
    assert client.call_workflow("refund_order", task=f'"{run.task_id.upper()}".').completed


def test_a_changed_workflow_names_the_changed_completed_steps(baton: Connect) -> None:
    client = baton(orders_server())
    run = paused_run(client)
    steps = [
        ToolStep("fetch", tool="fetch_order", arguments={"order_id": constant("B")}),
        ToolStep("refund", tool="refund"),
    ]
    result = client.deployed(orders_server(steps=steps)).call_workflow("refund_order", task=run.task_id)
    assert result.is_error
    assert "in steps that it has completed: fetch, policy. Nothing was run" in result.text
    assert client.call_workflow("refund_order", task=run.task_id).completed


def test_a_call_with_a_task_that_another_run_holds_must_be_repeated_later(baton: Connect) -> None:
    client = baton(orders_server())
    run = paused_run(client)
    replies: list[Run] = []
    client.during("refund", lambda: replies.append(client.call_workflow("refund_order", task=run.task_id)))
    assert client.call_workflow("refund_order", task=run.task_id).completed
    [reply] = replies
    assert (reply.is_error, reply.completed, reply.paused) == (False, False, False)
    assert "Nothing was run: make the same call again in 45 s." in reply.text
    assert str(structure(reply)["running_until"]) in reply.text
    assert reply.next == [{"tool": "refund_order", "arguments": {"task_id": run.task_id}}]
    assert len(client.calls("refund")) == 2


def test_a_call_with_an_ended_task_shows_its_outcome_and_runs_nothing(baton: Connect) -> None:
    client = baton(orders_server())
    run = client.call_workflow("refund_order", ORDER)
    reply = client.call_workflow("refund_order", task=run.task_id)
    assert reply.text == (
        "Done: 4 of 4 steps. This task is completed; nothing was run.\n"
        'Result of send_mail: {"to": "kim@example.com", "text": "Refunded A-17"}'
    )
    assert {**structure(reply), "message": ""} == {**structure(run), "message": ""}
    completed_task, cancelled_task = paused_run(client).task_id, paused_run(client).task_id
    client.complete(completed_task, {"paid": "in cash"})
    client.cancel(cancelled_task)
    reply = client.call_workflow("refund_order", task=completed_task)
    assert '\nResult of the task, which a client supplied: {"paid": "in cash"}\n' in reply.text
    assert (reply.steps["refund"], reply.completed) == ("failed", True)
    assert client.call_workflow("refund_order", task=cancelled_task).text.startswith("This task is cancelled;")
    assert len(client.calls("send_mail")) == 1


def test_long_results_are_resources_and_the_structured_content_stays_small(baton: Connect) -> None:
    client = baton(orders_server())
    client.tool_returns("fetch_order", {"total": 1.0, "email": "k", "text": "x" * 50_000})
    run = client.call_workflow("refund_order", ORDER)
    note = structure(run)["results"]["fetch"]
    assert note["bytes"] > 50_000
    [_, link] = run.messages
    assert link.content == {"type": "text", "text": f"Resource {note['uri']}: result of fetch"}
    assert json.loads(client.read_resource(note["uri"]).text)["text"] == "x" * 50_000
    assert structure(client.call_workflow("refund_order", task=run.task_id))["results"]["fetch"] == note
    assert len(json.dumps(run.structured)) < 3_000


def test_the_structure_matches_its_schema_and_has_the_text(baton: Connect) -> None:
    client = baton(orders_server())

    def run_to_end() -> Run:
        return client.call_workflow("refund_order", ORDER)

    states = {"completed": run_to_end(), "paused": paused_run(client), "blocked": paused_run(client, "fetch_order")}
    states["over"] = client.call_workflow("refund_order", task=states["completed"].task_id)
    client.cancel(states["paused"].task_id)
    states["cancelled"] = client.call_workflow("refund_order", task=states["paused"].task_id)
    # The start of the call, and the state of its task.
    client.store.fails("UpdateItem", times=2, error=DENIED)
    states["not written"] = paused_run(client)
    client.store.fails("PutItem", error=DENIED)
    states["no task"] = run_to_end()

    schema = tool_entry(client)["outputSchema"]
    for state, run in states.items():
        validator_for(schema).validate(run.structured)
        assert structure(run)["message"] == run.messages[0].text, state
        assert set(structure(run)) <= set(schema["properties"]), state
        assert len(run.text.encode()) < 2_048, state
    assert states["not written"].meta["persisted"] is False
    assert "if the server went on, it would repeat steps 'fetch' (idempotency key " in states["not written"].text


def test_each_handshake_revision_has_workflow_tools_whose_results_have_only_texts(make_client: MakeClient) -> None:
    server = orders_server()
    client = make_client(server)
    server.tools["fetch_order"].function = lambda **_: {"total": 1.0, "email": "k", "text": "x" * 5_000}
    for revision in ("2025-03-26", "2025-06-18", "2025-11-25"):
        headers = {"MCP-Protocol-Version": revision}
        answer = client.request("tools/call", {"name": "refund_order", "arguments": ORDER}, headers=headers)
        assert [block["type"] for block in answer.result["content"]] == ["text", "text"]
        tools = client.request("tools/list", headers=headers).result["tools"]
        assert (
            tools[-1]["name"] == "refund_order"
        )  # the harness also validates the messages against the revision's schema


def slow_client(make_client: MakeClient, **options: Any) -> handler_client.Client:
    """Return a client of a workflow with four steps of 30 seconds each. `options` are those of the server."""
    server, clock = Server("slow", **options), [0.0]

    @server.tool
    def work() -> int:
        clock[0] += 30
        return 1

    server.add_workflow(
        Workflow(name="flow", description="flow", steps=[ToolStep(name, tool="work") for name in "abcd"])
    )
    return make_client(server, clock=lambda: clock[0], remaining_ms=lambda: 900_000)


def test_a_call_pauses_after_the_reply_budget(make_client: MakeClient) -> None:
    client = slow_client(make_client)
    for meta in ({}, {"progressToken": "p"}):
        answer = client.call_tool("flow", meta=meta)
        assert answer.statuses == ["completed", "completed", "pending", "pending"]
        assert answer.meta["pause_reason"] == {"type": "deadlineExceeded", "blockedStep": "c", "suggestedTool": "work"}
        assert client.call_tool("flow", {"task_id": answer.task_id}).statuses == ["completed"] * 4
    limited_client = slow_client(make_client, reply_budget_s=20)
    assert limited_client.call_tool("flow").statuses == ["completed", "pending", "pending", "pending"]


def test_a_prompt_without_progress_pauses_after_the_reply_budget(make_client: MakeClient, submit: Any) -> None:
    client = slow_client(make_client)
    assert client.get_prompt("flow").meta["pause_reason"]["type"] == "deadlineExceeded"
    # Without streaming, the client gets no progress, so the budget applies all the same.
    assert client.get_prompt("flow", meta={"progressToken": "p"}).meta["pause_reason"]["type"] == "deadlineExceeded"
    sink = Sink()
    submit(sink, lambda: client.get_prompt("flow", meta={"progressToken": "p"})).result()
    while "result" not in (message := sink.next()):
        pass
    assert message["result"]["_meta"]["task_status"] == "completed"


def test_no_further_attempt_is_made_after_the_reply_budget(baton: Connect) -> None:
    server = Server("s")

    @server.tool
    def work() -> None:
        raise ToolError("no")

    steps = [ToolStep("a", tool="work", retry=Retry(attempts=9, first_s=20, factor=1, jitter=False))]
    server.add_workflow(Workflow(name="flow", description="flow", steps=steps))
    client = baton(server)
    client.remaining_s(900)
    assert client.call_workflow("flow").pause.type == "toolError"
    assert len(client.calls("work")) == 3


@pytest.mark.parametrize("tool", [True, False])
def test_a_prompt_names_its_task_in_text_with_the_option_task_ids(baton: Connect, era: Era, tool: bool) -> None:
    server = orders_server(tool=tool)
    server.options = structs.replace(server.options, task_ids="text")
    client = baton(server, era=era)
    client.tool_raises("refund", "no", times=1)
    run = client.get_prompt("refund_order", ORDER)
    task = f'{{"task_id": "{run.task_id}"}}'
    assert (
        f'1. Call refund with {{"order_id": "A-17", "amount": 30.0, "task_id": "{run.task_id}/refund"}}' in run.handoff
    )
    next_call = f"Then call refund_order with {task}" if tool else f"Or get the prompt refund_order with {task}"
    assert run.handoff.endswith(f"{next_call} to let the server continue.")
    second_run = client.get_prompt("refund_order", {**ORDER, "task_id": run.task_id})
    assert (second_run.task_id, second_run.completed) == (run.task_id, True)
    prompts: Any = client.request("prompts/list")["prompts"]
    assert prompts[0]["arguments"][-1] == {
        "name": "task_id",
        "description": "The task_id of an earlier result, to continue that task. Leave it out to start anew.",
        "required": False,
    }
    assert client.get_prompt("refund_order", {**ORDER, "task_id": ""}).task_id != run.task_id
    params = {"ref": {"type": "ref/prompt", "name": "refund_order"}, "argument": {"name": "task_id", "value": ""}}
    assert client.request("completion/complete", params)["completion"]


def test_a_prompt_does_not_name_its_task_in_text_by_default(baton: Connect) -> None:
    client = baton(orders_server())
    client.tool_raises("refund", "no", times=1)
    run = client.get_prompt("refund_order", ORDER)
    assert not [message for message in run.messages if run.task_id in message.text]
    prompts: Any = client.request("prompts/list")["prompts"]
    assert [argument["name"] for argument in prompts[0]["arguments"]] == ["order_id", "amount", "note", "copies"]
    with pytest.raises(JsonRpcError, match="unknown argument 'task_id'"):
        client.get_prompt("refund_order", {**ORDER, "task_id": run.task_id})


def test_a_prompt_that_names_two_tasks_is_refused(baton: Connect) -> None:
    server = orders_server()
    server.options = structs.replace(server.options, task_ids="text")
    client = baton(server)
    first_run, second_run = paused_run(client), paused_run(client)
    with pytest.raises(JsonRpcError, match="keep one of them"):
        client.get_prompt("refund_order", {"task_id": first_run.task_id}, second_run.task_id)


def test_prompt_and_tool_continue_each_others_tasks(baton: Connect) -> None:
    client = baton(orders_server())
    client.tool_raises("refund", "no", times=2)
    prompt_run, tool_run = client.get_prompt("refund_order", ORDER), client.call_workflow("refund_order", ORDER)
    assert client.call_workflow("refund_order", task=prompt_run.task_id).completed
    assert client.resume(tool_run.task_id).completed
