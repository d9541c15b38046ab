"""Pauses: the fields of the pause reasons, what is stored, and the handoff (docs/workflows.md).

Pure functions decide the texts of the handoff, its placeholders and what blocks a step. They are tested in
tests/present/test_handoff.py and tests/workflow/test_resolve.py.
"""

import json
import re
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from msgspec import structs
from pydantic import AfterValidator

from mcp_baton import Argument, Fetch, Server, ToolError, ToolStep, Workflow, constant, prompt_arg, step_output
from mcp_baton.protocol.json import Json, JsonObject, json_size
from mcp_baton.tasks.record import paused_step
from mcp_baton.testing import Client, Connect, Run
from mcp_baton.tools.outcomes import InvalidField
from mcp_baton.workflow import pause
from mcp_baton.workflow.pause import (
    REASONS,
    AnswersRequired,
    ApprovalRequired,
    DeadlineExceeded,
    FailedItem,
    Interrupted,
    OpenQuestion,
    PauseReason,
    Reason,
    SchemaMismatch,
    StepFailed,
    UnapprovedItem,
    UnresolvableParams,
    UnresolvedDependency,
)
from mcp_baton.workflow.sources import Source
from mcp_baton.workflow.stored_pauses import (
    FREE_TEXTS,
    MAX_REASONS_BYTES,
    MAX_STOP_BYTES,
    parse_pause,
    parse_pauses,
    stored_pauses,
    with_pause,
)
from tests.support.client import Era, related_meta
from tests.support.handler import MakeClient

TIMED_OUT: dict[str, Any] = {
    "type": "toolError",
    "failedStep": "refund",
    "error": "connection timeout",
    "retryable": False,
    "suggestedTool": "refund",
}


def refunds_server(refund: Callable[..., object], **step: Any) -> Server:
    """Return a server with the steps fetch, refund and notify. The test defines the tool and the step `refund`."""
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
                ToolStep("fetch", tool="fetch_order", arguments={"order_id": prompt_arg("order_id")}),
                ToolStep("refund", tool="refund", **{"arguments": refund_arguments, **step}),
                ToolStep("notify", tool="send_mail", arguments=mail_arguments),
            ],
        )
    )
    return server


def refund_fails(order_id: str, amount: float) -> None:
    raise ToolError("connection timeout")


def run(client: Client, **arguments: str) -> Run:
    return client.get_prompt("refund_order", {"order_id": "A-17", **arguments})


def assert_paused(client: Client, run: Run, reason: dict[str, Any], *statuses: str) -> None:
    """Check that the reply and the stored task both have this pause reason and these statuses."""
    steps = dict(zip(["fetch", "refund", "notify"], statuses, strict=True))
    assert run.pause.to_dict() == reason
    assert (run.meta["task_status"], run.steps) == ("working", steps)
    task = client.task(run.task_id)
    assert (task.status, task.pause.to_dict(), task.steps) == ("working", reason, steps)


def test_the_meta_of_a_paused_run_is_exactly_task_status_steps_and_reason(make_client: MakeClient, era: Era) -> None:
    answer = make_client(refunds_server(refund_fails), era=era).get_prompt("refund_order", {"order_id": "A-17"})
    assert answer.meta == {
        "task_id": answer.task_id,
        "task_status": "working",
        "steps": [
            {"name": "fetch", "status": "completed"},
            {"name": "refund", "status": "failed"},
            {"name": "notify", "status": "pending"},
        ],
        "pause_reason": TIMED_OUT,
        **related_meta(era, answer.task_id),
    }


def test_a_tool_error_fails_its_step_pauses_and_is_handed_off_as_documented(baton: Connect) -> None:
    guidance = "Refund no more than the order's total for {order_id}."
    client = baton(refunds_server(refund_fails, retryable=True, guidance=guidance))
    paused_run = run(client)
    assert_paused(client, paused_run, {**TIMED_OUT, "retryable": True}, "completed", "failed", "pending")
    variables = client.task(paused_run.task_id).variables
    assert variables["_workflow.result.refund"] == {"error": "connection timeout"}
    assert "_workflow.result.notify" not in variables
    assert [(message.role, message.text) for message in paused_run.messages[-4:-2]] == [
        ("assistant", 'Calling refund with {"order_id": "A-17", "amount": 30.0}'),
        ("user", "Error from refund: connection timeout"),
    ]
    assert [message.role for message in paused_run.messages[-2:]] == ["assistant", "user"]
    assert paused_run.messages[-1].text == "Continue as described."
    assert paused_run.handoff == (
        "Step 'refund' failed: \"connection timeout\". This step is retryable.\n\n"
        "To continue the workflow, make these tool calls:\n\n"
        '1. Call refund with {"order_id": "A-17", "amount": 30.0}\n'
        '   Note: Refund no more than the order\'s total for "A-17".\n\n'
        '2. Call send_mail with {"to": "kim@example.com", "text": "Refunded A-17"}'
    )


