"""After a decision, no reader of a task says that the task still waits for it (docs/approvals.md)."""

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from mcp_baton import Approval, Server, step
from mcp_baton.aws import dynamodb_store
from mcp_baton.cli.remote.client import Remote
from mcp_baton.cli.remote.printing import ProgressDisplay
from mcp_baton.cli.remote.questions import Terminal
from mcp_baton.cli.remote.table import tasks_of
from mcp_baton.settings import Settings
from mcp_baton.tasks.store import TaskStore
from tests.support.approvals import approvals_of, approver, decide
from tests.support.background import Background, MakeBackground
from tests.support.client import JsonDict

ENDS = ("approved", "denied", "expired", "withdrawn")


@pytest.fixture
def jobs(background: MakeBackground) -> Background:
    server = Server("shop", task_ids="text")

    @server.tool
    def find(order: str) -> float:
        return 250.0

    @server.tool(task="optional", approval=Approval("refunds", message="Refund {amount}?", expires=timedelta(hours=3)))
    def refund(amount: float) -> str:
        return f"refunded {amount}"

    @server.workflow(background=True)
    def refund_order(order: str) -> None:
        step(refund)(amount=step(find)(order=order))

    return background(server)


def store_of(jobs: Background) -> TaskStore:
    return dynamodb_store(jobs.table.name, Settings(), lambda: jobs.table.client, now_ms=jobs.time.now_ms)


def tool_result(jobs: Background, tool: str, arguments: JsonDict) -> JsonDict:
    """Call a tool in the 2025 era, where no call becomes a task by itself."""
    result: JsonDict = jobs.client("2025").request("tools/call", {"name": tool, "arguments": arguments}).result
    return result


def got(jobs: Background, task: str) -> object:
    return jobs.client().task("get", task).result


def got_in_2025(jobs: Background, task: str) -> object:
    return jobs.client("2025").task("get", task).result


def listed(jobs: Background, task: str) -> object:
    tasks = jobs.client("2025").request("tasks/list", {}).result["tasks"]
    return [entry for entry in tasks if entry["taskId"] == task]


def subscribed(jobs: Background, task: str) -> object:
    answer = jobs.client().request("subscriptions/listen", {"notifications": {"taskIds": [task]}})
    return [message for message in answer.messages if message.get("method") == "notifications/tasks"]


def command_line(jobs: Background) -> Remote:
    terminal, progress = Terminal(interactive=False), ProgressDisplay(shown=False)
    return Remote(tasks_of(store_of(jobs), "alice"), terminal, progress, lambda _seconds: None)


def shown_in_the_command_line(jobs: Background, task: str) -> object:
    return repr(command_line(jobs).task(task))


def listed_in_the_command_line(jobs: Background, task: str) -> object:
    return [entry for entry in command_line(jobs).tasks(None) if entry["taskId"] == task]


def shown(jobs: Background, task: str) -> object:
    return tool_result(jobs, "refund_order", {"task_id": task, "task_action": "show"})


def listed_by_the_tool(jobs: Background, task: str) -> object:
    return tool_result(jobs, "refund_order", {"task_action": "list"})


def continued(jobs: Background, task: str) -> object:
    return tool_result(jobs, "find", {"order": "another", "task_id": task})


def refused(jobs: Background, task: str) -> object:
    return tool_result(jobs, "find", {"order": "<result of refund>", "task_id": task})


ALL_READERS = (got, got_in_2025, listed, subscribed, shown_in_the_command_line, listed_in_the_command_line)
WORKFLOW_READERS = (*ALL_READERS, shown, listed_by_the_tool, continued, refused)

type Reader = Callable[[Background, str], object]


def end(jobs: Background, how: str, *tasks: str) -> None:
    """Approve or deny the approval, let it expire, or withdraw it by cancelling the tasks. No worker runs."""
    person = approver(jobs.client())
    [approval] = approvals_of(person)
    match how:
        case "expired":
            jobs.time.pass_s(timedelta(hours=3, seconds=1).total_seconds())
        case "withdrawn":
            for task in tasks:
                jobs.client().task("cancel", task)
            assert approvals_of(person) == []
        case _:
            decision = "approve" if how == "approved" else "deny"
            assert decide(person, approval, decision).status == 200


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("reader", ALL_READERS, ids=lambda reader: reader.__name__)
@pytest.mark.parametrize("tool", ["refund", "refund_order"])
def test_a_background_call_says_what_became_of_its_approval(
    jobs: Background, tool: str, reader: Reader, how: str
) -> None:
    task = jobs.begin(tool, {"amount": 250.0} if tool == "refund" else {"order": "A-1"})
    jobs.work()
    [approval] = approvals_of(approver(jobs.client()))
    assert "waits for an approval of refunds" in json.dumps(reader(jobs, task))

    end(jobs, how, task, *([approval["task"]] if tool == "refund_order" else []))

    text = json.dumps(reader(jobs, task))
    outcomes = {
        "approved": "approved by refunds",
        "denied": "denied by refunds",
        "expired": "the approval of refunds has expired",
        "withdrawn": "cancelled",
    }
    decided = "the approval of refunds was decided"
    assert (decided if tool == "refund" and how in ("approved", "denied") else outcomes[how]) in text
    assert "waits for an approval" not in text


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("reader", WORKFLOW_READERS, ids=lambda reader: reader.__name__)
def test_a_task_of_a_workflow_says_what_became_of_its_approval(jobs: Background, reader: Reader, how: str) -> None:
    job = jobs.begin("refund_order", {"order": "A-1"})
    jobs.work()
    [approval] = approvals_of(approver(jobs.client()))
    task = approval["task"]

    end(jobs, how, task, job)

    text = json.dumps(reader(jobs, task))
    outcomes = {"approved": "approvalGranted", "denied": "approvalDenied", "expired": "approvalExpired"}
    assert outcomes.get(how, "cancelled") in text
    assert "waits for an approval" not in text
    assert "cannot decide" not in text
    assert how == "withdrawn" or "approvalRequired" not in text
