"""`tasks/*` for workflow tasks, in both eras (docs/http.md)."""

import re
from typing import Any

import pytest

from mcp_baton import Server, ToolError, ToolStep, Workflow
from mcp_baton.present.pause_sentences import PAUSED_FOR_MODEL
from mcp_baton.protocol.envelope import CAPABILITIES_KEY, TASKS_EXTENSION
from mcp_baton.tasks.ids import new_task_id
from tests.support.client import Answer, Client, Era, JsonDict, Table, related_meta
from tests.support.handler import MakeClient

UNKNOWN_TASK = new_task_id(0)
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
NOTHING = {"resultType": "complete", "_meta": None}
METHODS = {
    "2025": ["get", "result", "cancel"],
    "2026": ["get", "update", "cancel"],
}


def flow_server() -> Server:
    server = Server("s")

    @server.tool
    def work() -> int:
        return 1

    @server.tool
    def fails() -> None:
        raise ToolError("no")

    steps = [ToolStep("one", tool="work"), ToolStep("two", tool="fails")]
    server.add_workflow(Workflow(name="done", description="work", steps=steps[:1]))
    server.add_workflow(Workflow(name="paused", description="work", steps=steps))
    return server


def begin(make_client: MakeClient, era: Era, workflow: str = "paused") -> tuple[Client, str]:
    client = make_client(flow_server(), era=era)
    return client, client.get_prompt(workflow).task_id


def ask(client: Client, method: str, task: str) -> Answer:
    return client.task(method, task, **({"inputResponses": {}} if method == "update" else {}))


WORDS: dict[Era, JsonDict] = {
    "2025": {"ttl": 3_600_000, "pollInterval": 1_000},
    "2026": {"ttlMs": 3_600_000, "pollIntervalMs": 1_000, "resultType": "complete"},
}
RESULT = {"completed": True, "steps_completed": 1}


@pytest.mark.parametrize(("workflow", "status"), [("paused", "working"), ("done", "completed")])
def test_tasks_get_shows_the_task_in_the_format_of_its_era_and_in_2026_with_its_result(
    make_client: MakeClient, era: Era, workflow: str, status: str
) -> None:
    client, task = begin(make_client, era, workflow)
    result = client.task("get", task).result
    created_at, updated_at = result.pop("createdAt"), result.pop("lastUpdatedAt")
    assert all(map(TIMESTAMP.fullmatch, (created_at, updated_at)))
    assert created_at <= updated_at
    extra_members: JsonDict = {"result": RESULT} if (era, workflow) == ("2026", "done") else {}
    if workflow == "paused":
        extra_members["statusMessage"] = PAUSED_FOR_MODEL
    assert {**result, "_meta": None} == {"taskId": task, "status": status, **WORDS[era], **extra_members, "_meta": None}
    if (era, workflow) == ("2025", "done"):
        assert client.task("result", task).result == {"result": RESULT, "_meta": related_meta("2025", task)}


def test_tasks_result_of_a_paused_workflow_is_refused_at_once_with_its_progress(make_client: MakeClient) -> None:
    client, task = begin(make_client, "2025")
    answer = client.task("result", task)
    assert answer.refusal == (200, -32600)
    assert answer.error["data"] == {"status": "working", "progress": client.variables(task)["_workflow.progress"]}


def test_tasks_cancel_returns_the_task_in_2025_and_nothing_in_2026(make_client: MakeClient, era: Era) -> None:
    client, task = begin(make_client, era)
    answer = client.task("cancel", task)
    if era == "2025":
        assert (answer.result["taskId"], answer.result["status"]) == (task, "cancelled")
    else:
        assert ({**answer.result, "_meta": None}, answer.meta) == (NOTHING, {})
    assert client.task("get", task).result["status"] == "cancelled"


def test_tasks_cancel_with_a_result_completes_the_task_with_it(make_client: MakeClient, era: Era) -> None:
    client, task = begin(make_client, era)
    task_result, variables_before = {"answer": 42.0, "notes": [None, ""]}, client.variables(task)
    result = client.task("cancel", task, result=task_result).result
    assert result.get("status") == ("completed" if era == "2025" else None)
    del variables_before["_workflow.pause_reason"]  # an ended task waits for nothing
    assert client.variables(task) == variables_before
    assert client.task("get", task).meta["mcp-baton/result_by"] == "client"
    assert client.in_era("2025").task("result", task).result["result"] == task_result
    state = client.in_era("2026").task("get", task).result
    assert (state["status"], state["result"]) == ("completed", task_result)


@pytest.mark.parametrize("result", [None, "done", 5, [], True])
def test_a_result_that_is_no_object_is_refused(make_client: MakeClient, era: Era, table: Table, result: Any) -> None:
    client, task = begin(make_client, era)
    assert client.task("cancel", task, result=result).refusal == (200 if era == "2025" else 400, -32602)
    assert table.statuses == ["working"]


