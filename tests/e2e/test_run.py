"""A workflow prompt that runs: messages, `_meta` and task variables, exactly (docs/workflows.md)."""

import json
from typing import Any

import pytest

from mcp_baton import (
    Argument,
    Context,
    Server,
    Step,
    ToolError,
    Workflow,
    constant,
    prompt_arg,
    step_output,
    task_variable,
)
from tests.e2e.conftest import MakeClient
from tests.e2e.support import Client, Era, Table, related

ORDER = {"order_id": "A-17", "category": "refunds", "email": "kim@example.com", "lines": [{"total": 30.0}]}


def orders_server(**workflow: Any) -> Server:
    server = Server("orders", version="1.0.0")

    @server.tool
    def fetch_order(order_id: str) -> dict[str, Any]:
        """Fetch one order.

        With all of its lines.
        """
        return {**ORDER, "order_id": order_id}

    @server.tool
    async def refund(order_id: str, amount: float) -> dict[str, Any]:
        """Refund an amount."""
        return {"refunded": amount, "order": order_id}

    @server.tool
    def send_mail(to: str, text: str) -> str:
        """Send a mail."""
        return f"sent to {to}: {text}"

    @server.resource("docs://{topic}", mime_type="text/markdown")
    def docs(topic: str) -> str:
        return f"# About {topic}"

    server.add_workflow(
        Workflow(
            name="refund_order",
            description="refund an order",
            arguments=[Argument("order_id", "Order to refund", required=True), Argument("note", "For the customer")],
            steps=[
                Step("fetch", tool="fetch_order", arguments={"order_id": prompt_arg("order_id")}, binding="order"),
                Step(
                    "policy",
                    resources=["docs://{topic}"],
                    template_bindings={"topic": step_output("order", "category")},
                ),
                Step(
                    "refund",
                    tool="refund",
                    guidance="Refund no more than the total of {order_id}; {unknown} stays.",
                    arguments={"order_id": prompt_arg("order_id"), "amount": step_output("order", "lines.0.total")},
                ),
                Step(
                    "notify",
                    tool="send_mail",
                    resources=["docs://mail"],
                    arguments={"to": step_output("order", "email"), "text": constant("Refunded {order_id}, {unknown}")},
                ),
            ],
            **workflow,
        )
    )
    return server


FETCHED = {**ORDER, "order_id": "A-17"}
REFUNDED = {"refunded": 30.0, "order": "A-17"}
STEPS = [
    {"name": "fetch", "tool": "fetch_order", "status": "completed"},
    {"name": "policy", "status": "completed"},
    {"name": "refund", "tool": "refund", "status": "completed"},
    {"name": "notify", "tool": "send_mail", "status": "completed"},
]
CONVERSATION = [
    ("user", "I want to refund an order.\n\nArguments:\n- order_id: A-17"),
    (
        "assistant",
        """Here is the plan:

1. fetch_order: Fetch one order.
2. Read docs://{topic}
3. refund: Refund an amount.
4. send_mail: Send a mail.""",
    ),
    ("assistant", 'Calling fetch_order with {"order_id": "A-17"}'),
    ("user", f"Result from fetch_order: {json.dumps(FETCHED, separators=(',', ':'))}"),
    ("assistant", "Reading docs://refunds"),
    ("user", "Resource content from docs://refunds:\n# About refunds"),
    ("assistant", 'Refund no more than the total of "A-17"; {unknown} stays.'),
    ("assistant", 'Calling refund with {"order_id": "A-17", "amount": 30.0}'),
    ("user", 'Result from refund: {"refunded":30.0,"order":"A-17"}'),
    ("user", "Resource content from docs://mail:\n# About mail"),
    ("assistant", 'Calling send_mail with {"to": "kim@example.com", "text": "Refunded A-17, {unknown}"}'),
    ("user", "Result from send_mail: sent to kim@example.com: Refunded A-17, {unknown}"),
]


