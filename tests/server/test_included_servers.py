"""Servers that include other servers: `include` and `add_tool` (docs/tools.md, Several servers in one)."""

import sys
from typing import Annotated, Any, cast

import pytest

from mcp_baton import (
    Approval,
    ApprovalRequest,
    Argument,
    Depends,
    RegistrationError,
    Server,
    ToolStep,
    Workflow,
    prompt_arg,
)
from mcp_baton.protocol.json import Json
from mcp_baton.testing import connect


def tone() -> str:
    return "kindly"


@pytest.fixture
def billing() -> Server:
    server = Server("billing", mask_errors=False)

    @server.tool(title="Refund", requires=["write"])
    def refund(order_id: str, manner: Annotated[str, Depends(tone)]) -> str:
        """Refund an order."""
        return f"refunded {order_id} {manner}"

    @server.resource("bills://{number}")
    def bill(number: str) -> str:
        return f"bill {number}"

    @server.prompt
    def dun(name: str) -> str:
        return f"Dun {name}."

    @server.completion("dun", "name")
    def names(value: str) -> list[str]:
        return [f"{value}im"]

    @server.completion("bills://{number}", "number")
    def numbers(value: str) -> list[str]:
        return [f"{value}7"]

    server.add_workflow(
        Workflow(
            name="refund_order",
            description="refund an order",
            arguments=[Argument("order_id", required=True)],
            steps=[
                ToolStep(
                    "refund",
                    tool="refund",
                    arguments={"order_id": prompt_arg("order_id")},
                    resources=["bills://{order_id}"],
                    guidance="Be kind.",
                    binding="refunded",
                    retryable=True,
                    checkpoint=True,
                )
            ],
        )
    )
    return server


def test_an_included_server_works_under_its_prefix(billing: Server) -> None:
    shop = Server("shop")
    shop.include(billing, prefix="billing_")

    with connect(shop) as base_client:
        client = base_client.with_claims(scope="write")
        assert base_client.list_tools() == []
        tool, workflow_tool = client.list_tools()
        assert workflow_tool["name"] == "billing_refund_order"
        assert (tool["name"], tool["title"], tool["description"]) == ("billing_refund", "Refund", "Refund an order.")
        assert list(tool["inputSchema"]["properties"]) == ["order_id", "task_id"]
        with base_client.override(tone, lambda: "coldly"):
            assert client.call_tool("billing_refund", {"order_id": "A"}).value == "refunded A coldly"
        assert client.read_resource("bills://7").text == "bill 7"
        assert client.get_prompt("billing_dun", {"name": "Kim"}).messages[0].text == "Dun Kim."
        run = client.get_prompt("billing_refund_order", {"order_id": "A"})
        assert run.completed
        assert client.task(run.task_id).variables["_workflow.result.refund"] == "refunded A kindly"
        for kind, field, target, argument, first in (
            ("ref/prompt", "name", "billing_dun", "name", "Kim"),
            ("ref/resource", "uri", "bills://{number}", "number", "K7"),
        ):
            params = {"ref": {"type": kind, field: target}, "argument": {"name": argument, "value": "K"}}
            completion: Any = client.request("completion/complete", params)
            assert completion["completion"]["values"] == [first]


def test_an_included_server_notifies_people_of_the_approvals_of_its_own_tools() -> None:
    shop, bills, taxes, tools = Server("shop"), Server("bills"), Server("taxes"), list[Json]()

    @shop.on_approval
    def fail(request: ApprovalRequest) -> None:
        """Change the record, which is not the one of the next function, and end the process."""
        cast("dict[str, Json]", request.record).clear()
        sys.exit(1)

    bills.on_approval(lambda request: tools.append(request.record["tool"]))
    taxes.on_approval(lambda request: tools.append(f"of taxes: {request.record['tool']}"))
    for server in (shop, bills, taxes):
        server.tool(name="refund", approval=Approval("refunds"))(tone)
    bills.include(taxes, prefix="tax_")
    shop.include(bills, prefix="billing_")

    with connect(shop) as client:
        for name in ("refund", "billing_refund", "billing_tax_refund"):
            client.call_tool(name)
    assert tools == ["billing_refund", "billing_tax_refund", "of taxes: billing_tax_refund"]


def test_include_copies_the_tools_that_the_server_has_at_that_time(billing: Server) -> None:
    shop = Server("shop")
    shop.include(billing, prefix="billing_")

    billing.tool(name="later")(lambda: "later")

    [step], [original] = shop.workflows["billing_refund_order"].steps, billing.workflows["refund_order"].steps
    assert (step.tool, original.tool) == ("billing_refund", "refund")
    for name in ("name", "arguments", "binding", "guidance", "resources", "retryable", "checkpoint"):
        assert getattr(step, name) == getattr(original, name)
    assert list(billing.tools) == ["refund", "later"]
    assert list(shop.tools) == ["billing_refund"]


@pytest.mark.parametrize("conflict", ["tool", "resource", "prompt", "workflow", "invalid"])
def test_a_name_conflict_is_refused_and_adds_nothing(billing: Server, conflict: str) -> None:
    shop = Server("shop")
    if conflict == "tool":
        shop.tool(name="b_refund")(lambda: "mine")
    if conflict == "resource":
        shop.resource("bills://{number}", name="mine")(lambda number: f"mine {number}")
    if conflict == "prompt":
        shop.prompt(name="b_dun")(lambda: "mine")
    if conflict == "workflow":
        shop.prompt(name="b_refund_order")(lambda: "mine")
    expected = [list(names) for names in (shop.tools, shop.resources, shop.prompts, shop.workflows, shop.completions)]

    with pytest.raises(RegistrationError, match="name" if conflict == "invalid" else "taken"):
        shop.include(billing, prefix="b b_" if conflict == "invalid" else "b_")

    assert expected == [
        list(names) for names in (shop.tools, shop.resources, shop.prompts, shop.workflows, shop.completions)
    ]


def test_an_included_tool_keeps_all_options_of_the_decorator() -> None:
    server = Server("shop")

    def refund(order_id: str) -> str:
        return order_id

    assert server.add_tool(refund) is refund
    server.add_tool(
        lambda: "x", name="other", title="Other", description="Another.", annotations={"readOnlyHint": True}
    )

    with connect(server) as client:
        first, second = client.list_tools()
        assert client.call_tool("other").value == "x"
    assert first["name"] == "refund"
    assert second | {"inputSchema": 0} == {
        "name": "other",
        "title": "Other",
        "description": "Another.",
        "annotations": {"readOnlyHint": True},
        "inputSchema": 0,
    }
    with pytest.raises(RegistrationError, match="tool 'refund': its function is published twice"):
        server.add_tool(refund)


def test_steps_that_name_a_function_use_its_name_with_the_prefix_after_include() -> None:
    billing = Server("billing")

    @billing.tool(name="charge_card")
    def charge() -> str:
        return "charged"

    billing.add_workflow(Workflow(name="pay", description="pay", steps=[ToolStep("charge", tool=charge)]))
    server = Server("shop")
    server.include(billing, prefix="one_")
    server.include(billing, prefix="two_")
    server.check()

    tools = [step.tool for flow in server.workflows.values() for step in flow.steps]
    assert tools == ["one_charge_card", "two_charge_card"]
