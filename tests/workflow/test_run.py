"""The exact messages, `_meta` and task variables of a workflow prompt (docs/workflows.md).

The single decisions of a run are tested in tests/workflow/test_engine.py.
"""

import json
from typing import Any

import pytest

from mcp_baton import Argument, Fetch, Server, ToolStep, Workflow, constant, prompt_arg, step_output
from mcp_baton.testing import Connect
from tests.support.client import Era, Table, related_meta
from tests.support.handler import MakeClient

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
                ToolStep("fetch", tool="fetch_order", arguments={"order_id": prompt_arg("order_id")}, binding="order"),
                Fetch(
                    "policy",
                    resources=["docs://{topic}"],
                    template_bindings={"topic": step_output("order", "category")},
                ),
                ToolStep(
                    "refund",
                    tool="refund",
                    guidance="Refund no more than the total of {order_id}; {unknown} stays.",
                    arguments={"order_id": prompt_arg("order_id"), "amount": step_output("order", "lines.0.total")},
                ),
                ToolStep(
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
    ("user", f"Result from fetch_order: {json.dumps(ORDER, separators=(',', ':'))}"),
    ("assistant", "Reading docs://refunds"),
    ("user", "Resource content from docs://refunds:\n# About refunds"),
    ("assistant", 'Refund no more than the total of "A-17"; {unknown} stays.'),
    ("assistant", 'Calling refund with {"order_id": "A-17", "amount": 30.0}'),
    ("user", 'Result from refund: {"refunded":30.0,"order":"A-17"}'),
    ("user", "Resource content from docs://mail:\n# About mail"),
    ("assistant", 'Calling send_mail with {"to": "kim@example.com", "text": "Refunded A-17, {unknown}"}'),
    ("user", "Result from send_mail: sent to kim@example.com: Refunded A-17, {unknown}"),
]


def test_a_completed_run_has_all_messages_and_its_exact_meta(make_client: MakeClient, era: Era) -> None:
    answer = make_client(orders_server(), era=era).get_prompt("refund_order", {"order_id": "A-17"})
    assert answer.conversation == CONVERSATION
    assert answer.result["description"] == "refund an order"
    assert answer.meta == {
        "task_id": answer.task_id,
        "task_status": "completed",
        "steps": [{"name": step["name"], "status": "completed"} for step in STEPS],
        **related_meta(era, answer.task_id),
    }
    # The client did not ask for progress, so the answer is not streamed.
    assert answer.headers["Content-Type"] == "application/json"


def test_a_completed_run_stores_exactly_its_progress_and_results(baton: Connect) -> None:
    client = baton(orders_server())
    task = client.task(client.get_prompt("refund_order", {"order_id": "A-17"}).task_id)
    assert task.variables == {
        "_workflow.progress": {"goal": "refund_order: refund an order", "steps": STEPS, "schemaVersion": 1},
        "_workflow.result.fetch": ORDER,
        "_workflow.result.policy": None,
        "_workflow.result.refund": {"refunded": 30.0, "order": "A-17"},
        "_workflow.result.notify": "sent to kim@example.com: Refunded A-17, {unknown}",
    }
    assert (task.status, task.result) == ("completed", {"completed": True, "steps_completed": 4})


@pytest.mark.parametrize(("ttl", "expected"), [(None, 3_600_000), (60_000, 60_000), (10**12, 172_800_000)])
def test_the_client_can_choose_the_lifetime_of_a_task_up_to_the_maximum(
    make_client: MakeClient, table: Table, ttl: int | None, expected: int
) -> None:
    client = make_client(orders_server())
    params = {"name": "refund_order", "arguments": {"order_id": "A"}, **({"task": {"ttl": ttl}} if ttl else {})}
    task = client.request("prompts/get", params).task_id
    assert client.task("get", task).result["ttl"] == expected
    assert client.in_era("2026").task("get", task).result["ttlMs"] == expected
    assert (table.item(task)["version"], table.item(task)["ttl_ms"]) == ({"N": "2"}, {"N": str(expected)})
