"""Where a run stops: the five pause reasons, field by field, what is stored, and the handoff (docs/workflows.md)."""

from collections.abc import Callable
from typing import Annotated, Any, cast

import pytest
from pydantic import AfterValidator, BaseModel, Field

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
from mcp_baton.workflow.sources import Source
from tests.e2e.conftest import MakeClient
from tests.e2e.support import Answer, Client, Clock, Era, Table, related

NEXT = "To continue the workflow, make these tool calls:"


def refunds_server(refund: Callable[..., object], **step: Any) -> Server:
    """Fetch, refund, notify; the test says what `refund` is and how its step is declared."""
    server = Server("orders")

    @server.tool
    def fetch_order(order_id: str) -> dict[str, Any]:
        return {"total": 30.0, "email": "kim@example.com", "id": order_id}

    @server.tool
    def send_mail(to: str, text: str) -> str:
        return f"{to}: {text}"

    server.tool(name="refund")(refund)
    refund_arguments: dict[str, Source] = {"order_id": prompt_arg("order_id"), "amount": step_output("fetch", "total")}
    mail_arguments: dict[str, Source] = {"to": step_output("fetch", "email"), "text": constant("Refunded {order_id}")}
    server.add_workflow(
        Workflow(
            name="refund_order",
            description="refund an order",
            arguments=[Argument("order_id", "Order", required=True), Argument("amount", "EUR", type=float)],
            steps=[
                Step("fetch", tool="fetch_order", arguments={"order_id": prompt_arg("order_id")}),
                Step("refund", tool="refund", **{"arguments": refund_arguments, **step}),
                Step("notify", tool="send_mail", arguments=mail_arguments),
            ],
        )
    )
    return server


def refund_fails(order_id: str, amount: float) -> None:
    raise ToolError("connection timeout")


def run(client: Client, **arguments: str) -> Answer:
    return client.get_prompt("refund_order", {"order_id": "A-17", **arguments})


def assert_paused(client: Client, answer: Answer, reason: dict[str, Any], statuses: list[str]) -> None:
    """The reply and the store say the same: where it stopped, why, and that it waits."""
    names = ["fetch", "refund", "notify"]
    assert answer.meta == {
        "task_id": answer.task_id,
        "task_status": "working",
        "steps": [{"name": name, "status": status} for name, status in zip(names, statuses, strict=True)],
        "pause_reason": reason,
        **related(client.era, answer.task_id),
    }
    shown = client.task("get", answer.task_id)
    assert shown.result["status"] == "working"
    assert shown.meta["_workflow.pause_reason"] == reason
    assert [step["status"] for step in shown.meta["_workflow.progress"]["steps"]] == statuses


@pytest.mark.parametrize("retryable", [True, False])
def test_a_tool_error_fails_its_step_and_pauses(make_client: MakeClient, era: Era, retryable: bool) -> None:
    client = make_client(refunds_server(refund_fails, retryable=retryable), era=era)
    answer = run(client)
    reason = {
        "type": "toolError",
        "failedStep": "refund",
        "error": "connection timeout",
        "retryable": retryable,
        "suggestedTool": "refund",
    }
    assert_paused(client, answer, reason, ["completed", "failed", "pending"])
    variables = client.variables(answer.task_id)
    assert variables["_workflow.result.refund"] == {"error": "connection timeout"}
    assert "_workflow.result.notify" not in variables
    assert answer.conversation[-3:-1] == [
        ("assistant", 'Calling refund with {"order_id": "A-17", "amount": 30.0}'),
        ("user", "Error from refund: connection timeout"),
    ]


def test_the_handoff_is_as_the_contract_shows_it(make_client: MakeClient) -> None:
    guidance = "Refund no more than the order's total for {order_id}."
    answer = run(make_client(refunds_server(refund_fails, retryable=True, guidance=guidance)))
    assert answer.handoff == (
        "Step 'refund' failed: \"connection timeout\". This step is retryable.\n\n"
        "To continue the workflow, make these tool calls:\n\n"
        '1. Call refund with {"order_id": "A-17", "amount": 30.0}\n'
        '   Note: Refund no more than the order\'s total for "A-17".\n\n'
        '2. Call send_mail with {"to": "kim@example.com", "text": "Refunded A-17"}'
    )
    assert answer.task_id not in answer.handoff


