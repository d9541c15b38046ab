"""Background tools with lost, doubled and late events, and with workers that are killed (docs/background.md)."""

import json
from typing import Any

import pytest

from mcp_baton import Context, ProtocolError, Server, ToolError
from mcp_baton.background import job
from mcp_baton.background.worker import StillHeld
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.record import LEASE_MS
from mcp_baton.tasks.texts import MAX_VALUE_BYTES
from tests.support.background import WORKER_MS, Background, MakeBackground, call, created_task
from tests.support.client import Era, Script, Table

LEASE_S = LEASE_MS / 1000

# The task has ended: it can be neither cancelled nor continued.
REMOVED = "The tool 'report' was removed from this server after the task was started. Nothing was run."


def job_server(script: Script) -> Server:
    server = Server("s")

    @server.tool(task="optional")
    def report(month: int = 1) -> str:
        return script.play("report", f"report {month}")

    @server.tool(task="required", idempotent=False)
    def pay() -> str:
        return script.play("pay", "paid")

    @server.tool(task="optional")
    def fails() -> None:
        raise ToolError("no such month")

    @server.tool(task="optional")
    def refuses() -> None:
        raise ProtocolError(-32099, "not today", {"until": "monday"})

    @server.tool(task="optional")
    def large(size: int) -> str:
        return "x" * size

    @server.tool(task="optional")
    def attempts(ctx: Context) -> list[Any]:
        script.play("attempts", None)
        return [ctx.attempt, ctx.idempotency_key, ctx.remaining_ms()]

    return server


@pytest.fixture
def jobs(background: MakeBackground, script: Script) -> Background:
    return background(job_server(script))


def test_a_worker_makes_the_call_and_clients_of_both_eras_get_its_result(
    jobs: Background, era: Era, script: Script
) -> None:
    task = jobs.begin("report", {"month": 3}, era)
    assert (script.take(), jobs.status(task, era)) == ([], "working")
    assert jobs.work() == "completed"
    assert script.take() == ["report"]
    expected = {"content": [{"type": "text", "text": "report 3"}], "structuredContent": {"result": "report 3"}}
    assert jobs.client("2026").task("get", task).result["result"] == {"resultType": "complete", **expected}
    result = jobs.client("2025").task("result", task).result
    assert result.pop("_meta") == {"io.modelcontextprotocol/related-task": {"taskId": task}}
    assert result == expected


def test_an_update_of_a_task_dispatches_it_again_if_that_is_due(jobs: Background) -> None:
    task = jobs.begin("report")
    jobs.queue.lose()
    jobs.time.s += 31
    jobs.client().task("update", task, inputResponses={})
    assert len(jobs.queue.events) == 1


def test_a_later_dispatch_does_not_touch_a_task_that_a_worker_holds(jobs: Background, script: Script) -> None:
    task = jobs.begin("report")
    jobs.time.s += 31
    jobs.status(task)
    first, second = jobs.queue.events
    outcomes = list[str]()
    script.meanwhile["report"] = lambda: outcomes.append(jobs.work(second))
    assert jobs.work(first) == "completed"
    assert (outcomes, script.take()) == (["held by another worker"], ["report"])