def completed(make_client: MakeClient, era: Era) -> tuple[Client, Any]:
    client = make_client(orders_server(), era=era)
    return client, client.get_prompt("refund_order", {"order_id": "A-17"})


def test_a_run_tells_intent_plan_and_each_step_in_order(make_client: MakeClient, era: Era) -> None:
    _, answer = completed(make_client, era)
    assert answer.conversation == CONVERSATION
    assert answer.result["description"] == "refund an order"


def test_the_meta_of_a_completed_run_is_exactly_task_status_and_steps(make_client: MakeClient, era: Era) -> None:
    _, answer = completed(make_client, era)
    assert answer.meta == {
        "task_id": answer.task_id,
        "task_status": "completed",
        "steps": [{"name": step["name"], "status": "completed"} for step in STEPS],
        **related(era, answer.task_id),
    }


def test_a_completed_run_leaves_exactly_its_progress_and_each_value_whole(make_client: MakeClient, era: Era) -> None:
    client, answer = completed(make_client, era)
    assert client.variables(answer.task_id) == {
        "_workflow.progress": {"goal": "refund_order: refund an order", "steps": STEPS, "schemaVersion": 1},
        "_workflow.result.fetch": FETCHED,
        "_workflow.result.policy": None,
        "_workflow.result.refund": REFUNDED,
        "_workflow.result.notify": "sent to kim@example.com: Refunded A-17, {unknown}",
    }


def test_a_completed_runs_result_says_how_many_steps_were_completed(make_client: MakeClient, table: Table) -> None:
    client, answer = completed(make_client, "2025")
    expected = {"completed": True, "steps_completed": 4}
    assert client.task("result", answer.task_id).result["result"] == expected
    assert client.in_era("2026").task("get", answer.task_id).result["result"] == expected
    assert table.statuses == ["completed"]


def test_a_workflow_that_is_not_durable_has_the_same_messages_and_no_task(
    make_client: MakeClient, era: Era, table: Table
) -> None:
    answer = make_client(orders_server(durable=False), era=era).get_prompt("refund_order", {"order_id": "A-17"})
    assert answer.conversation == CONVERSATION
    assert answer.meta == {}
    assert table.items == []


def test_a_task_begins_with_every_step_pending(make_client: MakeClient, table: Table) -> None:
    seen: list[Any] = []
    server = Server("s")

    @server.tool
    def look(ctx: Context) -> None:
        assert ctx.task is not None
        seen.append(dict(ctx.task))
        seen.append(table.statuses)

    steps = [Step("first", tool="look"), Step("second", tool="look"), Step("third", tool="look")]
    server.add_workflow(Workflow(name="flow", description="look", steps=steps))
    make_client(server).get_prompt("flow")
    progress = {
        "goal": "flow: look",
        "steps": [{"name": step.name, "tool": "look", "status": "pending"} for step in steps],
        "schemaVersion": 1,
    }
    # While the steps run nothing is written, so each of them finds the task as it began.
    assert seen == [{"_workflow.progress": progress}, ["working"]] * 3


def test_a_binding_is_the_steps_name_unless_it_is_given_another(make_client: MakeClient) -> None:
    server = Server("s")

    @server.tool
    def number() -> int:
        return 7

    @server.tool
    def double(value: int) -> int:
        return 2 * value

    steps = [
        Step("seven", tool="number"),
        Step("fourteen", tool="double", arguments={"value": step_output("seven")}, binding="doubled"),
        Step("twentyeight", tool="double", arguments={"value": step_output("doubled")}),
    ]
    server.add_workflow(Workflow(name="flow", description="double", steps=steps))
    client = make_client(server)
    variables = client.variables(client.get_prompt("flow").task_id)
    assert [variables[f"_workflow.result.{step.name}"] for step in steps] == [7, 14, 28]