def test_a_failure_that_is_not_retryable_is_handed_off_with_the_cause_to_be_corrected(make_client: MakeClient) -> None:
    answer = run(make_client(refunds_server(refund_fails)))
    first, heading, *_ = answer.handoff.split("\n\n")
    assert "connection timeout" in first
    assert "correct the cause first" in first
    assert heading == NEXT


def test_any_exception_of_a_tool_is_a_tool_error(make_client: MakeClient, era: Era) -> None:
    async def refund(order_id: str, amount: float) -> None:
        raise KeyError(order_id)

    client = make_client(refunds_server(refund), era=era)
    answer = run(client)
    assert answer.meta["pause_reason"]["type"] == "toolError"
    assert answer.meta["pause_reason"]["error"] == "internal error in refund (id api-1)"


def test_a_value_that_is_not_what_the_tool_declares_is_a_tool_error(make_client: MakeClient) -> None:
    def refund(order_id: str, amount: float) -> int:
        return cast("int", "many")

    answer = run(make_client(refunds_server(refund)))
    assert answer.meta["pause_reason"]["type"] == "toolError"
    assert answer.statuses == ["completed", "failed", "pending"]


def test_a_path_that_the_output_lacks_is_unresolvable_params(make_client: MakeClient, era: Era) -> None:
    arguments = {"order_id": prompt_arg("order_id"), "amount": step_output("fetch", "lines.0.total")}
    client = make_client(refunds_server(refund_fails, arguments=arguments), era=era)
    answer = run(client)
    reason = {
        "type": "unresolvableParams",
        "blockedStep": "refund",
        "missingParam": "amount",
        "suggestedTool": "refund",
    }
    assert_paused(client, answer, reason, ["completed", "pending", "pending"])
    assert "_workflow.result.refund" not in client.variables(answer.task_id)
    assert "'refund'" in answer.handoff.split("\n\n")[0]
    assert "'amount'" in answer.handoff.split("\n\n")[0]
    assert (
        '1. Call refund with {"order_id": "A-17", "amount": "<field \'lines.0.total\' from fetch_order>"}'
        in answer.handoff
    )


def test_a_task_variable_that_nobody_set_is_unresolvable_params(make_client: MakeClient) -> None:
    arguments = {"order_id": prompt_arg("order_id"), "amount": task_variable("agreed")}
    answer = run(make_client(refunds_server(refund_fails, arguments=arguments)))
    assert answer.meta["pause_reason"]["type"] == "unresolvableParams"
    assert answer.meta["pause_reason"]["missingParam"] == "amount"


class Transfer(BaseModel):
    """Where money goes."""

    iban: str
    amount: Annotated[float, Field(gt=0)]


def refund_by_transfer(order_id: str, transfer: Transfer) -> str:
    return f"{order_id} {transfer.amount}"


def test_arguments_that_do_not_satisfy_the_schema_are_a_schema_mismatch(make_client: MakeClient, era: Era) -> None:
    arguments = {"transfer": constant({"iban": 5, "amount": -1})}
    client = make_client(refunds_server(refund_by_transfer, arguments=arguments), era=era)
    answer = run(client)
    problems = [item["problem"] for item in answer.meta["pause_reason"]["invalidFields"]]
    assert all(isinstance(problem, str) and problem for problem in problems)
    reason = {
        "type": "schemaMismatch",
        "blockedStep": "refund",
        "missingFields": ["order_id"],
        "invalidFields": [
            {"field": field, "problem": problem}
            for field, problem in zip(["transfer.iban", "transfer.amount"], problems, strict=True)
        ],
        "suggestedTool": "refund",
    }
    assert_paused(client, answer, reason, ["completed", "pending", "pending"])
    first = answer.handoff.split("\n\n")[0]
    assert all(field in first for field in ("order_id", "transfer.iban", "transfer.amount", *problems))
    assert '"order_id": "<missing: order_id>"' in answer.handoff


def test_an_absent_optional_prompt_argument_that_the_tool_requires_is_a_schema_mismatch(
    make_client: MakeClient, era: Era
) -> None:
    arguments = {"order_id": prompt_arg("order_id"), "amount": prompt_arg("amount")}
    client = make_client(refunds_server(refund_fails, arguments=arguments), era=era)
    answer = run(client)
    reason = {
        "type": "schemaMismatch",
        "blockedStep": "refund",
        "missingFields": ["amount"],
        "invalidFields": [],
        "suggestedTool": "refund",
    }
    assert_paused(client, answer, reason, ["completed", "pending", "pending"])
    assert '1. Call refund with {"order_id": "A-17", "amount": "<prompt arg amount>"}' in answer.handoff


