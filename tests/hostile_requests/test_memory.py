"""Memory for large hostile bodies: it is at most a fixed multiple of their size, and it is released."""

import gc
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from mcp_baton import Approval, Server, ToolError, item, step
from mcp_baton.aws import dynamodb_store, handler
from mcp_baton.protocol.jsonrpc import MAX_BODY_VALUES
from mcp_baton.settings import Settings
from tests.hostile_requests.conftest import MAX_BODY_BYTES
from tests.hostile_requests.wire import HostileClient
from tests.memory_dynamodb import MemoryDynamoDB, memory_client
from tests.support.client import Client

PEAK = 60
"""The maximum multiple of the body limit. Python needs 24 for the densest JSON (`[{},{},…]`), and the body is kept as
text and as bytes."""

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
LARGE = {
    "lists": "[" + "[]," * 60_000 + "[]]",
    "objects": "[" + "{}," * 60_000 + "{}]",
    "numbers": "[" + "1," * 90_000 + "1]",
    "floats": "[" + "1.5," * 45_000 + "1]",
    "levels": "[" * 190_000,
    "keys": json.dumps({str(number): number for number in range(12_000)}),
    "pings": json.dumps([PING] * 3_500),
    "escapes": '"' + "\\ud800" * 30_000 + '"',
    "a name": json.dumps({**PING, "method": "x" * 190_000}),
    "an id": json.dumps({**PING, "id": "💥" * 15_000}),
    "a tool's arguments": json.dumps(
        {**PING, "method": "tools/call", "params": {"name": "order", "arguments": {"lines": [{}] * 40_000}}}
    ),
    "unknown arguments": json.dumps(
        {
            **PING,
            "method": "tools/call",
            "params": {"name": "echo", "arguments": {f"{number}": 1 for number in range(10_000)}},
        }
    ),
}


@pytest.fixture
def _traced_no_longer() -> Iterator[None]:
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("_traced_no_longer")
@pytest.mark.parametrize("body", LARGE.values(), ids=LARGE)
def test_the_memory_for_a_large_body_is_bounded_and_released(hostile: HostileClient, body: str) -> None:
    assert len(body) <= MAX_BODY_BYTES
    # The first request loads and caches data, so it is not measured. Tracing makes a request three times slower.
    hostile.post(body)
    gc.collect()
    tracemalloc.start()
    for _ in range(2):
        hostile.post(body)
    _, peak_bytes = tracemalloc.get_traced_memory()
    gc.collect()
    remaining_bytes, _ = tracemalloc.get_traced_memory()
    assert peak_bytes < PEAK * MAX_BODY_BYTES
    assert remaining_bytes < MAX_BODY_BYTES


MEMORY_BYTES = 350 * 1024 * 1024
"""The memory that a function of 512 MB has for a request."""

FEWER = 100
"""The test uses this part of the most values, because tracing is slow."""

UNITS = {
    "lists": ("[]", 1),
    "objects": ("{}", 1),
    "nested lists": ("[[]]", 2),
    "pairs": ('{"a":1}', 2),
    "texts": ('"a"', 1),
    "numbers": ("1.5", 1),
}
"""Texts of JSON with the number of their values."""

ELEMENTS = 100


def greedy_server() -> Server:
    """Return a server that keeps its arguments in every way."""
    server = Server("greedy", task_ids="text")

    @server.tool
    def anything(value: Any) -> Any:
        return value

    @server.tool
    def fails(value: Any) -> None:
        raise ToolError("no")

    @server.tool(approval=Approval("group"))
    def guarded(value: Any) -> str:
        return "x"

    @server.workflow
    def flow(value: list[Any]) -> None:
        """Use an argument of the workflow."""
        step(anything)(value=value)  # type: ignore[no-untyped-call]
        step(fails)(value=value)  # type: ignore[no-untyped-call]

    @server.workflow
    def elements(value: list[Any]) -> None:
        step(anything, each=value)(value=item())  # type: ignore[no-untyped-call]

    return server


def call_of(tool: str, unit: str, units: int) -> str:
    """Return a call whose argument is a list of lists."""
    row = f"[{','.join([unit] * (units // ELEMENTS))}]"
    value = f"[{','.join([row] * ELEMENTS)}]"
    return (
        f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"value":{value}}}}}}}'
    )


@pytest.mark.usefixtures("_traced_no_longer")
@pytest.mark.parametrize("tool", ["anything", "guarded", "flow", "elements"])
@pytest.mark.parametrize("unit", UNITS)
def test_the_most_values_of_a_body_fit_into_the_memory_of_the_function(tool: str, unit: str) -> None:
    memory = MemoryDynamoDB()
    with closing(memory_client(memory)) as dynamodb:
        memory.create("greedy")
        settings = Settings(table="greedy")
        store = dynamodb_store("greedy", settings, connect=lambda: dynamodb)
        client = Client(handler(greedy_server(), settings=settings, store=store))
        client.post(call_of(tool, "[]", ELEMENTS))
        text, values = UNITS[unit]
        body = call_of(tool, text, MAX_BODY_VALUES // FEWER // values)
        gc.collect()
        tracemalloc.start()
        client.post(body)
        _, peak_bytes = tracemalloc.get_traced_memory()
    assert peak_bytes < MEMORY_BYTES / FEWER


@pytest.mark.parametrize(("unit", "values"), UNITS.values(), ids=UNITS)
def test_a_body_with_more_values_is_refused_and_reaches_no_tool(large: HostileClient, unit: str, values: int) -> None:
    answer = large.post(call_of("anything", unit, MAX_BODY_VALUES // values))
    assert (answer.status, answer.messages[0]["error"]["code"]) == (400, -32600)
    assert "more than 400,000 values" in answer.body
    assert large.writes == []


def test_a_text_with_many_commas_is_one_value(large: HostileClient) -> None:
    answer = large.post(call_of("anything", json.dumps("[{," * 10_000), ELEMENTS))
    assert answer.status == 200
