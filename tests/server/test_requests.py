"""The exact requests that each method sends to DynamoDB (docs/storage.md)."""

from collections.abc import Callable

import pytest

from mcp_baton import Fetch, Server, ToolError, ToolStep, Workflow
from mcp_baton.tasks.ids import new_task_id
from mcp_baton.workflow.steps.step import Step
from tests.console.test_apps import SHOWS_PAGES, ask
from tests.sent import Requests
from tests.support.client import Answer, Client, Era
from tests.support.handler import MakeClient

RUN = ["PutItem", "UpdateItem"]
LONG = "a step with a long name, which says what it does, number "


def flows_server() -> Server:
    server = Server("s")

    @server.tool
    def work(text: str = "done") -> str:
        return text

    @server.tool
    def fails() -> None:
        raise ToolError("no")

    @server.resource("docs://a")
    def docs() -> str:
        return "a"

    @server.prompt
    def greeting() -> str:
        return "Hello"

    def add(name: str, *steps: Step, durable: bool = True) -> None:
        server.add_workflow(Workflow(name=name, description="work", steps=steps, durable=durable))

    add("done", ToolStep("one", tool="work"), Fetch("two", resources=["docs://a"]), ToolStep("three", tool="work"))
    add("paused", ToolStep("one", tool="work"), ToolStep("two", tool="fails"), ToolStep("three", tool="work"))
    add("plain", ToolStep("one", tool="work"), durable=False)
    add("long", *[ToolStep(f"{LONG}{number}", tool="work") for number in range(60)])
    add("long_paused", *[ToolStep(f"{LONG}{number}", tool="work") for number in range(59)], ToolStep("x", tool="fails"))
    add("longest", *[ToolStep(f"{LONG}{number}", tool="work") for number in range(100)])
    add(
        "checkpoints",
        ToolStep("one", tool="work", checkpoint=True),
        ToolStep("two", tool="work"),
        ToolStep("three", tool="work", checkpoint=True),
        ToolStep("four", tool="work"),
    )
    return server


def paused_task(make_client: MakeClient, requests: Requests, era: Era = "2025") -> tuple[Client, str]:
    client = make_client(flows_server(), era=era)
    task = client.get_prompt("paused").task_id
    requests.take()
    return client, task


@pytest.mark.parametrize(
    ("workflow", "completed_count"), [("done", 3), ("paused", 1), ("long", 60), ("long_paused", 59), ("longest", 100)]
)
def test_a_run_of_any_length_is_one_put_and_one_update(
    make_client: MakeClient, requests: Requests, workflow: str, completed_count: int
) -> None:
    answer = make_client(flows_server()).get_prompt(workflow)
    assert requests.take() == RUN
    assert "persisted" not in answer.meta
    assert answer.statuses[:completed_count] == ["completed"] * completed_count
    assert answer.statuses[completed_count : completed_count + 1] == (["failed"] if "paused" in workflow else [])


@pytest.mark.parametrize(("workflow", "expected"), [("checkpoints", [*RUN, "UpdateItem", "UpdateItem"]), ("plain", [])])
def test_a_checkpoint_adds_one_update_and_a_run_that_is_not_durable_sends_nothing(
    make_client: MakeClient, requests: Requests, workflow: str, expected: list[str]
) -> None:
    make_client(flows_server()).get_prompt(workflow)
    assert requests.take() == expected


def test_a_start_by_the_tool_is_one_update_more_and_a_call_with_the_task_id_is_not(
    make_client: MakeClient, requests: Requests, era: Era
) -> None:
    client = make_client(flows_server(), era=era)
    task = client.call_tool("paused").meta["task_id"]
    assert requests.take() == ["UpdateItem", *RUN]
    client.call_tool("paused", {"task_id": task})
    assert requests.take() == ["UpdateItem", "UpdateItem"]
    client.call_tool("paused", {"task_id": "new"})
    assert requests.take() == ["UpdateItem", *RUN]