def test_an_absent_optional_prompt_argument_that_the_tool_does_not_require_is_left_out(
    make_client: MakeClient,
) -> None:
    given: list[float | None] = []

    def refund(order_id: str, amount: float | None = None) -> None:
        given.append(amount)
        raise ToolError("no")

    arguments = {"order_id": prompt_arg("order_id"), "amount": prompt_arg("amount")}
    client = make_client(refunds_server(refund, arguments=arguments))
    assert '1. Call refund with {"order_id": "A-17"}' in run(client).handoff
    assert '1. Call refund with {"order_id": "A-17", "amount": 12.5}' in run(client, amount="12.5").handoff
    assert given == [None, 12.5]


def refunded(order_id: str, amount: float) -> str:
    return "refund-1"


@pytest.mark.parametrize("path", [None, "id"])
def test_an_output_whose_producer_was_skipped_is_an_unresolved_dependency(
    make_client: MakeClient, era: Era, table: Table, path: str | None
) -> None:
    mail: dict[str, Source] = {"to": step_output("money", path), "text": constant("x")}
    server = refunds_server(refund_fails, binding="money")
    steps = [
        Step("refund", tool="refund", arguments={"order_id": constant("A"), "amount": constant(1.0)}, binding="money"),
        Step("notify", tool="send_mail", arguments=mail),
    ]
    server.add_workflow(Workflow(name="flow", description="refund", steps=steps))
    client = make_client(server, era=era)
    task = client.get_prompt("flow").task_id
    table.mark_step(task, 0, "skipped")
    answer = client.get_prompt("flow", task=task)
    assert answer.meta["pause_reason"] == {
        "type": "unresolvedDependency",
        "blockedStep": "notify",
        "missingOutput": "money",
        "producingStep": "refund",
        "suggestedTool": "send_mail",
    }
    assert answer.statuses == ["skipped", "pending"]
    assert client.variables(task)["_workflow.pause_reason"] == answer.meta["pause_reason"]
    first, heading, *calls = answer.handoff.split("\n\n")
    assert "'notify'" in first
    assert "'money'" in first
    placeholder = "<output from refund>" if path is None else "<field 'id' from refund>"
    assert heading == NEXT
    assert calls == [f'1. Call send_mail with {{"to": "{placeholder}", "text": "x"}}']


def test_too_little_time_to_start_a_step_is_deadline_exceeded(make_client: MakeClient, era: Era) -> None:
    clock = Clock()

    def refund(order_id: str, amount: float) -> str:
        clock.ms = 5_500
        return "refund-1"

    client = make_client(refunds_server(refund), era=era, remaining_ms=clock)
    answer = run(client)
    reason = {"type": "deadlineExceeded", "blockedStep": "notify", "suggestedTool": "send_mail"}
    assert_paused(client, answer, reason, ["completed", "completed", "pending"])
    assert client.variables(answer.task_id)["_workflow.result.refund"] == "refund-1"
    first, _, call = answer.handoff.split("\n\n")
    assert "'notify'" in first
    assert call == '1. Call send_mail with {"to": "kim@example.com", "text": "Refunded A-17"}'


def docs_server(*, after: bool) -> Server:
    """A step with a tool, and before or after it a step with resources of which one cannot be fetched."""
    server = Server("docs")

    @server.tool
    def fails(topic: str) -> None:
        raise ToolError("no")

    @server.resource("docs://{topic}")
    def docs(topic: str) -> str:
        if topic == "broken":
            raise ToolError("the shelf is empty")
        return f"About {topic}"

    read = Step("read", resources=["docs://{topic}", "docs://fine"], guidance="Mind {topic}.", retryable=True)
    call = Step("call", tool="fails", arguments={"topic": prompt_arg("topic")}, resources=["docs://{topic}"])
    steps = [call, read] if after else [read, call]
    server.add_workflow(Workflow(name="flow", description="read", arguments=[Argument("topic")], steps=steps))
    return server


