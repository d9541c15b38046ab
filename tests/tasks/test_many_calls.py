"""Many simultaneous calls of one tool are all recorded, with few requests (docs/workflows.md)."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from mcp_baton import Server, ToolStep, Workflow, constant
from tests.sent import Requests
from tests.support.client import BOUND_S, Clock, Table, begin
from tests.support.handler import MakeClient

COUNT = 32
REQUESTS = 150


@pytest.mark.parametrize("text", ["as planned", "otherwise {}"])
def test_many_calls_of_one_tool_at_once_take_few_requests(
    make_client: MakeClient, table: Table, requests: Requests, text: str
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
        texts = [text.format(number) for number in range(COUNT)]
        answers = list(pool.map(lambda message: client.call_tool("work", {"text": message}, task=task), texts))

    assert len(requests.take()) < REQUESTS
    assert [answer.meta["recorded"] for answer in answers] == [True] * COUNT
    variables = client.variables(task)
    assert [step["status"] for step in variables["_workflow.progress"]["steps"]] == ["completed"] * COUNT
    results = [value for name, value in variables.items() if name.startswith("_workflow.result.")]
    assert sorted(results) == sorted(texts)
    # One write creates the task, one stores the pause, and each call is one write.
    assert table.item(task)["version"] == {"N": str(2 + COUNT)}
