"""Continuations: `tools/call` with a task runs the tool and records the call in the task (docs/workflows.md)."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton import Context, Fetch, ListStep, Server, ToolError, ToolStep, Workflow, constant, item
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.values import Variables
from mcp_baton.tasks.ids import new_task_id
from mcp_baton.tasks.record import PROGRESS, StepStatus
from mcp_baton.tasks.store import Batch
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.testing import Client, Connect, Result
from mcp_baton.tools.outcomes import Failed, Outcome, Succeeded
from mcp_baton.workflow.continuation import ContinuationCall, MadeCall, matching_step
from mcp_baton.workflow.pause import FailedItem, PauseReason, SchemaMismatch, StepFailed
from mcp_baton.workflow.stored_pauses import parse_pauses
from tests.fakes import plan_of, statuses_of, task_of
from tests.support.client import Era, Table, related_meta
from tests.support.handler import MakeClient

UNKNOWN_TASK = new_task_id(0)
MISTAKE = {
    "type": "toolError",
    "failedStep": "a1",
    "error": "cannot say that",
    "retryable": False,
    "suggestedTool": "a",
}


def letters_server() -> Server:
    """Return a server whose workflow has the steps `a1`, `b1`, `a2` with the tools `a`, `b`, `a`. A tool fails if its
    text is `fail`."""
    server = Server("letters")

    def say(text: str) -> str:
        if text == "fail":
            raise ToolError("cannot say that")
        return text

    for name in ("a", "b", "c"):
        server.tool(name=name)(say)

    @server.tool
    def count(ctx: Context, by: int) -> Any:
        assert ctx.task is not None
        count = ctx.task.get("count", 0)
        assert isinstance(count, int)
        ctx.task["count"] = count + by
        return {"was": count}

    @server.tool
    def forget(ctx: Context) -> None:
        assert ctx.task is not None
        del ctx.task["count"]

    @server.tool
    def meddle(ctx: Context) -> None:
        assert ctx.task is not None
        ctx.task["_workflow.progress"] = {}

    steps = [
        ToolStep("a1", tool="a", arguments={"text": constant("fail")}),
        ToolStep("b1", tool="b", arguments={"text": constant("b")}, retryable=True),
        ToolStep("a2", tool="a", arguments={"text": constant("a")}),
    ]
    server.add_workflow(Workflow(name="flow", description="say letters", steps=steps))
    return server


@pytest.fixture
def client(baton: Connect) -> Client:
    """A client of the letters server."""
    return baton(letters_server())


@pytest.fixture
def task(client: Client) -> str:
    """A task whose first step has failed."""
    run = client.get_prompt("flow")
    assert run.steps == {"a1": "failed", "b1": "pending", "a2": "pending"}
    return run.task_id


def say(client: Client, task: str, call: str) -> Result:
    """Call a tool with a text, given as `tool:text`."""
    tool, _, text = call.partition(":")
    return client.call_tool(tool, {"text": text}, task=task)


def statuses(client: Client, task: str) -> list[str]:
    return list(client.task(task).steps.values())


def results(client: Client, task: str) -> dict[str, Any]:
    prefix = "_workflow.result."
    variables = client.task(task).variables
    return {name.removeprefix(prefix): value for name, value in variables.items() if name.startswith(prefix)}


def test_the_meta_of_a_recorded_call_is_exactly_the_tasks_state(make_client: MakeClient, era: Era) -> None:
    client = make_client(letters_server(), era=era)
    task = client.get_prompt("flow").task_id
    assert client.call_tool("b", {"text": "hello"}, task=task).meta == {
        "task_id": task,
        "task_status": "working",
        "steps": [
            {"name": "a1", "status": "failed"},
            {"name": "b1", "status": "completed"},
            {"name": "a2", "status": "pending"},
        ],
        "pause_reason": MISTAKE,
        "next": [{"tool": "flow", "arguments": {"task_id": task}}],
        "recorded": True,
        **related_meta(era, task),
    }


@pytest.mark.parametrize("text", ["hello", "fail"])
def test_a_tools_result_is_the_same_with_and_without_a_task(client: Client, task: str, text: str) -> None:
    answer = client.call_tool("b", {"text": text})
    assert (answer.meta, answer.is_error) == ({}, text == "fail")
    for task_id in (task, UNKNOWN_TASK):
        result = client.call_tool("b", {"text": text}, task=task_id)
        assert (result.content, result.structured, result.is_error) == (
            answer.content,
            answer.structured,
            answer.is_error,
        )


def test_results_are_recorded_as_matching_steps_and_failures_pause(client: Client, task: str) -> None:
    def statuses_after(call: str) -> list[str]:
        result = say(client, task, call)
        assert (result.recorded, result.meta["task_status"]) == (True, "working")
        assert result.meta.get("pause_reason") == client.task(task).variables.get("_workflow.pause_reason")
        assert result.steps == client.task(task).steps
        return list(result.steps.values())

    assert statuses_after("c:beside") == ["failed", "pending", "pending"]
    assert client.task(task).pause.to_dict() == MISTAKE
    assert statuses_after("b:fail") == ["failed", "failed", "pending"]
    pause = {**MISTAKE, "failedStep": "b1", "retryable": True, "suggestedTool": "b"}
    assert client.task(task).pause.to_dict() == pause
    assert results(client, task)["b1"] == {"error": "cannot say that"}
    assert statuses_after("a:one") == ["completed", "failed", "pending"]
    assert client.task(task).pause.step == "b1"
    assert statuses_after("b:two") == ["completed", "completed", "pending"]
    assert not client.task(task).paused
    assert statuses_after("b:fail") == ["completed", "completed", "pending"]
    assert statuses_after("a:three") == statuses_after("a:four") == ["completed"] * 3
    assert results(client, task) == {"a1": "one", "b1": "two", "a2": "four"}
    assert client.task(task).variables["_workflow.extra.c"] == "beside"


def test_invalid_arguments_fail_the_call_and_its_step(client: Client, task: str) -> None:
    assert client.call_tool("b", {"text": 5}, task=task).is_error
    assert statuses(client, task) == ["failed", "failed", "pending"]


@pytest.mark.parametrize("moment", ["before", "meanwhile"])
@pytest.mark.parametrize("status", ["cancelled", "completed"])
def test_a_call_does_not_change_a_finished_task(client: Client, task: str, status: str, moment: str) -> None:
    end_states: list[Any] = []

    def end() -> None:
        end_states.append(client.cancel(task) if status == "cancelled" else client.complete(task, {"ok": True}))

    if moment == "before":
        end()
    else:
        client.during("b", end)
    result = say(client, task, "b:late")
    assert (result.value, result.recorded, result.meta["task_status"]) == ("late", False, status)
    assert status in str(result.meta["record_error"])
    assert end_states == [client.task(task)]


@pytest.mark.parametrize("event", ["expires", "vanishes"])
def test_a_task_that_is_deleted_during_a_call_is_unknown(make_client: MakeClient, table: Table, event: str) -> None:
    actions: list[Callable[[], object]] = []
    server = letters_server()

    @server.tool
    def wait() -> None:
        actions.pop()()

    client = make_client(server)
    task = client.get_prompt("flow").task_id
    actions.append(lambda: None)
    unknown_answer = client.call_tool("wait", task=UNKNOWN_TASK)
    actions.append(lambda: table.expire(task) if event == "expires" else table.delete(task))
    answer = client.call_tool("wait", task=task)
    assert answer.body.replace(task, "ID") == unknown_answer.body.replace(UNKNOWN_TASK, "ID")
    assert table.items == [] or table.item(task)["version"] == {"N": "2"}


def test_missing_foreign_and_expired_tasks_give_one_result(make_client: MakeClient, era: Era, table: Table) -> None:
    client = make_client(letters_server(), era=era)
    expired_task = client.get_prompt("flow").task_id
    foreign_task = client.as_owner("bob").get_prompt("flow").task_id
    table.expire(expired_task)
    items_before = sorted(table.items, key=str)
    bodies = set()
    for task in (UNKNOWN_TASK, foreign_task, expired_task, "no id at all"):
        answer = client.call_tool("b", {"text": "hello"}, task=task)
        assert answer.result["content"] == [{"type": "text", "text": "hello"}]
        assert answer.meta["recorded"] is False
        bodies.add(answer.body.replace(task, "ID"))
    assert len(bodies) == 1
    assert sorted(table.items, key=str) == items_before


def test_a_tool_reads_writes_and_deletes_the_tasks_variables(client: Client, task: str) -> None:
    assert client.call_tool("count", {"by": 2}, task=task).value == {"was": 0}
    assert client.call_tool("count", {"by": 3}, task=task).value == {"was": 2}
    variables = client.task(task).variables
    assert (variables["count"], variables["_workflow.extra.count"]) == (5, {"was": 2})
    client.call_tool("forget", task=task)
    assert "count" not in client.task(task).variables


def test_tools_cannot_write_the_engines_variables(client: Client, task: str) -> None:
    assert client.call_tool("meddle", task=task).is_error
    assert statuses(client, task) == ["failed", "pending", "pending"]


def test_a_call_is_recorded_if_the_workflow_was_removed(client: Client, task: str) -> None:
    new_server = Server("later")

    @new_server.tool
    def b(text: str) -> str:
        return text

    assert say(client.deployed(new_server), task, "b:still").recorded
    assert statuses(client, task) == ["failed", "completed", "pending"]


def test_a_continuation_decodes_the_progress_once_as_read_and_once_as_written(
    client: Client, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = list[str]()
    decode = Variables.__getitem__

    def count_decode(self: Variables, name: str) -> Any:
        names.append(name)
        return decode(self, name)

    monkeypatch.setattr(Variables, "__getitem__", count_decode)

    say(client, task, "b:hello")

    assert names.count(PROGRESS) == 2


PENDING, COMPLETED, FAILED, SKIPPED = StepStatus
STEPS = [
    ToolStep("fetch", tool="fetch"),
    ToolStep("mail1", tool="mail"),
    Fetch("policy", resources=["docs://faq"]),
    ToolStep("mail2", tool="mail", retryable=True),
]
WORKFLOW = Workflow(name="w", description="d", steps=STEPS)
BLOCKED_MAIL1 = SchemaMismatch("mail1", ("to",), (), "mail")


def batch_of(
    letters: str,
    tool: str,
    outcome: Outcome,
    *,
    variables: TaskVariables | None = None,
    pause: PauseReason | None = None,
) -> Batch:
    changes = TaskVariables({}) if variables is None else variables
    plan = plan_of(task_of(WORKFLOW, letters, pause=pause), WORKFLOW)
    return MadeCall(plan, ContinuationCall(tool, {}), outcome, changes, matching_step(plan, tool, {})).batch()


EXTRA = {
    "no such step": ("pppp", "other", Succeeded([1]), [1]),
    "failed": ("pppp", "other", Failed("no"), {"error": "no"}),
    "a failure never overwrites a completed step's result": ("ccpc", "mail", Failed("no"), {"error": "no"}),
    "all skipped": ("ssss", "mail", Succeeded(1), 1),
}


@pytest.mark.parametrize(("statuses", "tool", "outcome", "value"), EXTRA.values(), ids=EXTRA)
def test_a_call_that_matches_no_step_is_an_extra_call(statuses: str, tool: str, outcome: Outcome, value: Json) -> None:
    batch = batch_of(statuses, tool, outcome, pause=BLOCKED_MAIL1)

    assert batch == Batch(variables={f"_workflow.extra.{tool}": value})


@pytest.mark.parametrize("outcome", [Succeeded("done"), Failed("no")])
def test_a_call_of_a_list_does_not_hide_that_another_one_may_have_happened(outcome: Outcome) -> None:
    steps = [ListStep("mail", tool="mail", arguments={"to": item()}, each=constant(["a", "b"]))]
    workflow = Workflow(name="w", description="d", steps=steps)
    failed = (FailedItem(0, "timed out"), FailedItem(1, "asks", asks_client=True))
    pause = StepFailed("mail", "no", True, "mail", True, failed_items=failed, failed_count=2, outcome_unknown=True)
    plan, call = plan_of(task_of(workflow, "f", pause=pause), workflow), ContinuationCall("mail", {"to": "b"})

    batch = MadeCall(plan, call, outcome, TaskVariables({}), matching_step(plan, "mail", {"to": "b"})).batch()

    [after] = parse_pauses(batch.pauses or ())
    assert isinstance(after, StepFailed)
    assert (after.outcome_unknown, after.asks_client) == (True, False)


def test_variables_of_the_tool_are_written() -> None:
    variables = TaskVariables({"gone": 1})
    variables["new"] = 2
    del variables["gone"]

    batch = batch_of("pppp", "other", Succeeded(3), variables=variables)

    assert batch.variables == {"new": 2, "_workflow.extra.other": 3}
    assert batch.removed == {"gone"}


LETTERS = st.text("cfps", min_size=4, max_size=4)
ENDINGS = st.builds(Succeeded, st.integers()) | st.builds(Failed, st.text())


@given(LETTERS, st.sampled_from(["fetch", "mail", "other"]), ENDINGS)
def test_a_continuation_never_reopens_a_step_or_completes_the_task(statuses: str, tool: str, outcome: Outcome) -> None:
    batch = batch_of(statuses, tool, outcome)

    assert batch.result is None
    assert len(batch.steps) + len(batch.variables) == 1
    for write in batch.steps:
        assert STEPS[write.index].name == write.name
        assert STEPS[write.index].tool == tool
        assert write.expected is statuses_of(statuses)[write.index]
        assert write.expected is not SKIPPED
        assert write.status is COMPLETED or write.expected is not COMPLETED