def test_a_resource_that_cannot_be_fetched_is_a_tool_error_without_a_tool(make_client: MakeClient, era: Era) -> None:
    client = make_client(docs_server(after=False), era=era)
    answer = client.get_prompt("flow", {"topic": "broken"})
    assert answer.meta["pause_reason"] == {
        "type": "toolError",
        "failedStep": "read",
        "error": "the shelf is empty",
        "retryable": True,
        "suggestedTool": "",
    }
    assert answer.statuses == ["failed", "pending"]
    assert client.variables(answer.task_id)["_workflow.result.read"] == {"error": "the shelf is empty"}


def test_a_resource_that_is_unknown_is_a_tool_error_without_a_tool(make_client: MakeClient) -> None:
    server = Server("docs")
    server.add_workflow(Workflow(name="flow", description="read", steps=[Step("read", resources=["docs://nothing"])]))
    reason = make_client(server).get_prompt("flow").meta["pause_reason"]
    assert (reason["type"], reason["failedStep"], reason["suggestedTool"]) == ("toolError", "read", "")


@pytest.mark.parametrize("topic", ["food/fish", "..", "a\\b"])
def test_a_value_with_a_path_in_it_is_refused_by_a_resource_of_one_name_and_taken_by_one_of_paths(
    make_client: MakeClient, topic: str
) -> None:
    server = Server("s")
    taken: list[str] = []

    @server.resource("docs://{topic}")
    def docs(topic: str) -> str:
        taken.append(topic)
        return "never"

    @server.resource("all://{+topic}")
    def everything(topic: str) -> str:
        taken.append(topic)
        return "text"

    for name, uri in (("names", "docs://{topic}"), ("paths", "all://{topic}")):
        read = Step("read", resources=[uri])
        server.add_workflow(Workflow(name=name, description="read", arguments=[Argument("topic")], steps=[read]))
    client = make_client(server)

    reason = client.get_prompt("names", {"topic": topic}).meta["pause_reason"]
    assert (reason["type"], reason["failedStep"]) == ("toolError", "read")
    assert "{topic} of docs://{topic} takes one name" in reason["error"]
    assert "{+topic}" in reason["error"]
    assert client.get_prompt("paths", {"topic": topic}).meta["task_status"] == "completed"
    assert taken == [topic]


def test_a_tools_step_whose_resource_cannot_be_fetched_fails_without_calling_the_tool(make_client: MakeClient) -> None:
    answer = make_client(docs_server(after=True)).get_prompt("flow", {"topic": "broken"})
    assert answer.meta["pause_reason"]["suggestedTool"] == "fails"
    assert answer.meta["pause_reason"]["error"] == "the shelf is empty"
    assert answer.statuses == ["failed", "pending"]
    assert '1. Call fails with {"topic": "broken"}\n   First: Read the resource docs://broken\n' in answer.handoff


def test_a_resource_that_fails_costs_none_of_those_that_were_read_before_it(make_client: MakeClient) -> None:
    server = docs_server(after=False)
    steps = [Step("read", resources=["docs://a", "docs://broken", "docs://c"], guidance="Mind.")]
    server.add_workflow(Workflow(name="three", description="read", steps=steps))
    answer = make_client(server).get_prompt("three")
    assert answer.conversation[2:6] == [
        ("assistant", "Mind."),
        ("assistant", "Reading docs://a, docs://broken, docs://c"),
        ("user", "Resource content from docs://a:\nAbout a"),
        ("user", "Error from read: the shelf is empty"),
    ]
    assert answer.handoff.split(f"{NEXT}\n\n")[1] == (
        "1. Read the resource docs://broken\n   Read the resource docs://c\n   Note: Mind."
    )


def test_a_step_that_is_blocked_shows_its_resources_before_the_handoff(make_client: MakeClient, era: Era) -> None:
    server = docs_server(after=False)

    @server.tool
    def publish(summary: str) -> str:
        return summary

    step = Step(
        "publish",
        tool="publish",
        resources=["docs://style", "docs://{slug}"],
        template_bindings={"slug": step_output("publish")},
        guidance="Keep to the style.",
    )
    server.add_workflow(Workflow(name="report", description="publish", steps=[step]))
    client = make_client(server, era=era)
    answer = client.get_prompt("report")
    assert answer.meta["pause_reason"]["type"] == "schemaMismatch"
    assert answer.statuses == ["pending"]
    assert answer.conversation[2:-1] == [("user", "Resource content from docs://style:\nAbout style")]
    assert answer.handoff.split(f"{NEXT}\n\n")[1] == (
        '1. Call publish with {"summary": "<missing: summary>"}\n'
        "   Then: Read the resource docs://<output from publish>\n"
        "   Note: Keep to the style."
    )


