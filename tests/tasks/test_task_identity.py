"""The identity with which a worker runs a call, and what is stored of it (docs/background.md, On whose behalf)."""

import json
from threading import Barrier, Thread
from typing import Any

import pytest

from mcp_baton import Context, Server, ToolStep, Workflow
from mcp_baton.protocol.envelope import CAPABILITIES_KEY, TASKS_EXTENSION
from tests.fakes import FunctionContext
from tests.questions.test_asked_by_tools import FORM
from tests.questions.test_task_questions import ALL, name_answer
from tests.support.background import Background, MakeBackground, call
from tests.support.client import BOUND_S, Answer, Era, JsonDict, proxy_event

SECRET = "eyJhbGciOiJSUzI1NiJ9.secret.signature"


def identity_server(meeting: Barrier | None = None) -> Server:
    """Return a server whose tools return their caller's identity."""
    server = Server("identity")

    @server.tool(task="optional")
    def whoami(ctx: Context) -> list[Any]:
        if meeting is not None:
            meeting.wait(BOUND_S)
        return [ctx.owner, dict(ctx.claims)]

    @server.tool(task="optional", requires=("orders:write",))
    def refund() -> str:
        return "refunded"

    @server.tool(task="optional")
    def breaks(ctx: Context) -> str:
        raise RuntimeError(f"the password of {ctx.owner} is s3cret")

    @server.tool(task="optional")
    def asks(ctx: Context) -> str:
        return str(ctx.elicit("Who?", FORM, key="who").content["name"])

    steps = [ToolStep("who", tool="whoami")]
    server.add_workflow(Workflow(name="flow", description="say who", steps=steps, background=True))
    return server


def send(jobs: Background, tool: str, owner: str, scope: str | None = None, **headers: str) -> Answer:
    """Call a tool as a task. The authorizer also passes on the caller's email address and scope."""
    claims = {"sub": owner, "email": f"{owner}@example.com", **({"scope": scope} if scope else {})}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        CAPABILITIES_KEY: {**ALL, "extensions": {TASKS_EXTENSION: {}}},
    }
    params = {"name": tool, "arguments": {}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    mcp_headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}
    context = {"requestId": "api-1", "authorizer": {"claims": claims}}
    event = proxy_event(body, owner, {**mcp_headers, **headers}, requestContext=context)
    response = jobs.container()(event, FunctionContext(lambda: 60_000, "request-7"))
    return Answer(response["statusCode"], response["headers"], response["body"])


def value_of(jobs: Background, task: str, owner: str, scope: str = "") -> Any:
    result = jobs.client(owner=owner).with_claims(scope=scope).task("get", task).result["result"]
    return result["structuredContent"]["result"]


@pytest.fixture
def jobs(background: MakeBackground) -> Background:
    return background(identity_server())


def test_a_reused_worker_runs_each_call_with_its_own_caller(jobs: Background) -> None:
    worker: Any = jobs.container()
    tasks = [
        (owner, send(jobs, "whoami", owner, f"of:{owner}").result["taskId"]) for owner in ("alice", "bob", "alice")
    ]
    for event in jobs.queue.events:
        worker(dict(event), FunctionContext(lambda: 900_000, "worker-1"))

    for owner, task in tasks:
        assert value_of(jobs, task, owner) == [owner, {"scope": [f"of:{owner}"]}]
        other_owner = "bob" if owner == "alice" else "alice"
        assert jobs.client(owner=other_owner).task("get", task).error["message"] == "Unknown task"


def test_simultaneous_calls_in_one_process_do_not_see_each_others_caller(background: MakeBackground) -> None:
    jobs = background(identity_server(Barrier(2)))
    worker: Any = jobs.container()
    tasks = {owner: send(jobs, "whoami", owner, f"of:{owner}").result["taskId"] for owner in ("alice", "bob")}
    context = FunctionContext(lambda: 900_000, "worker-1")
    threads = [Thread(target=worker, args=(dict(event), context)) for event in jobs.queue.events]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND_S)

    for owner, task in tasks.items():
        assert value_of(jobs, task, owner) == [owner, {"scope": [f"of:{owner}"]}]