def test_a_stalled_worker_changes_nothing_after_another_worker_has_taken_its_task(
    jobs: Background, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The thread that checks the claim does not run during the test either.
    monkeypatch.setattr(job, "CHECK_AFTER_S", 60.0)
    task = jobs.begin("report")

    def take_over() -> None:
        jobs.time.s += LEASE_S + 1
        assert jobs.status(task) == "working"
        jobs.kill()

    script.meanwhile["report"] = take_over
    assert jobs.work().startswith(("dropped", "stopped"))
    assert jobs.head(task) == ("working", 2, 2)
    assert script.take() == ["report"] * 2


def test_a_task_whose_workers_die_three_times_has_failed(jobs: Background, script: Script) -> None:
    task = jobs.begin("report")
    for attempt in (1, 2, 3):
        jobs.kill()
        assert jobs.head(task)[2] == attempt
        jobs.time.s += 700
        state = jobs.client().task("get", task).result
    assert (state["status"], state["error"]["code"]) == ("failed", -32603)
    assert state["statusMessage"] == state["error"]["message"]
    assert (jobs.queue.events, script.take()) == ([], ["report"] * 3)
    assert jobs.client("2025").task("result", task).error["code"] == -32603


def test_a_worker_fails_the_task_if_no_attempt_is_left(jobs: Background, script: Script) -> None:
    task = jobs.begin("pay")
    (event,) = jobs.queue.events
    jobs.kill(event)
    jobs.time.s += LEASE_S + 1
    assert jobs.work(event) == "given up: failed"
    state = jobs.client().task("get", task).result
    assert (script.take(), state["status"]) == (["pay"], "failed")
    assert "it is not run again" in state["error"]["message"]


@pytest.mark.parametrize(
    ("tool", "arguments", "remaining_ms", "text"),
    [
        ("fails", {}, WORKER_MS, "no such month"),
        ("large", {"size": MAX_VALUE_BYTES}, WORKER_MS, str(MAX_VALUE_BYTES)),
        ("report", {}, 4_000, "not started"),
    ],
    ids=["an error of the tool", "a result over the size limit", "too little time"],
)
def test_an_error_of_the_tool_completes_the_task(
    jobs: Background, script: Script, tool: str, arguments: JsonObject, remaining_ms: int, text: str
) -> None:
    task = jobs.begin(tool, dict(arguments))
    assert jobs.work(remaining_ms=lambda: remaining_ms) == "completed"
    state = jobs.client().task("get", task).result
    assert (state["status"], state["result"]["isError"], script.take()) == ("completed", True, [])
    assert text in state["result"]["content"][0]["text"]


@pytest.mark.parametrize(
    ("tool", "error"),
    [
        ("refuses", {"code": -32099, "message": "not today", "data": {"until": "monday"}}),
        ("report", {"code": -32602, "message": REMOVED}),
    ],
    ids=["raised by the tool", "a removed tool"],
)
def test_a_json_rpc_error_is_the_tasks_error(jobs: Background, script: Script, tool: str, error: JsonObject) -> None:
    task = jobs.begin(tool)
    del jobs.server.tools["report"]
    assert (jobs.work(), script.take()) == ("failed", [])
    state = jobs.client().task("get", task).result
    assert (state["status"], state["error"]) == ("failed", error)
    assert jobs.client("2025").task("result", task).error == error


def test_a_result_that_is_too_long_for_an_answer_is_a_link(jobs: Background, era: Era) -> None:
    task = jobs.begin("large", {"size": 2_500_000}, era)
    assert jobs.work() == "completed"
    client = jobs.client(era)
    answer = client.task("get" if era == "2026" else "result", task).result
    result = answer["result"] if era == "2026" else answer
    [block] = result["content"]
    uri = block["text"].rpartition("Read the resource ")[2].rstrip(".")
    # A value of this size is only sent as a stream, and this client does not accept one.
    assert client.request("resources/read", {"uri": uri}).error["data"] == {"uri": uri, "bytes": 5_000_073}


def test_attempts_have_their_number_and_one_idempotency_key(jobs: Background, table: Table, script: Script) -> None:
    task = jobs.begin("attempts")
    (event,) = jobs.queue.events
    jobs.kill(event)
    # Lambda's retry takes the task over after the claim of the killed worker has ended.
    with pytest.raises(StillHeld):
        jobs.work(event)
    jobs.time.s += LEASE_S + 1
    assert jobs.work(event) == "completed"
    assert (script.take(), jobs.head(task)) == (["attempts"] * 2, ("completed", 1, 2))
    attempt, key, remaining_ms = jobs.client().task("get", task).result["result"]["structuredContent"]["result"]
    assert (attempt, len(key), remaining_ms) == (2, 32, 900_000)
    assert key == json.loads(table.item(task)["work"]["S"])["key"]


@pytest.mark.parametrize(
    "content", [{}, {"owner": "alice", "taskId": "t"}, {"owner": 1, "taskId": "t", "dispatch": 1}], ids=str
)
def test_an_event_that_is_not_batons_is_refused(jobs: Background, content: JsonObject) -> None:
    with pytest.raises(Exception, match="batonTask"):
        jobs.work({"batonTask": content})


def test_an_event_of_an_unknown_task_is_ignored(jobs: Background) -> None:
    task = jobs.begin("report")
    assert jobs.work({"batonTask": {"owner": "bob", "taskId": task, "dispatch": 1}}) == "not found"


def test_background_tasks_count_towards_the_owners_limit(background: MakeBackground, script: Script) -> None:
    jobs = background(job_server(script), max_tasks_per_owner=1)
    task = jobs.begin("report")
    answer = call(jobs.client(), "report")
    assert answer.refusal == (400, -32600)
    assert "1 live tasks" in answer.error["message"]
    assert len(jobs.queue.events) == 1
    jobs.work()
    assert jobs.status(task) == "completed"
    assert created_task(call(jobs.client(), "report"))["status"] == "working"
