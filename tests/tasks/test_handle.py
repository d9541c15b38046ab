"""Continuations that name their task in the argument `task_id`, for hosts whose models see only tools and texts
(docs/workflows.md, Going on)."""

import json
from dataclasses import dataclass
from typing import Any

import jsonschema_rs
import pytest
from pydantic import BaseModel

from mcp_baton import Argument, Image, Server, ToolError, ToolResult, ToolStep, Workflow, prompt_arg, step_output
from mcp_baton.exceptions import OutcomeUnknown
from mcp_baton.stores import DynamoDBStore
from mcp_baton.tasks.ids import new_task_id
from tests.support.client import Answer, Client, Clock, Era, JsonDict, begin
from tests.support.handler import MakeClient
from tests.typed import returning

UNKNOWN_TASK = new_task_id(0)


@dataclass
class Refund:
    id: str
    amount: float


class Shop:
    """A server that refunds orders. The tool `refund` fails while the bank is closed."""

    def __init__(self, **workflow: Any) -> None:
        self.bank_is_open = False
        self.calls: list[tuple[str, JsonDict]] = []
        self.server = Server("shop")
        for function in (self.fetch_order, self.refund, self.send_mail, self.audit, self.track):
            self.server.tool(function)
        self.server.resource("docs://returns", name="returns")(lambda: "How to return things.")
        self.server.add_workflow(
            Workflow(
                name="refund_order",
                description="refund an order",
                arguments=[Argument("order_id", required=True)],
                steps=[
                    ToolStep("fetch", tool="fetch_order", arguments={"order_id": prompt_arg("order_id")}),
                    ToolStep(
                        "refund",
                        tool="refund",
                        guidance="Refund no more than the total of {order_id}.",
                        arguments={"order_id": prompt_arg("order_id"), "amount": step_output("fetch", "total")},
                    ),
                    ToolStep(
                        "notify",
                        tool="send_mail",
                        arguments={"to": step_output("fetch", "email"), "text": step_output("refund", "id")},
                    ),
                ],
                **workflow,
            )
        )

    def fetch_order(self, order_id: str) -> dict[str, Any]:
        self.calls.append(("fetch_order", {"order_id": order_id}))
        return {"total": 30.0, "email": "kim@example.com", "note": "n" * 600}

    def refund(self, order_id: str, amount: float) -> Refund:
        self.calls.append(("refund", {"order_id": order_id, "amount": amount}))
        if not self.bank_is_open:
            raise ToolError("the bank is closed")
        return Refund(f"R-{order_id}", amount)

    def send_mail(self, to: str, text: str) -> str:
        self.calls.append(("send_mail", {"to": to, "text": text}))
        return f"sent to {to}"

    def audit(self, text: str) -> str:
        """A tool that no workflow uses."""
        return text

    def track(self, task_id: str) -> str:
        """A tool that has its own parameter `task_id`."""
        return task_id


@dataclass
class PausedRun:
    """A task whose refund failed before the bank opened."""

    shop: Shop
    client: Client
    task: str

    def call(self, tool: str, **arguments: Any) -> Answer:
        return self.client.call_tool(tool, {"task_id": self.task, **arguments})


def paused_run(make_client: MakeClient, era: Era = "2025", **workflow: Any) -> PausedRun:
    shop = Shop(**workflow)
    client = make_client(shop.server, era=era)
    answer = client.get_prompt("refund_order", {"order_id": "A-17"})
    assert answer.statuses == ["completed", "failed", "pending"]
    shop.bank_is_open = True
    shop.calls.clear()
    return PausedRun(shop, client, answer.task_id)


def last_text(answer: Answer) -> str:
    text: str = answer.result["content"][-1]["text"]
    return text


def texts(answer: Answer) -> list[str]:
    return [block["text"] for block in answer.result["content"]]


def schemas(client: Client, tool: str) -> tuple[JsonDict, JsonDict]:
    [entry] = [item for item in client.request("tools/list").result["tools"] if item["name"] == tool]
    return entry["inputSchema"], entry.get("outputSchema", {})


def arguments_text(task: str, **arguments: Any) -> str:
    return json.dumps({**arguments, "task_id": task})