def test_a_worker_has_the_scopes_of_the_request_that_created_its_task(jobs: Background) -> None:
    assert send(jobs, "refund", "alice").refusal == (400, -32602)
    task = send(jobs, "refund", "alice", "orders:write orders:read").result["taskId"]

    # The worker runs the call with the scopes of its request. Reading the result needs the tool's scope.
    assert jobs.work() == "completed"
    assert value_of(jobs, task, "alice", "orders:write") == "refunded"
    assert jobs.client().task("get", task).error["message"] == "Unknown task"


def test_scopes_with_any_characters_are_the_same_in_the_worker(jobs: Background) -> None:
    scopes = ["[orders:write", "orders:read]"]
    client = jobs.client("2025").with_claims(scp=scopes)
    answer = client.request("tools/call", {"name": "whoami", "arguments": {}, "task": {}})
    jobs.work()

    task = answer.result["task"]["taskId"]
    [_, claims] = client.task("result", task).result["structuredContent"]["result"]
    assert claims == {"scope": scopes}
    refund_answer = client.request("tools/call", {"name": "refund", "arguments": {}, "task": {}})
    assert refund_answer.error["message"] == "Unknown tool: refund"


def test_a_tool_that_now_requires_more_scopes_is_not_run(jobs: Background, background: MakeBackground) -> None:
    task = send(jobs, "refund", "alice", "orders:write").result["taskId"]
    new_server = Server("identity")
    calls: list[str] = []

    @new_server.tool(task="optional", requires=("orders:write", "orders:admin"))
    def refund() -> str:
        calls.append("refund")
        return "refunded"

    new_jobs = Background(new_server, jobs.table, {}, jobs.time, jobs.queue)
    assert new_jobs.work() == "failed"
    state = new_jobs.client().with_claims(scope="orders:write orders:admin").task("get", task).result
    assert (state["status"], state["error"]["message"], calls) == ("failed", "Unknown tool: refund", [])


def test_an_error_in_a_worker_is_masked_and_its_id_is_in_the_workers_log(
    jobs: Background, era: Era, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        call(jobs.client(era), "breaks")
        jobs.work()
    [task] = [item["sk"]["S"].removeprefix("TASK#") for item in jobs.table.items]
    state = jobs.client(era).task("get", task).result
    result = state["result"] if era == "2026" else jobs.client(era).task("result", task).result
    assert result["content"][0]["text"] == "internal error in breaks (id worker-1)"
    assert "s3cret" not in json.dumps([state, result])
    assert "request worker-1: internal error in breaks" in caplog.text
    assert "s3cret" in caplog.text
    # This line of the log names the request that created the task.
    assert f"task {task}, created by request api-1: attempt 1" in caplog.text


def test_no_credentials_of_the_caller_are_stored(jobs: Background) -> None:
    headers = {"Authorization": f"Bearer {SECRET}", "Cookie": "session=c00kie", "X-Api-Key": "k3y"}
    task = send(jobs, "asks", "alice", "orders:write", **headers).result["taskId"]
    jobs.work()
    jobs.client().task("update", task, inputResponses={"who": name_answer("Kim")})

    stored_text = json.dumps([jobs.table.item(task), *jobs.table.items], default=str)
    for secret in (SECRET, "Bearer", "c00kie", "k3y", "alice@example.com"):
        assert secret not in stored_text
    assert "orders:write" in stored_text
    assert "alice@example.com" not in json.dumps(jobs.queue.events)
    [event] = jobs.queue.events
    assert event == {"batonTask": {"owner": "alice", "taskId": task, "dispatch": 2}}
    assert jobs.work() == "completed"


@pytest.mark.parametrize("tool", ["asks", "flow"])
def test_only_the_declared_capabilities_for_questions_are_stored(jobs: Background, tool: str) -> None:
    capabilities: JsonDict = {"elicitation": {}, "experimental": {"x": "private"}, "extensions": {TASKS_EXTENSION: {}}}
    jobs.client().request("tools/call", {"name": tool, "arguments": {}}, {CAPABILITIES_KEY: capabilities})

    stored_text = json.dumps(jobs.table.items, default=str)
    assert ("elicitation" in stored_text, "private" in stored_text) == (True, False)
