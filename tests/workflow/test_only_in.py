"""Tools that run only as a step of some workflows, tested at each entry point (docs/tools.md, Only in a workflow)."""

import re
from collections.abc import Callable
from typing import Annotated, Any

import pytest

from mcp_baton import Argument, ListStep, Server, ToolError, ToolStep, Workflow, constant, item, step
from mcp_baton.exceptions import RegistrationError, WorkflowError
from mcp_baton.testing import Client, Connect, Result, connect
from tests.support.client import Era

REFUSAL = (
    "not started: pay runs only as a step of refund, when it is that step's turn. Nothing was run. Call refund: the"
)


class Bank:
    """A server whose tool `pay` runs only in the workflow `refund`, which has the steps `fetch`, `pay` and `mail`."""

    def __init__(self, **options: Any) -> None:
        self.payments: list[str] = []
        self.is_down = {"fetch": False, "pay": False}
        self.server = Server("bank", task_ids="text")
        self.server.add_tool(self.fetch)
        self.server.add_tool(self.pay, only_in=["refund"], **options)
        fetch = ToolStep("fetch", tool="fetch", retryable=True)
        pay = ToolStep("pay", {"order": constant("A-17")}, tool="pay", retryable=True)
        mail = ToolStep("mail", tool="fetch")
        self.server.add_workflow(Workflow(name="refund", description="refund", steps=[fetch, pay, mail]))

    def fetch(self) -> str:
        """Fetch an order."""
        if self.is_down["fetch"]:
            raise ToolError("fetch is down")
        return "A-17"

    def pay(self, order: str) -> str:
        """Pay an order."""
        self.payments.append(order)
        if self.is_down["pay"]:
            raise ToolError("pay is down")
        return f"paid {order}"


def test_the_tool_runs_in_a_run_and_in_a_resume(baton: Connect, era: Era) -> None:
    bank = Bank()
    client = baton(bank.server, era=era)
    bank.is_down["fetch"] = True
    run = client.get_prompt("refund")
    bank.is_down["fetch"] = False

    assert bank.payments == []
    assert client.call_workflow("refund", task=run.task_id).completed
    assert client.call_workflow("refund").completed
    assert bank.payments == ["A-17", "A-17"]


OTHER_CALLS: dict[str, Callable[[Client, str], Result]] = {
    "without a task": lambda client, _: client.call_tool("pay", {"order": "A-17"}),
    "with an unknown task": lambda client, _: client.call_tool("pay", {"order": "A-17"}, task="0" * 38),
    "with no id": lambda client, _: client.call_tool("pay", {"order": "A-17"}, task="not an id"),
    "with a foreign task": lambda client, task: client.as_owner("eve").call_tool("pay", {"order": "A-17"}, task=task),
    "in the background": lambda client, _: client.start_task("pay", {"order": "A-17"}).wait().result,
}


@pytest.mark.parametrize("how", OTHER_CALLS)
def test_a_call_outside_of_its_workflow_is_refused(baton: Connect, era: Era, how: str) -> None:
    bank = Bank(task="optional") if how == "in the background" else Bank()
    client = baton(bank.server, era=era)
    result = OTHER_CALLS[how](client, paused_task(client, bank, "pay"))

    assert result.is_error
    assert result.text.startswith(REFUSAL)
    assert bank.payments == []


def test_a_refused_call_is_not_recorded_and_not_suggested(baton: Connect, era: Era) -> None:
    bank = Bank()
    client = baton(bank.server, era=era)
    task = paused_task(client, bank, "fetch")
    before = client.task(task)

    refused = client.call_tool("pay", {"order": "A-17"}, task=task)
    after, following = client.task(task), refused.meta["next"]
    assert isinstance(following, list)

    assert (refused.is_error, refused.recorded, refused.steps) == (True, False, before.steps)
    assert (after.steps, after.pause) == (before.steps, before.pause)
    assert not any("pay" in name for name in after.variables)
    assert "pay" not in [entry.get("tool") for entry in following if isinstance(entry, dict)]


def paused_task(client: Client, bank: Bank, step_name: str) -> str:
    bank.is_down[step_name] = True
    task_id = client.call_workflow("refund").task_id
    bank.is_down[step_name] = False
    bank.payments.clear()
    return task_id