def test_the_texts_lead_a_model_to_the_end_of_the_workflow(make_client: MakeClient) -> None:
    run = paused_run(make_client)

    refund_answer = run.call("refund", order_id="A-17", amount=30.0)
    next_call = f"call refund_order with {arguments_text(run.task)}: the server continues."
    assert last_text(refund_answer) == f"Recorded as step 'refund' (2 of 3 done). Next: {next_call}"
    answer = run.call("send_mail", to="kim@example.com", text="R-A-17")
    assert last_text(answer) == f"All 3 steps are done. Call refund_order with {arguments_text(run.task)} to finish."
    assert answer.meta["next"] == [{"tool": "refund_order", "arguments": {"task_id": run.task}}]
    assert run.shop.calls == [
        ("refund", {"order_id": "A-17", "amount": 30.0}),
        ("send_mail", {"to": "kim@example.com", "text": "R-A-17"}),
    ]
    assert run.client.variables(run.task)["_workflow.result.refund"] == {"id": "R-A-17", "amount": 30.0}


def test_without_a_workflow_tool_the_text_says_that_the_client_completes_the_task(make_client: MakeClient) -> None:
    run = paused_run(make_client, tool=False)
    run.call("refund", order_id="A-17", amount=30.0)
    answer = run.call("send_mail", to="kim@example.com", text="R-A-17")
    assert last_text(answer) == "All 3 steps are done; the client completes the task."
    assert answer.meta["next"] == []


def test_a_failed_call_reports_the_failure_and_the_next_call(make_client: MakeClient) -> None:
    run = paused_run(make_client)
    run.shop.bank_is_open = False

    answer = run.call("refund", order_id="A-17", amount=30.0)

    retry_arguments = arguments_text(f"{run.task}/refund", order_id="A-17", amount=30.0)
    failure = (
        "Recorded as step 'refund', which failed (1 of 3 done). This step is not retryable: correct the cause first."
    )
    assert answer.result["isError"]
    note = f'{failure} Next: call refund with {retry_arguments}\nNote: Refund no more than the total of "A-17".'
    assert texts(answer) == [f"{note}\n\nthe bank is closed"]


@pytest.mark.parametrize("empty", [None, ""])
def test_an_empty_task_id_counts_as_absent(make_client: MakeClient, empty: str | None) -> None:
    run = paused_run(make_client)

    answer = run.client.call_tool("send_mail", {"to": "a", "text": "b", "task_id": empty})
    assert (texts(answer), answer.meta) == (["sent to a"], {})
    recorded_answer = run.client.call_tool("send_mail", {"to": "a", "text": "b", "task_id": empty}, task=run.task)
    assert (texts(recorded_answer), recorded_answer.meta["recorded"]) == (["sent to a"], True)


@pytest.mark.parametrize(
    "task_id", [UNKNOWN_TASK, 5, ["x"], {}, True], ids=["another", "number", "list", "object", "boolean"]
)
def test_two_task_ids_or_an_invalid_id_run_nothing(make_client: MakeClient, task_id: object) -> None:
    run = paused_run(make_client)

    answer = run.client.call_tool("send_mail", {"to": "a", "text": "b", "task_id": task_id}, task=run.task)

    assert answer.result["isError"]
    assert "task_id" in texts(answer)[0]
    assert run.shop.calls == []
    assert run.client.variables(run.task)["_workflow.progress"]["steps"][2]["status"] == "pending"


def test_the_same_task_may_be_named_twice(make_client: MakeClient) -> None:
    run = paused_run(make_client)
    arguments = {"to": "kim@example.com", "text": "b", "task_id": run.task}
    answer = run.client.call_tool("send_mail", arguments, task=run.task)
    assert answer.meta["recorded"] is True
    assert last_text(answer).startswith("Recorded as step 'notify' (2 of 3 done). Next: call refund with ")


def test_a_call_with_an_unknown_task_id_runs_and_says_that_the_task_is_unknown(make_client: MakeClient) -> None:
    client = make_client(Shop().server)
    answer = client.call_tool("send_mail", {"to": "a", "text": "b", "task_id": UNKNOWN_TASK})
    assert texts(answer) == ["sent to a", "Not recorded: unknown task. The call itself was made."]
    assert answer.result["structuredContent"]["baton_next"] == texts(answer)[1]
    assert answer.meta["recorded"] is False


def test_a_call_with_the_id_of_an_ended_task_runs_and_says_that_the_task_has_ended(make_client: MakeClient) -> None:
    run = paused_run(make_client)
    run.client.task("cancel", run.task)
    answer = run.call("send_mail", to="a", text="b")
    assert last_text(answer) == "Not recorded: the task is cancelled. The call itself was made."