@pytest.mark.parametrize(
    ("uri", "error"),
    [
        ("docs://broken", r"the shelf is empty"),
        ("docs://nothing/there", r"there is no resource docs://nothing/there"),
        ("all://food%2Ffish", r"\{topic\} of all://\{topic\} takes one name, .* whose URI has \{\+topic\} takes paths"),
    ],
)
def test_a_resource_that_cannot_be_fetched_is_a_tool_error_without_a_tool(baton: Connect, uri: str, error: str) -> None:
    server = Server("docs")

    @server.resource("docs://broken")
    def broken() -> str:
        raise ToolError("the shelf is empty")

    @server.resource("all://{topic}")
    def everything(topic: str) -> str:
        raise AssertionError(f"{topic} is not a name")

    step = Fetch("read", resources=[uri], retryable=True)
    server.add_workflow(Workflow(name="flow", description="read", steps=[step, Fetch("again", resources=["docs://a"])]))
    client = baton(server)
    paused_run = client.get_prompt("flow")
    assert re.search(error, paused_run.pause.error)
    assert paused_run.pause.to_dict() == {
        "type": "toolError",
        "failedStep": "read",
        "error": paused_run.pause.error,
        "retryable": True,
        "suggestedTool": "",
        "resource": uri,
    }
    assert paused_run.steps == {"read": "failed", "again": "pending"}
    assert client.task(paused_run.task_id).variables["_workflow.result.read"] == {"error": paused_run.pause.error}


def test_a_steps_arguments_are_validated_once(baton: Connect) -> None:
    amounts: list[float] = []

    def record_amount(amount: float) -> float:
        amounts.append(amount)
        return amount

    def refund(order_id: str, amount: Annotated[float, AfterValidator(record_amount)]) -> str:
        return f"{order_id}: {amount}"

    run(baton(refunds_server(refund)))

    assert amounts == [30.0]


def blocked(kind: str, **members: Json) -> JsonObject:
    """The stored form of a reason of step `one`, whose tool is `t`."""
    return {"type": kind, "blockedStep": "one", "suggestedTool": "t", **members}


def failed(**members: Json) -> JsonObject:
    return {"type": "toolError", "failedStep": "one", **members}


@pytest.mark.parametrize(
    ("reason", "wire"),
    [
        (UnresolvableParams("one", "p", "t"), blocked("unresolvableParams", missingParam="p")),
        (UnresolvableParams("one", "p", "t", "no"), blocked("unresolvableParams", missingParam="p", problem="no")),
        (
            SchemaMismatch("one", ("a",), (InvalidField("b", "bad"),), "t"),
            blocked("schemaMismatch", missingFields=["a"], invalidFields=[{"field": "b", "problem": "bad"}]),
        ),
        (StepFailed("one", "e", True, ""), failed(error="e", retryable=True, suggestedTool="")),
        (StepFailed("one", "", False, "t"), failed(error="", retryable=False, suggestedTool="t")),
        (
            UnresolvedDependency("one", "out", "by", "t"),
            blocked("unresolvedDependency", missingOutput="out", producingStep="by"),
        ),
        (
            AnswersRequired("one", (OpenQuestion("one", "Who?", {"type": "string"}, "user"),), "t"),
            blocked(
                "answersRequired",
                questions=[{"name": "one", "question": "Who?", "schema": {"type": "string"}, "of": "user"}],
            ),
        ),
        (DeadlineExceeded("one", "t"), blocked("deadlineExceeded")),
        (Interrupted("one", ""), blocked("interrupted", suggestedTool="")),
    ],
)
def test_a_reason_is_read_back_as_it_was_stored(reason: PauseReason, wire: JsonObject) -> None:
    assert reason.to_json() == wire
    assert paused_step(wire) == "one"
    assert parse_pause(json.loads(json.dumps(wire))) == reason


