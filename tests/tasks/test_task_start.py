"""Tools that start in the request and create their task themselves (docs/background.md)."""

from typing import Any

import pytest

from mcp_baton import Context, Server, ToolError, ToolStep, Workflow
from mcp_baton.protocol.envelope import CAPABILITIES_KEY, TASK_ID_KEY, TASKS_EXTENSION
from tests.questions.test_asked_by_tools import FORM, respond
from tests.questions.test_task_questions import name_answer
from tests.support.background import Background, MakeBackground, created_task
from tests.support.client import BOUND_S, Answer, Era, JsonDict, Sink
from tests.support.handler import Submit

TASKS: JsonDict = {"elicitation": {}, "extensions": {TASKS_EXTENSION: {}}}
KEY = b"k" * 32
NO_TASKS: JsonDict = {"elicitation": {}}


def explicit_server(runs: list[str]) -> Server:
    """Return a server with tools of `task_start="explicit"`. `runs` gets the idempotency key of each run, and `past`
    after the task's start."""
    server = Server("explicit")

    def pack_order(ctx: Context, amount: int) -> list[Any]:
        runs.append(ctx.idempotency_key)
        name = ctx.elicit("Who packs?", FORM, key="packer").content["name"]
        if name == "unknown person":
            return ["not packed", ctx.attempt]
        ctx.start_task()
        runs.append("past")
        return [name, amount]

    @server.tool(task="optional", task_start="explicit")
    def pack(ctx: Context, amount: int = 1) -> list[Any]:
        return pack_order(ctx, amount)

    @server.tool(task="required", task_start="explicit")
    def pack_later(ctx: Context, amount: int = 1) -> list[Any]:
        return pack_order(ctx, amount)

    @server.tool(task="required", task_start="explicit")
    async def asks_on(ctx: Context) -> list[Any]:
        first = ctx.elicit("First?", FORM, key="first").content["name"]
        ctx.start_task()
        second = ctx.elicit("Second?", FORM, key="second").content["name"]
        return [first, second]

    @server.tool(task="required", task_start="explicit")
    def fails_before(ctx: Context) -> str:
        raise ToolError("no paper")

    @server.tool(task="optional", task_start="explicit")
    def no_questions(ctx: Context) -> str:
        ctx.start_task()
        runs.append("past")
        return "done"

    @server.tool(task="optional")
    def from_its_call_on(ctx: Context) -> str:
        ctx.start_task()
        return "done"

    @server.tool
    def never_a_task(ctx: Context) -> str:
        ctx.start_task()
        return "done"

    add_workflows(server, runs)
    return server


def add_workflows(server: Server, runs: list[str]) -> None:
    @server.tool(task="required")
    def only_as_a_task() -> str:
        runs.append("past")
        return "done"

    for name, tool in (("flow", "no_questions"), ("later", "only_as_a_task")):
        server.add_workflow(Workflow(name=name, description="pack", steps=[ToolStep("pack", tool=tool)]))


@pytest.fixture
def runs() -> list[str]:
    return []


@pytest.fixture
def jobs(background: MakeBackground, runs: list[str]) -> Background:
    return background(explicit_server(runs), state_key=KEY)


def call(jobs: Background, tool: str, capabilities: JsonDict = TASKS, task: str | None = None, **params: Any) -> Answer:
    meta = {CAPABILITIES_KEY: capabilities, **({TASK_ID_KEY: task} if task else {})}
    return jobs.client().request("tools/call", {"name": tool, "arguments": {"amount": 2}, **params}, meta)


def round_of(question: Answer, name: str) -> JsonDict:
    answers = {key: name_answer(name) for key in question.result["inputRequests"]}
    return {"requestState": question.result["requestState"], "inputResponses": answers}


def result_of(jobs: Background, task: str, era: Era = "2026") -> JsonDict:
    assert jobs.status(task, era) == "completed"
    if era == "2025":
        return jobs.client(era).task("result", task).result
    result: JsonDict = jobs.client(era).task("get", task).result["result"]
    return result


def test_the_question_is_answered_before_the_task_is_created_and_the_worker_has_the_answer(
    jobs: Background, runs: list[str]
) -> None:
    question = call(jobs, "pack_later")
    assert (question.result["resultType"], "taskId" in question.result) == ("input_required", False)

    result = call(jobs, "pack_later", **round_of(question, "Kim")).result
    assert (result["resultType"], result["status"], "requestState" in result) == ("task", "working", False)
    assert (len(runs), len(jobs.queue.events)) == (2, 1)
    assert jobs.work() == "completed"
    # The idempotency key is the same before and after the task's start.
    assert runs == [runs[0]] * 3 + ["past"]
    assert len(runs[0]) == 32
    assert result_of(jobs, result["taskId"])["structuredContent"]["result"] == ["Kim", 2]


def test_a_function_may_also_ask_after_its_task_has_started(jobs: Background) -> None:
    question = call(jobs, "asks_on", arguments={})
    task = call(jobs, "asks_on", arguments={}, **round_of(question, "Kim")).result["taskId"]

    assert jobs.work() == "asked"
    # Questions that were answered before the task's start are not among its questions.
    assert list(jobs.client().task("get", task).result["inputRequests"]) == ["second"]
    jobs.client().task("update", task, inputResponses={"second": name_answer("Pat")})
    jobs.work()
    assert result_of(jobs, task)["structuredContent"] == {"result": ["Kim", "Pat"]}