def test_after_a_lost_store_response_the_text_says_to_check_the_task_before_repeating_the_call(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = paused_run(make_client)

    def lose_response(*_: object) -> None:
        raise OutcomeUnknown("lost")

    monkeypatch.setattr(DynamoDBStore, "write", lose_response)
    answer = run.call("send_mail", to="a", text="b")
    assert answer.meta["recorded"] == "unknown"
    assert last_text(answer) == (
        "It is not certain that the call was recorded: the task store's answer was lost. The call itself was made. "
        f'Before you make it again, call refund_order with {{"task_id": "{run.task}", "task_action": "show"}} '
        "to see whether it is recorded."
    )
    view = run.client.call_tool("refund_order", {"task_id": run.task, "task_action": "show"})
    assert "1 of 3 steps done" in view.result["content"][0]["text"]


def test_only_tools_of_durable_workflows_accept_a_task_id(make_client: MakeClient) -> None:
    server = Shop().server
    server.add_workflow(
        Workflow(name="plain", description="audit", durable=False, steps=[ToolStep("one", tool="audit")])
    )
    server.add_workflow(Workflow(name="tracking", description="track", steps=[ToolStep("one", tool="track")]))
    client = make_client(server)

    input_schema, _ = schemas(client, "refund")
    assert list(input_schema["properties"]) == ["order_id", "amount", "task_id"]
    assert [option["type"] for option in input_schema["properties"]["task_id"]["anyOf"]] == ["string", "null"]
    assert input_schema["required"] == ["order_id", "amount"]
    assert "task_id" not in schemas(client, "audit")[0]["properties"]
    assert schemas(client, "track")[0]["properties"]["task_id"] == {"type": "string"}
    audit_answer = client.call_tool("audit", {"text": "a", "task_id": UNKNOWN_TASK})
    assert audit_answer.result["isError"]
    assert "task_id" in texts(audit_answer)[0]
    assert texts(client.call_tool("track", {"task_id": UNKNOWN_TASK})) == [UNKNOWN_TASK]
    assert client.call_tool("refund", {"order_id": "A-17", "amount": 1, "task": UNKNOWN_TASK}).result["isError"]


class ResultWithBatonNext(BaseModel):
    baton_next: int


VALUES: dict[str, tuple[Any, Any, str | None]] = {
    "text": (str, "a", "baton_next"),
    "none": (None, None, None),
    "data": (dict[str, Any], {"a": 1}, "baton_next"),
    "same": (dict[str, Any], {"baton_next": 1}, "baton_next_"),
    "taken": (ResultWithBatonNext, ResultWithBatonNext(baton_next=5), "baton_next_"),
    "full": (ToolResult, ToolResult(["a", Image(b"x")], {"a": 1}, {"own": 1}), "baton_next"),
    "undeclared": (Any, {"a": 1}, None),
}
"""By tool: the declared return type, the returned value, and the property that is added to the structured content."""


@pytest.mark.parametrize("name", list(VALUES))
def test_the_text_and_the_structured_content_have_the_next_call_and_results_stay_valid(
    make_client: MakeClient, name: str
) -> None:
    server = Server("values")
    return_type, value, property_name = VALUES[name]
    server.tool(name=name)(returning(value, return_type))
    server.add_workflow(
        Workflow(name="flow", description="flow", steps=[ToolStep("one", tool=name), ToolStep("two", tool=name)])
    )
    clock = Clock()
    client = make_client(server, remaining_ms=clock, era="2026")
    task = begin(client, clock)
    plain_result = client.call_tool(name).result

    answer = client.call_tool(name, {"task_id": task})

    text = f"Recorded as step 'one' (1 of 2 done). Next: call flow with {arguments_text(task)}: the server continues."
    assert answer.result["content"] == [*plain_result["content"], {"type": "text", "text": text}]
    addition = {property_name: text} if property_name else {}
    content = plain_result.get("structuredContent")
    assert answer.result.get("structuredContent") == ({**(content or {}), **addition} if addition else content)
    _, schema = schemas(client, name)
    if schema:
        jsonschema_rs.validate(schema, content)
        jsonschema_rs.validate(schema, answer.result["structuredContent"])
    assert text not in json.dumps(client.variables(task)["_workflow.result.one"])
    assert answer.meta.get("own") == plain_result.get("_meta", {}).get("own")
