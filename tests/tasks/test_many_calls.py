"""Many simultaneous calls of one tool are all recorded. If they name their steps, they take few requests."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from mcp_baton import Server, ToolStep, Workflow, constant
from tests.sent import Requests
from tests.support.client import BOUND_S, Clock, Table, begin
from tests.support.handler import MakeClient

COUNT = 32
REQUESTS = 150


@pytest.mark.parametrize(("text", "name", "most"), [("as planned", "/s{}", REQUESTS), ("otherwise {}", "", COUNT**2)])
def test_many_calls_of_one_tool_at_once_are_all_recorded(
    make_client: MakeClient, table: Table, requests: Requests, text: str, name: str, most: int
) -> None:
    all_have_read = Barrier(COUNT, timeout=BOUND_S)
    server = Server("many")

    @server.tool
    def work(text: str) -> str:
        all_have_read.wait()
        return text

    steps = [ToolStep(f"s{number}", tool="work", arguments={"text": constant("as planned")}) for number in range(COUNT)]
    server.add_workflow(Workflow(name="flow", description="work", steps=steps))
    clock = Clock()
    client = make_client(server, remaining_ms=clock)
    task = begin(client, clock)
    requests.take()

    with ThreadPoolExecutor(COUNT) as pool:
        texts, ids = zip(*((text.format(number), task + name.format(number)) for number in range(COUNT)), strict=True)
        answers = list(pool.map(lambda text, named: client.call_tool("work", {"text": text}, task=named), texts, ids))

    assert len(requests.take()) < most
    assert [answer.meta["recorded"] for answer in answers] == [True] * COUNT
    variables = client.variables(task)
    assert [step["status"] for step in variables["_workflow.progress"]["steps"]] == ["completed"] * COUNT
    results = [value for name, value in variables.items() if name.startswith("_workflow.result.")]
    assert sorted(results) == sorted(texts)
    # One write creates the task, one stores the pause, and each call is one write.
    assert table.item(task)["version"] == {"N": str(2 + COUNT)}
