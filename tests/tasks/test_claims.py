"""Claims: two resumes never run a step twice, and a resume takes over the task of a killed run (docs/workflows.md)."""

from typing import Any

import pytest

from mcp_baton.tasks.record import LEASE_MS, timestamp
from mcp_baton.testing import JsonRpcError, connect
from tests.background.test_stopped import STEPS, three_steps
from tests.support.background import Time
from tests.support.client import Answer, Script, Table
from tests.support.handler import MakeClient


def task_in(table: Table) -> str:
    [item] = table.items
    return item["sk"]["S"].removeprefix("TASK#")


def test_a_resume_of_a_claimed_task_runs_nothing_and_reports_the_end_of_the_claim(
    script: Script, make_client: MakeClient, table: Table
) -> None:
    clock, answers = Time(), list[Answer]()
    client = make_client(three_steps(run=script.run), now_ms=clock.now_ms, remaining_ms=lambda: 600_000)
    script.meanwhile["two"] = lambda: answers.extend(
        [
            client.get_prompt("flow", task=task_in(table)),
            client.request("tasks/get", {"taskId": task_in(table)}, {"mcp-baton/next": True}),
        ]
    )
    assert client.get_prompt("flow").statuses == ["completed"] * 3
    assert script.calls == [*STEPS]
    answer, view = answers
    assert (view.meta["mcp-baton/next"], view.meta["mcp-baton/running_until"]) == ([], timestamp(clock.ms + LEASE_MS))
    assert answer.error["code"] == -32600
    data = answer.error["data"]
    assert (data["status"], data["runningUntil"]) == ("working", timestamp(clock.ms + LEASE_MS))
    assert [step["status"] for step in data["progress"]["steps"]] == ["pending"] * 3


@pytest.mark.parametrize("moment", ["a step", "its end", "a checkpoint"])
def test_a_late_run_is_superseded_if_another_run_holds_its_task(
    script: Script, make_client: MakeClient, table: Table, moment: str
) -> None:
    clock = Time()
    server = three_steps(*(["two"] if moment == "a checkpoint" else []), run=script.run)
    times: dict[str, Any] = {"now_ms": clock.now_ms, "remaining_ms": lambda: 600_000}
    late_client, client = make_client(server, clock=clock.monotonic, **times), make_client(server, **times)
    step = "three" if moment == "its end" else "two"

    def stall() -> None:
        """Let the claim expire. Another run then takes the task and fails at the first step."""
        clock.pass_s(LEASE_MS / 1000 + 1)
        script.errors = {"one": "no"}
        client.get_prompt("flow", task=task_in(table))
        script.errors = {}

    script.meanwhile[step] = stall
    answer = late_client.get_prompt("flow")
    assert answer.meta["superseded"] is True
    assert answer.meta["persisted"] is False
    assert answer.handoff.startswith("This run was superseded: its claim expired")
    assert script.calls == [*STEPS[: 3 if moment == "its end" else 2], "one"]
    variables = client.variables(task_in(table))
    assert "_workflow.result.two" not in variables
    assert variables["_workflow.pause_reason"]["failedStep"] == "one"


@pytest.mark.parametrize("paused_before", [False, True])
def test_a_killed_run_is_interrupted_after_its_claim_and_can_be_resumed(script: Script, paused_before: bool) -> None:
    with connect(three_steps(run=script.run)) as client:
        script.errors = {"one": "no"} if paused_before else {}
        if paused_before:
            task = client.get_prompt("flow").task_id
            script.errors = {}
        with client.killed_after("two"):
            client.get_prompt("flow", task=task if paused_before else None)
        [record] = client.tasks()
        task = record.task_id
        # Until the claim ends, the run may be alive. The task shows no pause reason, not even an older one.
        assert "_workflow.pause_reason" not in client.task(task).variables
        with pytest.raises(JsonRpcError) as error_info:
            client.get_prompt("flow", task=task)
        assert error_info.value.code == -32600
        client.clock.advance(LEASE_MS / 1000 + 1)
        reason = {"type": "interrupted", "blockedStep": "one", "suggestedTool": "one"}
        assert client.task(task).variables["_workflow.pause_reason"] == reason
        continuation = client.call_tool("one", task=task)
        assert continuation.recorded
        assert continuation.meta["pause_reason"] == {**reason, "blockedStep": "two", "suggestedTool": "two"}
        script.take()
        assert (client.get_prompt("flow", task=task).completed, script.calls) == (True, ["two", "three"])


def test_a_task_is_not_interrupted_any_more_after_calls_have_completed_its_steps(script: Script) -> None:
    with connect(three_steps(run=script.run)) as client:
        with client.killed_after("two"):
            client.get_prompt("flow")
        [task] = client.tasks()
        client.clock.advance(LEASE_MS / 1000 + 1)
        metas = [client.call_tool(name, task=task.task_id).meta for name in STEPS]
        assert ["pause_reason" in meta for meta in metas] == [True, True, False]
        assert "_workflow.pause_reason" not in client.task(task.task_id).variables


def test_a_continuation_is_recorded_during_a_run(script: Script, make_client: MakeClient, table: Table) -> None:
    answers = list[Answer]()
    client = make_client(three_steps(run=script.run))
    script.meanwhile["one"] = lambda: answers.append(client.call_tool("two", task=task_in(table)))
    assert client.get_prompt("flow").statuses == ["completed"] * 3
    assert answers[0].meta["recorded"] is True
    assert "pause_reason" not in answers[0].meta
