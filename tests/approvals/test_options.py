"""Each option of an approval, in each way to make the call that it guards (docs/approvals.md).

A new option must be added to the table here. Until then, a test fails.
"""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from mcp_baton import Approval, ListStep, Server, ToolStep, Workflow, constant, item
from mcp_baton.testing import Client, connect
from tests.approvals.bank import kim, waiting_ids
from tests.workflow.test_kinds import task_of

OPTIONS: Final[Mapping[str, Any]] = {
    "audience": "refunds",
    "message": "Work on {value}?",
    "when": lambda **_: True,
    "expires": timedelta(hours=1),
    "by_requester": True,
}
"""An example of each option."""


def resume(client: Client) -> None:
    client.call_workflow("flow", task=task_of(client))


def continuation(client: Client) -> None:
    client.call_tool("work", {"value": "x"}, task=f"{task_of(client)}/s")


def element(client: Client) -> None:
    client.call_tool("work", {"value": "x"}, task=f"{task_of(client)}/s/0")


def wait(_client: Client) -> None:
    """Do nothing: the decision wakes the worker."""


WAYS: Final[Mapping[str, tuple[Callable[[Client], None], dict[str, Any]]]] = {
    "run": (resume, {}),
    "tool": (resume, {"of_tool": True}),
    "list": (resume, {"each": True}),
    "parallel": (resume, {"parallel": 3}),
    "continuation": (continuation, {}),
    "element": (element, {"each": True}),
    "worker": (wait, {"background": True}),
}


class Guarded:
    """A server whose workflow has a guarded step `s`, and a step `later` after it."""

    def __init__(self, approval: Approval, *, of_tool: bool = False, each: bool = False, **options: Any) -> None:
        self.calls: list[str] = []
        self.server = Server("guarded")
        self.server.add_tool(self.work, approval=approval if of_tool else None)
        self.server.add_tool(self.end)
        of_step = None if of_tool else approval
        step = ToolStep("s", {"value": constant("x")}, tool="work", approval=of_step)
        elements = ListStep("s", {"value": item()}, tool="work", each=constant(["x"]), approval=of_step)
        steps = [elements if each else step, ToolStep("later", tool="end", after=["s"])]
        self.server.add_workflow(Workflow(name="flow", description="run", steps=steps, **options))

    def work(self, value: str) -> str:
        self.calls.append(value)
        return value

    def end(self) -> None:
        """End."""


@cache
def end_of(option: str, way: str, decision: str) -> object:
    """Return the status of the step after the call that follows a decision; then, after a resume, the statuses, the
    pause reasons, and the calls of the tool."""
    make_call, options = WAYS[way]
    guarded = Guarded(Approval(**{"audience": "refunds", option: OPTIONS[option]}), **options)
    with connect(guarded.server) as client:
        started = client.start_task("flow") if options.get("background") else None
        if started is None:
            client.call_workflow("flow")
        [approval_id] = waiting_ids(client)
        getattr(kim(client), decision)(approval_id)
        if started is not None:
            started.wait()
        make_call(client)
        status = client.task(task_of(client)).steps["s"]
        if client.task(task_of(client)).status == "working":
            resume(client)
        task = client.task(task_of(client))
        return status, task.status, task.steps, [pause.type for pause in task.pauses], guarded.calls


@pytest.mark.parametrize("decision", ["approve", "deny"])
@pytest.mark.parametrize("way", [way for way in WAYS if way != "run"])
@pytest.mark.parametrize("option", OPTIONS)
def test_a_decision_has_the_same_effect_in_each_way(option: str, way: str, decision: str) -> None:
    assert end_of(option, way, decision) == end_of(option, "run", decision)


def test_the_table_and_the_page_have_every_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "approvals.md").read_text().partition("| argument of `Approval` |")[2]
    rows = re.findall(r"^\| `(\w+)(?:=[^`]+)?` \|", page.partition("\n\n")[0], re.MULTILINE)

    assert OPTIONS.keys() == set(Approval.__struct_fields__) == set(rows)