def test_a_step_that_wants_to_ask_is_to_be_called_by_itself_and_there_is_no_cause_to_correct(
    make_client: MakeClient,
) -> None:
    def refund(order_id: str, amount: float, ctx: Context) -> str:
        return str(ctx.elicit("sure", "Sure?", {"type": "object", "properties": {"sure": {"type": "boolean"}}}).action)

    first, _, call, *_ = run(make_client(refunds_server(refund), era="2026")).handoff.split("\n\n")
    assert first.endswith("It can ask when its tool is called by itself.")
    assert "correct the cause" not in first
    assert call.startswith("1. Call refund with ")


def test_a_resource_template_whose_value_is_missing_blocks_its_step(make_client: MakeClient) -> None:
    server = Server("docs")

    @server.tool
    def empty() -> dict[str, Any]:
        return {}

    steps = [
        Step("first", tool="empty"),
        Step("read", resources=["docs://{topic}"], template_bindings={"topic": step_output("first", "topic")}),
    ]
    server.add_workflow(Workflow(name="flow", description="read", steps=steps))
    answer = make_client(server).get_prompt("flow")
    assert answer.meta["pause_reason"] == {
        "type": "unresolvableParams",
        "blockedStep": "read",
        "missingParam": "topic",
        "suggestedTool": "",
    }
    assert answer.handoff.endswith("1. Read the resource docs://<field 'topic' from empty>")


def test_a_remaining_resource_step_is_handed_off_as_something_to_read(make_client: MakeClient) -> None:
    answer = make_client(docs_server(after=True)).get_prompt("flow", {"topic": "mail"})
    assert answer.handoff.split(f"{NEXT}\n\n")[1] == (
        '1. Call fails with {"topic": "mail"}\n\n'
        '2. Read the resource docs://mail\n   Read the resource docs://fine\n   Note: Mind "mail".'
    )


def test_an_argument_from_a_step_that_is_still_to_come_is_a_placeholder(make_client: MakeClient) -> None:
    server = refunds_server(refund_fails)
    steps = [
        Step("refund", tool="refund", arguments={"order_id": constant("A"), "amount": constant(1.0)}, binding="money"),
        Step("whole", tool="send_mail", arguments={"to": constant("kim"), "text": step_output("money")}),
        Step("field", tool="send_mail", arguments={"to": constant("kim"), "text": step_output("money", "a.0")}),
        Step("sourceless", tool="send_mail", arguments={"to": constant("kim")}),
    ]
    server.add_workflow(Workflow(name="flow", description="refund", steps=steps))
    calls = make_client(server).get_prompt("flow").handoff.split("\n\n")[2:]
    assert calls == [
        '1. Call refund with {"order_id": "A", "amount": 1.0}',
        '2. Call send_mail with {"to": "kim", "text": "<output from refund>"}',
        '3. Call send_mail with {"to": "kim", "text": "<field \'a.0\' from refund>"}',
        '4. Call send_mail with {"to": "kim", "text": "<missing: text>"}',
    ]


def test_a_paused_workflow_that_is_not_durable_hands_off_all_the_same(make_client: MakeClient, table: Table) -> None:
    server = Server("s")

    @server.tool
    def fails() -> None:
        raise ToolError("no")

    server.add_workflow(Workflow(name="plain", description="fail", steps=[Step("a", tool="fails")], durable=False))
    answer = make_client(server).get_prompt("plain")
    assert answer.handoff.endswith(f"{NEXT}\n\n1. Call fails with {{}}")
    assert answer.meta == {}
    assert table.items == []


def test_a_steps_arguments_are_validated_once(make_client: MakeClient) -> None:
    validated: list[float] = []

    def counted(amount: float) -> float:
        validated.append(amount)
        return amount

    def refund(order_id: str, amount: Annotated[float, AfterValidator(counted)]) -> str:
        return f"{order_id}: {amount}"

    make_client(refunds_server(refund)).get_prompt("refund_order", {"order_id": "A-1"})

    assert validated == [30.0]