def test_a_path_prefers_an_objects_key_to_an_index_and_follows_both(make_client: MakeClient) -> None:
    server = Server("s")

    @server.tool
    def nested() -> dict[str, Any]:
        return {"0": {"list": [["a"], ["b", {"c": 5}]]}}

    @server.tool
    def echo(value: Any) -> Any:
        return value

    steps = [
        Step("made", tool="nested"),
        Step("followed", tool="echo", arguments={"value": step_output("made", "0.list.1.1.c")}),
    ]
    server.add_workflow(Workflow(name="flow", description="follow", steps=steps))
    client = make_client(server)
    assert client.variables(client.get_prompt("flow").task_id)["_workflow.result.followed"] == 5


def test_prompt_arguments_are_converted_to_their_types_for_tools_and_stay_texts_in_texts(
    make_client: MakeClient,
) -> None:
    server = Server("s")

    @server.tool
    def echo(amount: float, tags: list[str], text: str) -> list[Any]:
        return [amount, tags, text]

    step = Step(
        "only",
        tool="echo",
        arguments={"amount": prompt_arg("amount"), "tags": prompt_arg("tags"), "text": constant("{amount} EUR")},
        guidance="Not above {amount}.",
    )
    declared = [Argument("amount", "EUR", required=True, type=float), Argument("tags", "Tags", type=list[str])]
    server.add_workflow(Workflow(name="flow", description="echo", arguments=declared, steps=[step]))
    client = make_client(server)
    answer = client.get_prompt("flow", {"amount": "30", "tags": '["a", "b"]'})
    assert client.variables(answer.task_id)["_workflow.result.only"] == [30.0, ["a", "b"], "30 EUR"]
    assert ("assistant", 'Not above "30".') in answer.conversation


def test_a_default_is_converted_and_used_as_if_it_had_been_given(make_client: MakeClient) -> None:
    server = Server("s")

    @server.tool
    def echo(amount: float, tags: list[str], text: str) -> list[Any]:
        return [amount, tags, text]

    step = Step(
        "only",
        tool=echo,
        arguments={"amount": prompt_arg("amount"), "tags": prompt_arg("tags"), "text": constant("{amount} EUR")},
    )
    declared = [Argument("amount", "EUR", type=float, default=30), Argument("tags", type=list[str], default=["a"])]
    server.add_workflow(Workflow(name="flow", description="echo", arguments=declared, steps=[step]))
    client = make_client(server)

    left_out, given = client.get_prompt("flow", {}), client.get_prompt("flow", {"amount": "7", "tags": "[]"})

    assert client.variables(left_out.task_id)["_workflow.result.only"] == [30.0, ["a"], "30 EUR"]
    assert client.variables(given.task_id)["_workflow.result.only"] == [7.0, [], "7 EUR"]
    assert left_out.conversation[0][1].endswith('- amount: 30\n- tags: ["a"]')


def test_a_step_whose_tool_is_a_function_calls_the_tool_that_it_is_published_as(make_client: MakeClient) -> None:
    server = Server("s")

    def look(at: str = "") -> dict[str, str]:
        return {"seen": at}

    def fail() -> None:
        raise ToolError("no")

    steps = [Step("look", tool=look), Step("again", tool=look), Step("last", tool=fail)]
    server.add_workflow(Workflow(name="flow", description="look", steps=steps))
    server.tool(name="glance")(look)
    server.tool(fail)
    client = make_client(server)

    answer = client.get_prompt("flow", {})

    progress = client.variables(answer.task_id)["_workflow.progress"]
    assert [step["tool"] for step in progress["steps"]] == ["glance", "glance", "fail"]
    assert answer.meta["pause_reason"]["suggestedTool"] == "fail"
    assert "1. Call fail with {}" in answer.handoff
    assert client.get_prompt("flow", {}, task=answer.task_id).statuses == ["completed", "completed", "failed"]


