"""The tasks that a caller may use, by the scopes of the caller's token (docs/tools.md, Scopes)."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from mcp_baton import Context, Server, ToolError, ToolStep, Workflow
from mcp_baton.protocol.envelope import Era
from mcp_baton.protocol.json import Json
from mcp_baton.server.methods import METHODS
from mcp_baton.tasks.ids import new_task_id
from mcp_baton.tasks.record import PROGRESS, TaskRecord, TaskStatus
from mcp_baton.tools.resource import value_uri
from mcp_baton.workflow.server_view import may_use
from tests.questions.test_asked_by_tools import FORM, respond
from tests.questions.test_task_questions import name_answer, stream_messages
from tests.sent import Requests
from tests.support.background import Background, MakeBackground
from tests.support.client import Answer, Client, JsonDict, task_meta
from tests.tasks.test_task_status import listen

PAYROLL = "payroll"


def payroll_server(*, payday: bool = True) -> Server:
    """Return a server with a tool and a workflow that need a scope, and some that need none."""
    server = Server("payroll")

    @server.tool(task="optional", requires=[PAYROLL])
    def salary(ctx: Context) -> str:
        return f"5000, approved by {ctx.elicit('Approve?', FORM, key='who').content['name']}"

    @server.tool(requires=[PAYROLL])
    def pay() -> str:
        raise ToolError("the account of Kim has 5000")

    @server.tool
    def note(text: str = "noted") -> str:
        return text

    @server.tool
    def fails() -> str:
        raise ToolError("no")

    pay_steps = [ToolStep("pay", tool="pay")] if payday else []
    server.add_workflow(Workflow(name="payday", description="pay", steps=[ToolStep("note", tool="note"), *pay_steps]))
    server.add_workflow(
        Workflow(
            name="harmless", description="note", steps=[ToolStep("note", tool="note"), ToolStep("two", tool="fails")]
        )
    )
    return server


@pytest.fixture
def jobs(background: MakeBackground) -> Background:
    return background(payroll_server())


def clerk(client: Client) -> Client:
    return client.with_claims(scope=PAYROLL)


def asking_task(jobs: Background) -> str:
    """Return a task of the tool that needs the scope. The task waits for an answer."""
    params: JsonDict = {"name": "salary", "arguments": {}, "task": {}}
    task: str = clerk(jobs.client("2025")).request("tools/call", params).result["task"]["taskId"]
    assert jobs.work() == "asked"
    return task


def paused_task(jobs: Background) -> str:
    return clerk(jobs.client("2025")).get_prompt("payday").task_id


def cancelled_task(jobs: Background) -> str:
    task = paused_task(jobs)
    clerk(jobs.client("2025")).task("cancel", task)
    return task


def act(client: Client, action: str, task: str) -> Answer:
    return client.call_tool("harmless", {"task_id": task, "task_action": action})


REVISIONS = {Era.HANDSHAKE: "2025", Era.STATELESS: "2026"}

type Ask = Callable[[Client, str], Answer]

REQUESTS: dict[str, Ask] = {
    "tasks/get": lambda client, task: client.task("get", task),
    "tasks/get 2026": lambda client, task: client.in_era("2026").task("get", task),
    "tasks/result": lambda client, task: client.task("result", task),
    "tasks/cancel": lambda client, task: client.task("cancel", task),
    "tasks/cancel 2026": lambda client, task: client.in_era("2026").task("cancel", task),
    "tasks/cancel with a result": lambda client, task: client.task("cancel", task, result={"paid": 1}),
    "tasks/update": lambda client, task: client.in_era("2026").task("update", task, inputResponses={"who": {}}),
    "tasks/update without answers": lambda client, task: client.in_era("2026").task("update", task, inputResponses={}),
    "resources/read": lambda client, task: client.request(
        "resources/read", {"uri": value_uri(task, "_workflow.progress")}
    ),
    "resources/read of the result": lambda client, task: client.request(
        "resources/read", {"uri": value_uri(task, "_workflow.result")}
    ),
    "prompts/get": lambda client, task: client.get_prompt("harmless", task=task),
    "tools/call of a workflow": lambda client, task: client.call_tool("harmless", {"task_id": task}),
    "tools/call of a tool": lambda client, task: client.call_tool("note", task=task),
    "task_action show": lambda client, task: act(client, "show", task),
    "task_action cancel": lambda client, task: act(client, "cancel", task),
    "task_action complete": lambda client, task: act(client, "complete", task),
}


@pytest.mark.parametrize("send", REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize("make", [asking_task, paused_task, cancelled_task])
def test_a_task_whose_scopes_the_caller_lacks_has_the_answer_of_an_unknown_task(
    jobs: Background, make: Callable[[Background], str], send: Ask
) -> None:
    task = make(jobs)
    client, item_before = jobs.client("2025"), jobs.table.item(task)
    unknown_task = new_task_id(0)

    answer, missing_answer = send(client, task), send(client, unknown_task)

    assert (answer.status, answer.body) == (missing_answer.status, missing_answer.body.replace(unknown_task, task))
    assert jobs.table.item(task) == item_before


def names_of(task: str) -> JsonDict:
    """Return params that name a task in each way."""
    return {
        "taskId": task,
        "name": "harmless",
        "arguments": {"task_id": task},
        "uri": value_uri(task, "_workflow.progress"),
        "result": {"paid": 1},
        "inputResponses": {"who": name_answer("Eve")},
    }


METHODS_BY_ERA = [
    (REVISIONS[era], method)
    for era, methods in METHODS.items()
    for method in methods
    if method != "subscriptions/listen"
]


@pytest.mark.parametrize(("era", "method"), METHODS_BY_ERA)
def test_no_method_tells_more_of_the_task_than_of_an_unknown_one(jobs: Background, era: Any, method: str) -> None:
    task, unknown_task = asking_task(jobs), new_task_id(0)
    client, item_before = jobs.client(era), jobs.table.item(task)

    answers = [client.request(method, names_of(name), task_meta(name)) for name in (task, unknown_task)]

    assert answers[0].body == answers[1].body.replace(unknown_task, task)
    assert jobs.table.item(task) == item_before


def test_lists_and_streams_do_not_show_the_task_to_a_caller_without_the_scopes(jobs: Background) -> None:
    tasks = [asking_task(jobs), paused_task(jobs)]
    client = jobs.client("2025")
    harmless_task = client.get_prompt("harmless").task_id

    assert [item["taskId"] for item in client.request("tasks/list").result["tasks"]] == [harmless_task]
    tool_list = client.call_tool("harmless", {"task_action": "list"}).result["structuredContent"]["tasks"]
    assert [item["task_id"] for item in tool_list] == [harmless_task]
    assert "taskIds" not in listen(jobs, tasks)[0]["params"]["notifications"]
    clerk_list = clerk(client).request("tasks/list").result["tasks"]
    assert {item["taskId"] for item in clerk_list} == {harmless_task, *tasks}


def test_an_answer_to_a_question_on_a_stream_needs_the_scopes(jobs: Background) -> None:
    task = asking_task(jobs)
    client = jobs.client("2025")
    question, _ = stream_messages(clerk(client), "get", task)

    assert respond(client, question, result=name_answer("Kim")).status == 400
    assert clerk(client).task("get", task).result["status"] == "input_required"
    assert respond(clerk(client), question, result=name_answer("Kim")).status == 202
    assert jobs.work() == "completed"
    assert clerk(client).task("result", task).result["content"][0]["text"] == "5000, approved by Kim"


def test_a_caller_can_use_the_task_with_any_token_that_has_the_scopes(jobs: Background) -> None:
    task = asking_task(jobs)
    client = jobs.client("2026").with_claims(scp=["other", PAYROLL])

    client.task("update", task, inputResponses={"who": name_answer("Ola")})
    assert jobs.work() == "completed"
    assert "approved by Ola" in json.dumps(client.task("get", task).result["result"])
    second_task = paused_task(jobs)
    assert client.task("cancel", second_task).result
    assert client.task("get", second_task).result["status"] == "cancelled"


def test_a_task_keeps_the_scopes_of_tools_that_ran_under_an_earlier_definition(jobs: Background) -> None:
    task = paused_task(jobs)
    jobs.server = payroll_server(payday=False)
    client = jobs.client("2025")

    # The workflow needs no scope any more, but the task has the result of a tool that needs one.
    assert client.get_prompt("payday").meta["task_status"] == "completed"
    assert client.task("get", task).error["message"] == "Unknown task"
    assert "5000" in json.dumps(clerk(client).task("get", task).result)


def test_a_task_needs_the_scopes_of_each_call_that_is_recorded_in_it(jobs: Background) -> None:
    client = jobs.client("2025")
    task = client.get_prompt("harmless").task_id
    clerk(client).call_tool("pay", task=task)

    assert client.task("get", task).error["message"] == "Unknown task"
    assert "5000" in json.dumps(clerk(client).task("get", task).result)


@pytest.mark.parametrize("has_results", [False, True])
def test_an_open_list_needs_the_scopes_of_its_tool_if_it_has_results(has_results: bool) -> None:
    view = payroll_server(payday=False).full_view.visible_to({})
    pay = {"name": "pay", "tool": "pay", "status": "pending"}
    results: dict[str, Json] = {"_workflow.items.pay": {"elements": [1, 2], "results": {"0": 5000}}}
    items = results if has_results else {}
    variables: dict[str, Json] = {PROGRESS: {"goal": "", "steps": [pay], "schemaVersion": 1}, **items}
    task = TaskRecord("kim", "t", TaskStatus.WORKING, "", "", 1, 1, variables, workflow="payday")

    assert may_use(view, task) is not has_results


def test_a_task_of_a_removed_workflow_needs_every_scope(jobs: Background) -> None:
    client = jobs.client("2025")
    task = client.get_prompt("harmless").task_id
    server = payroll_server()
    del server.workflows["harmless"]
    jobs.server = server

    assert jobs.client("2025").task("get", task).error["message"] == "Unknown task"
    assert clerk(jobs.client("2025")).task("get", task).result["taskId"] == task


def test_the_check_adds_no_request_for_a_caller_with_all_scopes_and_one_read_before_a_write_for_others(
    jobs: Background, requests: Requests
) -> None:
    client = jobs.client("2025")
    first_task, second_task = (client.get_prompt("harmless").task_id for _ in range(2))
    requests.take()

    clerk(client).task("cancel", first_task)
    assert requests.take() == ["UpdateItem"]
    client.task("get", second_task)
    assert requests.take() == ["GetItem"]
    client.task("cancel", second_task)
    assert requests.take() == ["GetItem", "UpdateItem"]