def test_an_unknown_or_damaged_reason_is_not_parsed() -> None:
    assert parse_pause({"type": "moonPhase", "blockedStep": "one"}) is None
    assert parse_pause({}) is None
    assert parse_pause(None) is None
    assert parse_pause({"type": "deadlineExceeded", "blockedStep": 7, "suggestedTool": "t"}) is None


def test_a_long_error_is_shortened_when_it_is_stored() -> None:
    reason = StepFailed("s", "x" * 1_000_000, True, "t")

    error = reason.to_json()["error"]
    assert isinstance(error, str)
    assert error.startswith("xxxx")
    assert len(error) < 5_000


def test_long_lists_of_invalid_fields_are_shortened_when_they_are_stored() -> None:
    fields = tuple(InvalidField("f" * 10_000, "p" * 10_000) for _ in range(1_000))

    reason_json = SchemaMismatch("s", (), fields, "t").to_json()

    assert len(repr(reason_json)) < 100_000


def test_every_text_of_a_reason_is_cut_if_it_is_not_a_name() -> None:
    names = {"blockedStep", "failedStep", "producingStep", "suggestedTool", "missingParam", "missingOutput"}
    names |= {"approvalId", "audience", "errorId", "idempotencyKey", "expiresAt", "until", "for"}

    texts = {
        member.encode_name for kind in REASONS for member in structs.fields(kind) if member.type in (str, str | None)
    }

    assert texts - FREE_TEXTS == names


def test_every_reason_is_registered() -> None:
    defined = {value for value in vars(pause).values() if isinstance(value, type) and issubclass(value, Reason)}

    bases = {base for kind in defined for base in kind.__bases__}
    assert set(REASONS) == defined - bases


def failure(step: str, length: int = 4_000) -> StepFailed:
    return StepFailed(step, "e" * length, retryable=False, suggested_tool="send")


def failed_list(step: str) -> PauseReason:
    items = tuple(FailedItem(index, "e" * 300) for index in range(20))
    return structs.replace(failure(step), failed_items=items, failed_count=20)


def approval(step: str) -> ApprovalRequired:
    return ApprovalRequired(
        step=step,
        approval_id="a" * 50,
        audience="people",
        message="m" * 2_000,
        expires_at="2030-01-01T00:00:00.000Z",
    )


def approvals_of_list(step: str) -> PauseReason:
    items = tuple(UnapprovedItem(index, "a" * 50, "people", "m" * 300, "2030-01-01T00:00:00Z") for index in range(20))
    return approval(step).of_items(20, items)


def stored(*reasons: PauseReason) -> tuple[JsonObject, ...]:
    return stored_pauses([reason.to_json() for reason in reasons])


@pytest.mark.parametrize("count", [2, 5, 20, 100])
@pytest.mark.parametrize("kind", [failure, failed_list, approval, approvals_of_list])
def test_several_reasons_fit_into_their_bound_and_stay_readable(kind: Callable[[str], PauseReason], count: int) -> None:
    kept = stored(*(kind(f"step {index}") for index in range(count)))

    assert json_size(kept) <= MAX_REASONS_BYTES + count * MAX_STOP_BYTES
    assert [pause.step for pause in parse_pauses(kept)] == [f"step {index}" for index in range(len(kept))]
    assert len(kept) == count or count == 100


def test_a_single_reason_keeps_its_text() -> None:
    [reason] = stored(failure("a"))
    assert len(str(reason["error"])) == 4_000


def test_names_and_ids_are_not_cut() -> None:
    for reason in stored(*(approval(f"step {index}") for index in range(20))):
        assert reason["approvalId"] == "a" * 50
        assert str(reason["message"]).startswith("m" * 60)


def test_a_reason_replaces_that_of_its_step_in_the_order_of_the_steps() -> None:
    steps = ["a", "b", "c"]
    before = stored(failure("a", 1), failure("c", 1))

    added = with_pause(before, "b", approval("b"), steps)
    assert [pause.step for pause in parse_pauses(added)] == ["a", "b", "c"]
    assert with_pause(added, "b", None, steps) == before
    assert with_pause(before, "b", None, steps) == before