def test_in_2025_the_question_is_on_the_calls_stream_which_ends_with_the_task(jobs: Background, submit: Submit) -> None:
    sink = Sink()
    params = {"name": "pack_later", "arguments": {}, "task": {"ttl": 60_000}}
    request = submit(sink, lambda: jobs.client("2025").request("tools/call", params))

    question = sink.next()
    assert question["method"] == "elicitation/create"
    assert respond(jobs.client("2025"), question, result=name_answer("Kim")).status == 202
    result = sink.next()["result"]
    assert set(result) == {"task", "_meta"}
    assert request.result(BOUND_S).body == ""
    jobs.work()
    assert result_of(jobs, result["task"]["taskId"], "2025")["structuredContent"]["result"][:2] == ["Kim", 1]


def test_a_function_that_ends_before_its_task_starts_is_answered_in_the_request(jobs: Background) -> None:
    question = call(jobs, "pack_later")
    result = call(jobs, "pack_later", **round_of(question, "unknown person")).result

    assert (result["resultType"], result["structuredContent"]) == ("complete", {"result": ["not packed", 1]})
    failure = call(jobs, "fails_before", arguments={}).result
    assert (failure["isError"], failure["content"][0]["text"]) == (True, "no paper")
    assert (jobs.queue.events, jobs.table.items) == ([], [])


def test_in_the_2025_era_a_function_that_ends_before_its_task_starts_gets_a_completed_task(jobs: Background) -> None:
    """In the 2025 era a client that asks for a task accepts no other reply."""
    params: JsonDict = {"name": "fails_before", "arguments": {}, "task": {}}

    task = created_task(jobs.client("2025").request("tools/call", params))
    assert (task["status"], jobs.queue.events) == ("completed", [])
    assert result_of(jobs, task["taskId"], "2025")["content"][0]["text"] == "no paper"


@pytest.mark.parametrize("tool", ["no_questions", "from_its_call_on", "never_a_task"])
def test_for_a_client_without_tasks_the_function_runs_in_the_request(jobs: Background, tool: str) -> None:
    for answer in (call(jobs, tool, NO_TASKS, arguments={}), jobs.client("2025").call_tool(tool)):
        assert answer.result["structuredContent"] == {"result": "done"}
    assert (jobs.queue.events, jobs.table.items) == ([], [])


def test_for_a_client_with_tasks_the_code_after_start_task_runs_in_the_worker_if_the_tool_supports_tasks(
    jobs: Background, runs: list[str]
) -> None:
    for tool in ("no_questions", "from_its_call_on"):
        task = call(jobs, tool, arguments={}).result["taskId"]
        assert runs == []
        assert jobs.work() == "completed"
        assert result_of(jobs, task)["structuredContent"] == {"result": "done"}
        runs.clear()
    assert call(jobs, "never_a_task", arguments={}).result["structuredContent"] == {"result": "done"}


@pytest.mark.parametrize("capabilities", [TASKS, NO_TASKS], ids=["tasks", "no tasks"])
@pytest.mark.parametrize(("name", "tool"), [("flow", "no_questions"), ("later", "only_as_a_task")])
def test_steps_and_continuations_run_in_the_request(
    jobs: Background, runs: list[str], capabilities: JsonDict, name: str, tool: str
) -> None:
    flow = jobs.client().request("prompts/get", {"name": name, "arguments": {}}, {CAPABILITIES_KEY: capabilities})
    assert (runs, flow.statuses) == (["past"], ["completed"])

    by_meta = call(jobs, tool, capabilities, task=flow.task_id, arguments={}).result
    by_argument = call(jobs, tool, capabilities, arguments={"task_id": flow.task_id}).result
    earlier_era = jobs.client("2025").call_tool(tool, {"task_id": flow.task_id}).result
    for result in (by_meta, by_argument, earlier_era):
        assert result["structuredContent"]["result"] == "done"
    assert (len(runs), jobs.queue.events) == (4, [])


def test_a_task_that_cannot_be_created_is_an_error_and_dispatches_no_worker(jobs: Background) -> None:
    limited_jobs = Background(jobs.server, jobs.table, {"max_tasks_per_owner": 1}, jobs.time, jobs.queue)
    assert call(limited_jobs, "no_questions", arguments={}).result["resultType"] == "task"

    answer = call(limited_jobs, "no_questions", arguments={})
    assert "nothing was run" in answer.error["message"] or "was not created" in answer.error["message"]
    assert len(jobs.queue.events) == 1


def test_invalid_arguments_create_no_task(jobs: Background) -> None:
    for tool in ("pack_later", "no_questions"):
        result = call(jobs, tool, arguments={"amount": "many", "other": 1}).result
        assert (result["isError"], result["resultType"]) == (True, "complete")
    assert (jobs.queue.events, jobs.table.items) == ([], [])
