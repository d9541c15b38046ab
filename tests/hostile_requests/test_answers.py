"""Small requests with large answers: each has a budget, and memory stays bounded."""

import gc
import tracemalloc
from collections.abc import Iterator
from typing import Literal

import pytest

from mcp_baton import Argument, Question, Server, ToolError, ToolStep, Workflow, constant
from mcp_baton.aws import dynamodb_store, handler
from mcp_baton.local.dynamodb import create_table, embedded_client
from mcp_baton.protocol.budget import MAX_ANSWER_BYTES
from mcp_baton.protocol.envelope import CAPABILITIES_KEY
from mcp_baton.settings import Settings
from mcp_baton.transport.exchange import stream_opener
from tests.support.client import Client, JsonDict

PEAK_BYTES = 30_000_000
"""The maximum memory of a poll: its budget as text, as values and as an answer, a few copies of each."""

TABLE = "answers"
SIZES = {"two_of_5_mb": [5_000_000] * 2, "many_that_fit": [400_000] * 9}


def heavy_server() -> Server:
    """Return a server with workflows whose results compress to a thousandth of their size."""
    server = Server("s")

    @server.tool
    def heavy(size: int) -> str:
        return "a" * size

    @server.tool
    def fails() -> None:
        raise ToolError("no")

    for name, sizes in SIZES.items():
        steps = [
            ToolStep(f"s{place}", tool="heavy", arguments={"size": constant(size)}) for place, size in enumerate(sizes)
        ]
        server.add_workflow(Workflow(name=name, description="w", steps=[*steps, ToolStep("end", tool="fails")]))

    @server.prompt
    def choose(letter: Literal["a", "b"]) -> str:
        return letter

    ask = Question("which", question="Which {text}?", of="user", returns=str)
    server.add_workflow(Workflow(name="asks", description="w", arguments=[Argument("text")], steps=[ask]))
    return server


LONG = "\u202e" * 900_000


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    dynamodb = embedded_client()
    create_table(dynamodb, TABLE)
    settings = Settings(table=TABLE)
    store = dynamodb_store(TABLE, settings, connect=lambda: dynamodb)
    yield Client(handler(heavy_server(), settings=settings, store=store))
    dynamodb.close()


def run(client: Client, workflow: str) -> str:
    """Run a workflow. Return its task from the list, the newest: Lambda would refuse the longest of the answers."""
    client.get_prompt(workflow)
    task = client.request("tasks/list").result["tasks"][0]
    return str(task["taskId"])


@pytest.mark.parametrize("workflow", SIZES)
def test_a_poll_of_a_task_with_large_results_stays_within_its_budget_and_memory(client: Client, workflow: str) -> None:
    task = run(client, workflow)
    poll = {"taskId": task, "_meta": {"mcp-baton/variables": "all"}}
    client.request("tasks/get", poll)
    gc.collect()
    tracemalloc.start()
    answer = client.request("tasks/get", poll)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(answer.body.encode()) <= MAX_ANSWER_BYTES
    assert peak < PEAK_BYTES
    inlined = [value for value in answer.meta.values() if isinstance(value, str)]
    assert sum(map(len, inlined)) == (0 if workflow == "two_of_5_mb" else sum(SIZES[workflow]))


@pytest.mark.parametrize(
    ("method", "params"),
    [
        (LONG, {}),
        ("tools/call", {"name": LONG}),
        ("tools/call", {"name": "heavy", "arguments": {LONG: 1}}),
        ("tools/call", {"name": "heavy", "arguments": {"size": LONG}}),
        ("prompts/get", {"name": "choose", "arguments": {LONG: "a"}}),
        ("prompts/get", {"name": "choose", "arguments": {"letter": LONG}}),
        ("resources/read", {"uri": LONG}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "ask"}, "argument": {"name": LONG, "value": ""}},
        ),
    ],
    ids=lambda value: "" if isinstance(value, str) else str(value)[:40],
)
def test_an_answer_does_not_repeat_the_whole_of_a_long_text(client: Client, method: str, params: JsonDict) -> None:
    assert len(client.request(method, params).body.encode()) < 1_000_000


def test_a_form_does_not_repeat_the_whole_of_a_long_value(client: Client) -> None:
    meta: JsonDict = {CAPABILITIES_KEY: {"elicitation": {"form": {}}}}
    call: JsonDict = {"name": "asks", "arguments": {"text": LONG}}
    answer = client.in_era("2026").request("tools/call", call, meta)
    assert answer.result["resultType"] == "input_required"
    assert len(answer.body.encode()) < 1_000_000


def test_a_long_value_is_streamed_with_few_copies_in_memory(client: Client) -> None:
    task = run(client, "two_of_5_mb")
    sent_bytes = 0

    class Wire:
        def write(self, data: bytes) -> None:
            nonlocal sent_bytes
            sent_bytes += len(data)

    def read_value() -> int:
        token = stream_opener.set(lambda _status, _headers: Wire())
        tracemalloc.start()
        client.request("resources/read", {"uri": f"baton://tasks/{task}/_workflow.result.s1"})
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        stream_opener.reset(token)
        return peak

    read_value()
    assert read_value() < 4 * 5_000_000
    assert sent_bytes > 2 * 5_000_000