def test_an_equal_call_later_adds_one_get_and_one_update(make_client: MakeClient, requests: Requests, era: Era) -> None:
    client = make_client(flows_server(), era=era)
    client.call_tool("done")
    requests.take()
    client.call_tool("done")
    assert requests.take() == ["UpdateItem", "GetItem", "UpdateItem", *RUN]


CALLS: dict[str, tuple[Callable[[Client, str], Answer], list[str]]] = {
    "a continuation": (lambda client, task: client.call_tool("work", task=task), ["GetItem", "UpdateItem"]),
    "a failed continuation": (lambda client, task: client.call_tool("fails", task=task), ["GetItem", "UpdateItem"]),
    "a call for an unknown task": (lambda client, _: client.call_tool("work", task=new_task_id(0)), ["GetItem"]),
    "a call for bob": (lambda client, task: client.as_owner("bob").call_tool("work", task=task), ["GetItem"]),
    "a call with no task id": (lambda client, _: client.call_tool("work", task="no id at all"), []),
    "a resume, which claims the task and ends the run": (
        lambda client, task: client.get_prompt("paused", task=task),
        ["UpdateItem", "UpdateItem"],
    ),
    "a resume by another workflow": (lambda client, task: client.get_prompt("done", task=task), ["UpdateItem"]),
    "tasks/get": (lambda client, task: client.task("get", task), ["GetItem"]),
    "tasks/result": (lambda client, task: client.in_era("2025").task("result", task), ["GetItem"]),
    "tasks/update": (lambda client, task: client.in_era("2026").task("update", task, inputResponses={}), ["GetItem"]),
    "tasks/cancel": (lambda client, task: client.task("cancel", task), ["UpdateItem"]),
    "tasks/cancel with a result": (lambda client, task: client.task("cancel", task, result={}), ["UpdateItem"]),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_for_a_paused_task_sends_only_these_requests(
    make_client: MakeClient, requests: Requests, era: Era, call: str
) -> None:
    client, task = paused_task(make_client, requests, era)
    send, expected = CALLS[call]
    answer = send(client, task)
    assert requests.take() == expected
    if "continuation" in call:
        assert answer.meta["recorded"] is True
    if call == "tasks/cancel":
        send(client, task)
        assert requests.take() == expected, "a cancelled task"


def test_each_action_of_the_page_is_one_request_and_complete_is_two(
    make_client: MakeClient, requests: Requests, era: Era
) -> None:
    client, task = paused_task(make_client, requests, era)

    def act(action: str, **arguments: str) -> list[str]:
        ask(client, "tools/call", SHOWS_PAGES, {"name": "paused", "arguments": {"task_action": action, **arguments}})
        return requests.take()

    assert act("show", task_id=task) == ["GetItem"]
    assert act("list") == ["Query"]
    assert act("cancel", task_id=task) == ["UpdateItem"]
    assert act("complete", task_id=task) == ["GetItem", "UpdateItem"]
    assert act("show", task_id=task) == ["GetItem"]
    assert act("show", task_id="no id at all") == []
    client.request("resources/read", {"uri": "ui://baton/tasks"})
    assert requests.take() == []


def test_a_task_limit_adds_a_read_and_a_write_to_a_creation_and_a_write_to_an_end(
    make_client: MakeClient, requests: Requests
) -> None:
    make_client(flows_server(), max_tasks_per_owner=3).get_prompt("done")
    assert requests.take() == ["GetItem", "UpdateItem", *RUN, "UpdateItem"]


def test_calls_without_a_task_make_no_request(make_client: MakeClient, requests: Requests, era: Era) -> None:
    client = make_client(flows_server(), era=era)
    for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
        assert client.request(method).status == 200
    client.call_tool("work")
    client.get_prompt("greeting")
    client.request("resources/read", {"uri": "docs://a"})
    assert client.get_prompt("done", {"unknown": "x"}).error["code"] == -32602
    assert requests.take() == []
