"""The digest of a call: any change of the call changes it (docs/approvals.md, What an approval covers)."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from mcp_baton import Approval, Argument, Server, ToolStep, Workflow, prompt_arg
from mcp_baton.approvals.request import new_request
from mcp_baton.protocol.state import Seal
from mcp_baton.tasks.record import SALT
from mcp_baton.tools.calls import ToolCall
from mcp_baton.tools.outcomes import Prepared

ARGUMENTS = {"order": "A-17", "pin": "1234"}


def pay(order: str, pin: str) -> None:
    """Pay."""


def refund(order: str, pin: str) -> None:
    """Refund."""


SERVER = Server("bank")
SERVER.add_tool(pay)
SERVER.add_tool(refund)
STEP = ToolStep("pay", {"order": prompt_arg("order"), "pin": prompt_arg("pin")}, tool="pay")
SECRET = Argument("pin", secret=True)
WORKFLOW = Workflow(name="w", description="w", arguments=[Argument("order"), SECRET], steps=[STEP])


def task(task_id: str = "t-1", salt: str = "s") -> Any:
    return SimpleNamespace(task_id=task_id, variables={SALT: salt}, created_ms=0, ttl_ms=1_000)


CALL = ToolCall(WORKFLOW, STEP, "pay", task())
APPROVAL = Approval("refunds", message="Pay for {order}?")


def digest(
    owner: str = "ann",
    tool: str = "pay",
    approval: Approval = APPROVAL,
    arguments: dict[str, Any] = ARGUMENTS,
    tool_call: ToolCall = CALL,
    server: Server = SERVER,
) -> str:
    settings, services = SimpleNamespace(max_ttl_ms=0), SimpleNamespace(notifies=False, seal=Seal(lambda: [b"k"]))
    services.settings = settings
    execution: Any = SimpleNamespace(
        server=server.full_view, services=services, now_ms=lambda: 5, job_id=None, base_url=""
    )
    return new_request(execution, owner, tool, approval, Prepared(tool, arguments, arguments), tool_call).digest


def digest_of_other_schema() -> str:
    server = Server("bank")
    server.add_tool(pay, input_schema={"type": "object"})
    return digest(server=server)


def call_with(**changes: Any) -> ToolCall:
    return structs.replace(CALL, **changes)


@pytest.mark.parametrize(
    "changed_digest",
    [
        lambda: digest(owner="eve"),
        lambda: digest(tool="refund"),
        digest_of_other_schema,
        lambda: digest(arguments={**ARGUMENTS, "order": "B-1"}),
        lambda: digest(arguments={**ARGUMENTS, "pin": "1235"}),
        lambda: digest(tool_call=call_with(workflow=replace(WORKFLOW, name="v"))),
        lambda: digest(tool_call=call_with(name="pay[1]")),
        lambda: digest(tool_call=call_with(step=STEP.replace(binding="b"))),
        lambda: digest(tool_call=call_with(task=task("t-2"))),
        lambda: digest(tool_call=call_with(task=task(salt="other"))),
        lambda: digest(tool_call=call_with(task=None)),
        lambda: digest(approval=structs.replace(APPROVAL, audience="others")),
        lambda: digest(approval=structs.replace(APPROVAL, message="Pay {order}")),
    ],
)
def test_a_changed_member_changes_the_digest(changed_digest: Callable[[], str]) -> None:
    assert changed_digest() != digest()


def test_another_task_changes_the_digest_of_a_call_without_a_secret() -> None:
    open_workflow = replace(WORKFLOW, arguments=[])
    digests = {digest(tool_call=call_with(workflow=open_workflow, task=task(task_id))) for task_id in ("t-1", "t-2")}

    assert len(digests) == 2


@pytest.mark.parametrize(
    "same_digest",
    [
        digest,
        lambda: digest(arguments=dict(reversed(ARGUMENTS.items()))),
        lambda: digest(tool_call=call_with(by="run:2", before="x", is_turn=True)),
        lambda: digest(tool_call=call_with(step=STEP.replace(guidance="Be careful"))),
    ],
)
def test_the_same_call_has_the_same_digest(same_digest: Callable[[], str]) -> None:
    assert same_digest() == digest()