def test_a_continuation_runs_the_tool_only_if_its_step_is_next(baton: Connect, era: Era) -> None:
    bank = Bank()
    client = baton(bank.server, era=era)
    task = paused_task(client, bank, "fetch")

    early_call = client.call_tool("pay", {"order": "A-17"}, task=task)
    client.call_tool("fetch", task=task)
    due_call = client.call_tool("pay", {"order": "A-17"}, task=task)
    second_call = client.call_tool("pay", {"order": "A-17"}, task=task)
    run = client.call_workflow("refund", task=task)
    late_call = client.call_tool("pay", {"order": "A-17"}, task=task)

    assert [result.is_error for result in (early_call, due_call, second_call, late_call)] == [True, False, True, True]
    assert all(REFUSAL in result.text for result in (early_call, second_call, late_call))
    assert run.completed
    assert bank.payments == ["A-17"]


def test_a_failed_step_whose_condition_needs_a_secret_can_be_corrected(baton: Connect) -> None:
    server = Server("bank")

    @server.tool(only_in=["refund"])
    def pay(order: str) -> str:
        if order == "A-17":
            raise ToolError("there is no such order")
        return order

    @server.workflow
    def refund(pin: Annotated[str, Argument(secret=True)]) -> None:
        step(pay, when=pin == "4711")(order="A-17")

    client = baton(server)
    task = client.call_workflow("refund", {"pin": "4711"}).task_id
    assert client.call_tool("pay", {"order": "B-2"}, f"{task}/pay").text.startswith("B-2")


def test_a_tool_of_an_included_server_keeps_its_workflows_with_the_prefix() -> None:
    bank, server = Bank(), Server("all")
    server.include(bank.server, prefix="bank_")
    with connect(server) as client:
        result = client.call_tool("bank_pay", {"order": "A-17"})
        completed = client.call_workflow("bank_refund").completed

    assert "bank_pay runs only as a step of bank_refund" in result.text
    assert completed
    assert bank.payments == ["A-17"]


def test_a_continuation_of_a_list_runs_only_for_its_open_elements() -> None:
    server, payments, failing_orders = Server("bank", task_ids="text"), list[str](), {"b"}

    @server.tool
    def fetch() -> list[str]:
        """Fetch orders."""
        return ["a", "b"]

    @server.tool(only_in=["refund"])
    def pay(order: str) -> str:
        """Pay an order."""
        if order in failing_orders:
            raise ToolError(f"{order} is down")
        payments.append(order)
        return order

    fetch_step = ToolStep("fetch", tool="fetch")
    steps = [fetch_step, ListStep("pay", {"order": item()}, tool="pay", each=fetch_step)]
    server.add_workflow(Workflow(name="refund", description="refund", steps=steps))
    with connect(server) as client:
        run = client.call_workflow("refund")
        failing_orders.clear()
        open_call = client.call_tool("pay", {"order": "b"}, task=run.task_id)
        unknown_call = client.call_tool("pay", {"order": "c"}, task=run.task_id)

    assert (open_call.is_error, unknown_call.is_error) == (False, True)
    assert payments == ["a", "b"]


def test_the_description_names_the_workflows_in_which_the_tool_runs() -> None:
    with connect(Bank().server) as client:
        descriptions = {tool["name"]: tool["description"] for tool in client.list_tools()}

    assert descriptions["pay"] == "Pay an order.\n\nRuns only as a step of refund."
    assert descriptions["fetch"] == "Fetch an order."


@pytest.mark.parametrize(
    ("only_in", "durable", "cause"),
    [
        (
            ["refnd"],
            True,
            "workflow 'refnd': the tool 'pay' has only_in='refnd', which is not a workflow; did you mean",
        ),
        (["refund"], False, "the tool 'pay' has only_in='refund', which has no tasks; leave out durable=False"),
        (["other"], True, "workflow 'refund': the tool 'pay' runs only in other; add 'refund' to its only_in"),
    ],
)
def test_mistakes_are_found_when_the_handler_is_built(only_in: list[str], durable: bool, cause: str) -> None:
    server = Server("bank")

    @server.tool(only_in=only_in)
    def pay() -> None:
        """Pay."""

    steps = [ToolStep("pay", tool="pay")]
    server.add_workflow(Workflow(name="refund", description="refund", steps=steps, durable=durable))
    server.add_tool(lambda: None, name="nothing")
    other_steps = [ToolStep("nothing", tool="nothing")]
    server.add_workflow(Workflow(name="other", description="nothing", steps=other_steps))

    with pytest.raises(WorkflowError, match=re.escape(cause)):
        server.check(in_full=False)


def test_only_in_is_a_list() -> None:
    with pytest.raises(RegistrationError, match=re.escape("only_in is a list of workflows; write only_in=['refund']")):
        Server("bank").add_tool(lambda: None, name="pay", only_in="refund")