def test_a_variable_that_a_tool_sets_can_be_the_source_of_a_later_steps_argument(make_client: MakeClient) -> None:
    server = Server("s")

    @server.tool
    def remember(ctx: Context) -> None:
        assert ctx.task is not None
        ctx.task["customer"] = {"names": ["Kim", "Zoë"]}

    @server.tool
    def greet(name: str) -> str:
        return f"Hello {name}"

    steps = [
        Step("first", tool="remember"),
        Step("second", tool="greet", arguments={"name": task_variable("customer", "names.1")}),
    ]
    server.add_workflow(Workflow(name="flow", description="greet", steps=steps))
    client = make_client(server)
    variables = client.variables(client.get_prompt("flow").task_id)
    assert variables["customer"] == {"names": ["Kim", "Zoë"]}
    assert variables["_workflow.result.second"] == "Hello Zoë"


def test_a_tool_without_a_task_has_no_variables(make_client: MakeClient) -> None:
    server = Server("s")

    @server.tool
    def look(ctx: Context) -> bool:
        return ctx.task is None

    server.add_workflow(Workflow(name="plain", description="look", steps=[Step("a", tool="look")], durable=False))
    client = make_client(server)
    assert client.get_prompt("plain").conversation[-1] == ("user", "Result from look: true")
    assert client.call_tool("look").result["structuredContent"] == {"result": True}


def test_each_step_is_announced_when_it_begins_and_the_first_names_the_task_if_the_client_asked(
    make_client: MakeClient, era: Era
) -> None:
    client = make_client(orders_server(), era=era)
    answer = client.get_prompt("refund_order", {"order_id": "A-17"}, meta={"progressToken": "t-1"})
    first, *others = [
        {"progressToken": "t-1", "progress": number, "total": 4, "message": f"Step {number}/4: {name}"}
        for number, name in enumerate(["fetch", "policy", "refund", "notify"], 1)
    ]
    assert answer.notifications == [first | {"_meta": {"task_id": answer.task_id}}, *others]
    assert answer.conversation == CONVERSATION


def test_nothing_is_announced_to_a_client_that_did_not_ask(make_client: MakeClient, era: Era) -> None:
    _, answer = completed(make_client, era)
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.notifications == []


def test_a_tools_own_progress_moves_the_runs_within_its_step(make_client: MakeClient) -> None:
    server = Server("s")

    @server.tool
    def work(ctx: Context) -> None:
        ctx.report_progress(1, 2, "half way")

    steps = [Step("first", tool="work"), Step("second", tool="work")]
    server.add_workflow(Workflow(name="flow", description="work", steps=steps))
    told = make_client(server).get_prompt("flow", meta={"progressToken": 5}).notifications
    assert [item["message"] for item in told] == ["Step 1/2: first", "half way", "Step 2/2: second", "half way"]
    assert all(item["progressToken"] == 5 and item["total"] == 2 for item in told)
    progress = [item["progress"] for item in told]
    assert progress == sorted(set(progress))
    assert (progress[0], progress[2]) == (1, 2)


@pytest.mark.parametrize(("asked", "granted"), [(None, 3_600_000), (60_000, 60_000), (10**12, 86_400_000)])
def test_a_tasks_lifetime_is_the_clients_up_to_the_operators_maximum(
    make_client: MakeClient, asked: int | None, granted: int
) -> None:
    client = make_client(orders_server())
    params = {"name": "refund_order", "arguments": {"order_id": "A"}, **({"task": {"ttl": asked}} if asked else {})}
    answer = client.request("prompts/get", params)
    assert client.task("get", answer.task_id).result["ttl"] == granted
    assert client.in_era("2026").task("get", answer.task_id).result["ttlMs"] == granted


def test_every_write_keeps_the_lifetime(make_client: MakeClient, table: Table) -> None:
    client = make_client(orders_server())
    params = {"name": "refund_order", "arguments": {"order_id": "A"}, "task": {"ttl": 60_000}}
    answer = client.request("prompts/get", params)
    item = table.item(answer.task_id)
    assert item["version"] == {"N": "2"}
    assert item["ttl_ms"] == {"N": "60000"}