@pytest.mark.parametrize("first", [{}, {"result": {"kept": True}}])
@pytest.mark.parametrize("second", [{}, {"result": {"kept": False}}])
def test_an_ended_task_does_not_change(
    make_client: MakeClient, era: Era, table: Table, first: dict[str, Any], second: dict[str, Any]
) -> None:
    client, task = begin(make_client, era)
    client.task("cancel", task, **first)
    item_before = table.item(task)
    answer = client.task("cancel", task, **second)
    if era == "2025":
        assert answer.refusal == (200, -32602)
    else:
        assert {**answer.result, "_meta": None} == NOTHING
    assert table.item(task) == item_before


def test_tasks_list_shows_the_owners_unexpired_tasks_newest_first(make_client: MakeClient, table: Table) -> None:
    client = make_client(flow_server())
    tasks = [client.get_prompt(workflow).task_id for workflow in ("done", "paused", "done", "done")]
    table.expire(tasks.pop())
    client.as_owner("bob").get_prompt("done")
    assert client.as_owner("carol").request("tasks/list").result == {"tasks": []}
    result = client.request("tasks/list").result
    assert [(task["taskId"], task["status"]) for task in result["tasks"]] == [
        (tasks[2], "completed"),
        (tasks[1], "working"),
        (tasks[0], "completed"),
    ]
    assert "nextCursor" not in result
    state = client.task("get", tasks[1]).result
    pause = state.pop("_meta")["_workflow.pause_reason"]
    assert result["tasks"][1].pop("_meta") == {
        "workflow": "paused",
        "step": pause["failedStep"],
        "pause_reason": {name: value for name, value in pause.items() if name != "error"},
    }
    assert result["tasks"][1] == state
    assert [task["_meta"] for task in (result["tasks"][0], result["tasks"][2])] == [{"workflow": "done"}] * 2


@pytest.mark.parametrize(
    "cursor", ["nonsense", 5, {"a": 1}, UNKNOWN_TASK], ids=["text", "number", "object", "a task's id"]
)
def test_an_invalid_cursor_is_refused(make_client: MakeClient, cursor: Any) -> None:
    assert make_client(flow_server()).request("tasks/list", {"cursor": cursor}).refusal == (200, -32602)


def test_tasks_update_accepts_an_object_of_responses_and_changes_nothing(make_client: MakeClient, table: Table) -> None:
    client, task = begin(make_client, "2026")
    item_before = table.item(task)
    answer = client.task("update", task, inputResponses={"unknown": {"action": "accept"}})
    assert {**answer.result, "_meta": None} == NOTHING
    assert client.task("update", task, inputResponses=[]).refusal == (400, -32602)
    assert table.item(task) == item_before


@pytest.mark.parametrize(
    ("era", "method", "status"),
    [("2025", "tasks/update", 200), ("2026", "tasks/list", 404), ("2026", "tasks/result", 404)],
)
def test_a_method_of_the_other_era_is_unknown(make_client: MakeClient, era: Era, method: str, status: int) -> None:
    client, task = begin(make_client, era)
    assert client.request(method, {"taskId": task}).refusal == (status, -32601)


def test_unknown_expired_and_foreign_tasks_have_one_answer(make_client: MakeClient, era: Era, table: Table) -> None:
    client, expired_task = begin(make_client, era)
    foreign_task = client.as_owner("bob").get_prompt("paused").task_id
    table.expire(expired_task)
    for method in METHODS[era]:
        answers = [ask(client, method, task) for task in (UNKNOWN_TASK, expired_task, foreign_task, "no id at all", "")]
        assert {answer.body for answer in answers} == {answers[0].body}
        assert answers[0].refusal == (200 if era == "2025" else 400, -32602)


@pytest.mark.parametrize("task_id", [None, 5, ["x"], {}])
def test_a_task_id_that_is_not_a_string_is_refused(make_client: MakeClient, era: Era, task_id: Any) -> None:
    client = make_client(flow_server(), era=era)
    for method in METHODS[era]:
        answer = client.request(f"tasks/{method}", {"taskId": task_id, "inputResponses": {}})
        assert answer.refusal == (200 if era == "2025" else 400, -32602)


def test_a_client_of_2026_must_declare_the_extension(make_client: MakeClient) -> None:
    client, task = begin(make_client, "2026")
    for method in METHODS["2026"]:
        params = {"taskId": task, "inputResponses": {}}
        answer = client.request(f"tasks/{method}", params, {CAPABILITIES_KEY: {}})
        assert answer.refusal == (400, -32021)
        assert answer.error["data"] == {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}


def test_the_capabilities_for_tasks_have_the_format_of_each_era(make_client: MakeClient) -> None:
    client = make_client(flow_server())
    handshake = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    handshake_capabilities = client.request("initialize", handshake).result["capabilities"]
    assert handshake_capabilities["tasks"]["list"] == {}
    assert handshake_capabilities["tasks"]["cancel"] == {}
    assert TASKS_EXTENSION in client.in_era("2026").request("server/discover").result["capabilities"]["extensions"]
