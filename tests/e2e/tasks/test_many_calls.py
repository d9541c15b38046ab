"""Many simultaneous calls of one tool: each is recorded, with few requests (docs/workflows.md)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from mcp_baton import Server, Step, Workflow, constant
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.table import TaskTable
from tests.e2e.conftest import MakeClient
from tests.e2e.support import BOUND_S, Client, Clock, Table, begin


def step_statuses(item: Item) -> list[str]:
    return [step["M"]["status"]["S"] for step in item["variables"]["M"]["_workflow.progress"]["M"]["steps"]["L"]]


def step_results(client: Client, task: str) -> dict[str, Any]:
    prefix = "_workflow.result."
    variables = client.variables(task)
    return {name.removeprefix(prefix): value for name, value in variables.items() if name.startswith(prefix)}


MANY = 32
REQUESTS = 150


@pytest.mark.parametrize("text", ["as planned", "otherwise {}"])
def test_many_calls_of_one_tool_at_once_take_few_requests(
    make_client: MakeClient, table: Table, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    all_have_read, requests = Barrier(MANY, timeout=BOUND_S), list[str]()
    server = Server("many")

    @server.tool
    def work(text: str) -> str:
        all_have_read.wait()
        return text

    steps = [Step(f"s{number}", tool="work", arguments={"text": constant("as planned")}) for number in range(MANY)]
    server.add_workflow(Workflow(name="flow", description="work", steps=steps))
    clock = Clock()
    client = make_client(server, remaining_ms=clock)
    task = begin(client, clock)
    for name in ("get", "update"):
        monkeypatch.setattr(TaskTable, name, counted(getattr(TaskTable, name), requests))

    with ThreadPoolExecutor(MANY) as pool:
        texts = [text.format(number) for number in range(MANY)]
        answers = list(pool.map(lambda said: client.call_tool("work", {"text": said}, task=task), texts))

    assert len(requests) < REQUESTS
    assert [answer.meta["recorded"] for answer in answers] == [True] * MANY
    item = table.item(task)
    assert step_statuses(item) == ["completed"] * MANY
    assert sorted(step_results(client, task).values()) == sorted(texts)
    # One write to create it, one for the pause, one a call: none was repeated, and none undone.
    assert item["version"] == {"N": str(2 + MANY)}


def counted[**Given, Value](function: Callable[Given, Value], requests: list[str]) -> Callable[Given, Value]:
    def noting(*args: Given.args, **kwargs: Given.kwargs) -> Value:
        requests.append(function.__name__)
        return function(*args, **kwargs)

    return noting
